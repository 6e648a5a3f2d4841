// A promise that a reader made to its callers. Not assert(): it holds in release builds too.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace mla_bench {

inline void promised(bool kept, std::string_view what, std::string_view detail = "") {
  if (!kept) {
    std::fprintf(stderr, "a promise was broken: %.*s: %.*s\n", static_cast<int>(what.size()),
                 what.data(), static_cast<int>(detail.size()), detail.data());
    std::abort();
  }
}

// What a refusal looks like: one line, printable, that names the file.
inline void promised_refusal(std::string_view message, std::string_view path) {
  for (const char c : message) {
    promised(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f,
             "a refusal has no control characters", message);
  }
  promised(message.find(path) != message.npos, "a refusal names the file", message);
  constexpr std::size_t kReadable = 2000;
  promised(message.size() <= kReadable, "a refusal is short enough to read", message);
}

}  // namespace mla_bench
