// FNV-1a, 64 bits (Fowler, Noll and Vo; draft-eastlake-fnv): the same on every machine, unlike
// std::hash. It tells names and contents apart that differ by accident; it is no shield against
// someone who wants two to be alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace mla_bench {

class Fnv1a {
 public:
  void add(std::span<const std::byte> bytes) {
    for (const std::byte byte : bytes) {
      hash_ = (hash_ ^ std::to_integer<std::uint64_t>(byte)) * 0x100000001b3;
    }
  }
  void add(std::string_view text) { add(std::as_bytes(std::span(text))); }

  // Of what was added so far: 16 digits.
  std::string hex() const {
    static constexpr std::string_view kHex = "0123456789abcdef";
    std::string digits;
    for (int shift = 60; shift >= 0; shift -= 4) {
      digits += kHex[(hash_ >> shift) & 15];
    }
    return digits;
  }

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325;
};

}  // namespace mla_bench
