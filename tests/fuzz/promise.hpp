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

// Whether a terminal would take a part of the text for a command: C0 controls but those of
// `allowed`, DEL, and the C1 controls U+0080 .. U+009F.
inline bool has_controls(std::string_view text, std::string_view allowed = "") {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : 0);
    const bool is_allowed = allowed.find(text[i]) != allowed.npos;
    if ((byte < 0x20 && !is_allowed) || byte == 0x7f ||
        (byte == 0xc2 && next >= 0x80 && next < 0xa0)) {
      return true;
    }
  }
  return false;
}

// What a refusal looks like: one line, printable, that names the file.
inline void promised_refusal(std::string_view message, std::string_view path) {
  promised(!has_controls(message), "a refusal has no control characters", message);
  promised(message.find(path) != message.npos, "a refusal names the file", message);
  constexpr std::size_t kReadable = 2000;
  promised(message.size() <= kReadable, "a refusal is short enough to read", message);
}

}  // namespace mla_bench
