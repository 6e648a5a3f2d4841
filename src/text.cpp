#include "text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numeric>

namespace mla_bench {
namespace {

template <typename Number>
std::optional<Number> parse_whole(std::string_view text) {
  Number value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || error != std::errc{} || stop != end) {
    return std::nullopt;
  }
  return value;
}

// Letters to insert, leave out, replace or swap with their neighbour, each letter once (the optimal
// string alignment distance), a row for each letter of `a`.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1);  // two letters of `a` ago
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before.swap(last);
    last.swap(row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({row[j - 1] + 1, last[j] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
  }
  return row.back();
}

struct Scale {
  double size;
  std::string_view unit;
};

// The largest unit not above the value; the last one for smaller values.
Scale scale_of(double value, std::span<const Scale> scales) {
  const auto fits = [value](const Scale& scale) { return std::abs(value) >= scale.size; };
  const auto found = std::find_if(scales.begin(), scales.end(), fits);
  return found == scales.end() ? scales.back() : *found;
}

std::string scaled(double value, const Scale& scale) {
  const double number = value / scale.size;
  return fixed(number, number >= 100 ? 1 : 2) + " " + std::string(scale.unit);
}

}  // namespace

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) {
      return parts;
    }
    text.remove_prefix(end + 1);
  }
}

std::string join(std::span<const std::string> parts, std::string_view separator) {
  std::string text;
  for (const std::string& part : parts) {
    text += text.empty() ? "" : separator;
    text += part;
  }
  return text;
}

std::optional<std::int64_t> parse_integer(std::string_view text) {
  return parse_whole<std::int64_t>(text);
}

std::optional<std::uint64_t> parse_unsigned(std::string_view text) {
  return parse_whole<std::uint64_t>(text);
}

std::optional<double> parse_real(std::string_view text) {
  const std::optional<double> value = parse_whole<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

std::string fixed(double value, int digits) {
  std::array<char, 400> buffer;  // the longest double has 309 digits before the point
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                          std::chars_format::fixed, digits);
  return error == std::errc{} ? std::string(buffer.data(), end) : "?";
}

std::string shortest(double value) {
  if (!std::isfinite(value)) {
    return "";
  }
  std::array<char, 32> buffer;  // the longest takes 24
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return error == std::errc{} ? std::string(buffer.data(), end) : "?";
}

std::string human_time(double ns, double resolution_ns) {
  static constexpr std::array scales{Scale{1e9, "s"}, Scale{1e6, "ms"}, Scale{1e3, "us"},
                                     Scale{1, "ns"}};
  const Scale scale = scale_of(ns, scales);
  if (!(resolution_ns > 0)) {
    return scaled(ns, scale);
  }
  // The smallest power of ten that is not below the resolution; logarithms of powers of ten may lie
  // a bit above a whole number.
  constexpr double kBit = 1e-9;
  const double place = std::ceil(std::log10(resolution_ns) - kBit);
  const double step = std::pow(10, place);
  const int digits = static_cast<int>(std::max(0.0, std::round(std::log10(scale.size) - place)));
  return fixed(std::round(ns / step) * step / scale.size, digits) + " " + std::string(scale.unit);
}

std::string human_bytes(double bytes) {
  static constexpr std::array scales{Scale{0x1p40, "TiB"}, Scale{0x1p30, "GiB"},
                                     Scale{0x1p20, "MiB"}, Scale{0x1p10, "KiB"}, Scale{1, "B"}};
  return scaled(bytes, scale_of(bytes, scales));
}

std::vector<std::string> nearest(std::string_view unknown, std::span<const std::string> valid) {
  std::vector<std::pair<std::size_t, std::string>> near;
  for (const std::string& name : valid) {
    const std::size_t distance = edit_distance(unknown, name);
    const bool is_part = !unknown.empty() && name.find(unknown) != std::string::npos;
    // A third of the name mistyped is still a guess; more is another word.
    if (is_part || distance <= std::max<std::size_t>(1, name.size() / 3)) {
      near.emplace_back(distance, name);
    }
  }
  std::stable_sort(near.begin(), near.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min<std::size_t>(near.size(), 2); ++i) {
    names.push_back(near[i].second);
  }
  return names;
}

std::string unknown_name(std::string_view kind, std::string_view unknown,
                         std::span<const std::string> valid) {
  std::string message = "unknown " + std::string(kind) + " '" + printable(unknown) + "'";
  const std::vector<std::string> near = nearest(unknown, valid);
  message += near.empty() ? ";" : "; did you mean " + join(near, " or ") + "?";
  return message + " valid: " + join(valid, ", ");
}

namespace {

// Bytes of the UTF-8 character that begins there; 0 where none does (RFC 3629, section 4).
std::size_t character_at(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
  };
  const int first = byte(at);
  const int second = byte(at + 1);
  if (first < 0x80) {
    return 1;
  }
  const std::size_t length = first >= 0xc2 && first <= 0xdf   ? 2
                             : first >= 0xe0 && first <= 0xef ? 3
                             : first >= 0xf0 && first <= 0xf4 ? 4
                                                              : 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xc0) != 0x80) {
      return 0;
    }
  }
  // Longer than need be, half of a pair of UTF-16, or beyond the last character.
  const bool is_none = (first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
                       (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f);
  return is_none ? 0 : length;
}

}  // namespace

std::string printable(std::string_view text) {
  static constexpr std::string_view kHex = "0123456789abcdef";
  std::string shown;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = character_at(text, i);
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool is_c0 = byte < 0x20 || byte == 0x7f;
    // C1 controls are U+0080 .. U+009F: c2 80 .. c2 9f in UTF-8, 80 .. 9f to an 8-bit terminal.
    const bool is_c1 =
        length == 2 && byte == 0xc2 && static_cast<unsigned char>(text[i + 1]) < 0xa0;
    const std::size_t end = i + std::max<std::size_t>(length, 1);
    if (length > 0 && !is_c0 && !is_c1) {
      shown += text.substr(i, length);
    } else {
      for (std::size_t k = i; k < end; ++k) {
        const auto hidden = static_cast<unsigned char>(text[k]);
        shown += "\\x";
        shown += kHex[hidden >> 4];
        shown += kHex[hidden & 15];
      }
    }
    i = end;
  }
  return shown;
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kLongest = 200;
  std::size_t end = std::min(text.size(), kLongest);
  const auto is_continuation = [&](std::size_t at) {
    return (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80;
  };
  while (end < text.size() && end > 0 && is_continuation(end)) {
    --end;  // not within a character
  }
  return "'" + printable(text.substr(0, end)) + (end < text.size() ? "...'" : "'");
}

std::string shell_word(std::string_view text) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("-_./:,=+@%").find(c) != std::string_view::npos;
  };
  if (!text.empty() && std::all_of(text.begin(), text.end(), is_plain)) {
    return std::string(text);
  }
  std::string quoted = "'";
  for (const char c : text) {
    quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return quoted + "'";
}

}  // namespace mla_bench
