// Philox4x32-10, a counter-based generator: block number `counter` of the stream `key`, in integer
// arithmetic alone, so that any element of a tensor can be drawn anywhere, by any thread.
// J. K. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
#pragma once

#include <array>
#include <cstdint>

namespace mla_bench {

using PhiloxBlock = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

constexpr PhiloxBlock philox(PhiloxBlock counter, PhiloxKey key) {
  constexpr int kRounds = 10;
  constexpr std::uint64_t kMultiplier0 = 0xD2511F53;
  constexpr std::uint64_t kMultiplier1 = 0xCD9E8D57;
  constexpr std::uint32_t kWeyl0 = 0x9E3779B9;  // golden ratio
  constexpr std::uint32_t kWeyl1 = 0xBB67AE85;  // sqrt(3) - 1
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t product0 = kMultiplier0 * counter[0];
    const std::uint64_t product1 = kMultiplier1 * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<std::uint32_t>(product0)};
    key = {key[0] + kWeyl0, key[1] + kWeyl1};
  }
  return counter;
}

// What random numbers are drawn for: draws for one purpose are independent of those for another.
enum class Draw : std::uint32_t { kHidden, kDown, kUpK, kUpV, kRows, kSigns };

// The four words of element `index` of one purpose, from the user's seed.
constexpr PhiloxBlock draw(std::uint64_t seed, Draw purpose, std::uint64_t index) {
  return philox({static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
                 static_cast<std::uint32_t>(purpose), 0},
                {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
}

// A number in 0 .. bound - 1 from one word, each as likely as the others within bound / 2^32.
constexpr std::uint32_t below(std::uint32_t bound, std::uint32_t word) {
  return static_cast<std::uint32_t>((std::uint64_t{bound} * word) >> 32);
}

}  // namespace mla_bench
