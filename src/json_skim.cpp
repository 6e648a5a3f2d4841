#include "json_skim.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include "errors.hpp"

namespace mla_bench {
namespace {

constexpr std::size_t kNone = std::string_view::npos;

// What skipping over a value looks at: all else is passed by in one step a character.
constexpr auto kIsMark = [] {
  std::array<bool, 256> is_mark{};
  for (const char c : {'"', '[', ']', '{', '}'}) {
    is_mark[static_cast<unsigned char>(c)] = true;
  }
  return is_mark;
}();

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// A place in the text. Strings are told from the rest as JSON has it; where the text is no JSON,
// what is left over is none either, and the parser says so.
class Skimmer {
 public:
  Skimmer(std::string_view text, std::string_view origin) : text_(text), origin_(origin) {}

  // Behind the white space at `at`.
  std::size_t past_space(std::size_t at) const {
    while (at < text_.size() &&
           (text_[at] == ' ' || text_[at] == '\n' || text_[at] == '\r' || text_[at] == '\t')) {
      ++at;
    }
    return at;
  }

  // Behind the string whose opening quote is at `at`.
  std::size_t past_string(std::size_t at) const {
    for (std::size_t i = at + 1; i < text_.size(); ++i) {
      if (text_[i] == '"') {
        return i + 1;
      }
      i += text_[i] == '\\' ? 1 : 0;  // the escaped character
    }
    fail("a string has no end", at);
  }

  // Behind the list or object whose opening bracket is at `at`.
  std::size_t past_brackets(std::size_t at) const {
    // Most are lists of numbers, and memchr finds their end faster than any loop here.
    const std::size_t close = text_[at] == '[' ? text_.find(']', at) : kNone;
    if (close != kNone) {
      const std::string_view inside = text_.substr(at + 1, close - at - 1);
      if (inside.find('"') == kNone && inside.find('[') == kNone && inside.find('{') == kNone) {
        return close + 1;
      }
    }
    int depth = 0;
    for (std::size_t i = next_mark(at); i < text_.size(); i = next_mark(i)) {
      const char c = text_[i];
      if (c == '"') {
        i = past_string(i);
        continue;
      }
      depth += c == '[' || c == '{' ? 1 : -1;
      ++i;
      if (depth == 0) {
        return i;
      }
    }
    fail("a list or object has no end", at);
  }

  // Behind the value at `at`, whatever it is.
  std::size_t past_value(std::size_t at) const {
    if (is_bracket(at)) {
      return past_brackets(at);
    }
    if (at < text_.size() && text_[at] == '"') {
      return past_string(at);
    }
    return std::min(text_.find_first_of(",]} \n\r\t", at), text_.size());
  }

  struct Numbers {
    std::vector<double> values;
    std::size_t end;  // behind the list
  };

  // The list at `at`, which must be one of finite numbers.
  Numbers numbers(std::size_t at) const {
    Numbers list;
    constexpr std::size_t kUsual = 31;  // samples of a round
    list.values.reserve(kUsual);
    if (at >= text_.size() || text_[at] != '[') {
      fail("a list of numbers is missing", at);
    }
    std::size_t i = past_space(at + 1);
    while (i < text_.size() && text_[i] != ']') {
      if (!list.values.empty()) {
        i = text_[i] == ',' ? past_space(i + 1) : fail("a list of numbers has no comma", i);
      }
      // from_chars also reads "inf", ".5" and "5.", which are not JSON.
      const std::size_t first = i + (text_.substr(i).starts_with('-') ? 1 : 0);
      double value = 0;
      const char* begin = text_.data() + i;
      const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
      if (first >= text_.size() || !is_digit(text_[first]) || error != std::errc{} ||
          !is_digit(*(end - 1)) || !std::isfinite(value)) {
        fail("a list of numbers holds something else, or one beyond the range of double", i);
      }
      list.values.push_back(value);
      i = past_space(i + static_cast<std::size_t>(end - begin));
    }
    if (i >= text_.size()) {
      fail("a list of numbers has no end", at);
    }
    list.end = i + 1;
    return list;
  }

  // A string and, if it is a key, where its value begins.
  struct String {
    std::string_view text;
    std::size_t end;                   // behind it
    std::optional<std::size_t> value;  // none: it is no key
  };

  String string(std::size_t at) const {
    const std::size_t end = past_string(at);
    String found{.text = text_.substr(at + 1, end - at - 2), .end = end, .value = {}};
    const std::size_t colon = past_space(end);
    if (colon < text_.size() && text_[colon] == ':') {
      found.value = past_space(colon + 1);
    }
    return found;
  }

  bool is_bracket(std::size_t at) const {
    return at < text_.size() && (text_[at] == '[' || text_[at] == '{');
  }

  struct Group {
    NumberLists lists;
    std::size_t end;  // behind it
  };

  // The list at `at`, of objects of which each has numbers under `key`.
  Group group(std::size_t at, std::string_view key) const {
    Group group;
    std::size_t objects = 0;
    int depth = 0;
    for (std::size_t i = at; is_bracket(at) && i < text_.size(); i = next_mark(i)) {
      const char c = text_[i];
      if (c == '"') {
        const String found = string(i);
        if (found.value && found.text == key) {
          auto [values, end] = numbers(*found.value);
          group.lists.push_back(std::move(values));
          i = end;
        } else {
          i = found.value && is_bracket(*found.value) ? past_brackets(*found.value) : found.end;
        }
        continue;
      }
      depth += c == '[' || c == '{' ? 1 : -1;
      objects += c == '{' ? 1 : 0;
      ++i;
      if (depth == 0) {
        if (group.lists.size() != objects) {
          fail("not every object of a list has its numbers", at);
        }
        group.end = i;
        return group;
      }
    }
    fail("a list of objects is missing or has no end", at);
  }

  [[noreturn]] std::size_t fail(std::string_view what, std::size_t at) const {
    throw UsageError(std::string(origin_) + " is not JSON as mla-bench writes it: " +
                     std::string(what) + " at byte " + std::to_string(at + 1));
  }

 private:
  // The place of the next quote or bracket from `at` on; the end where there is none.
  std::size_t next_mark(std::size_t at) const {
    while (at < text_.size() && !kIsMark[static_cast<unsigned char>(text_[at])]) {
      ++at;
    }
    return at;
  }

  std::string_view text_;
  std::string_view origin_;
};

}  // namespace

SkimmedJson skim_json(std::string_view text, const SkimRules& rules, std::string_view origin) {
  const Skimmer skimmer(text, origin);
  const auto is_among = [](std::span<const std::string_view> keys, std::string_view key) {
    return std::find(keys.begin(), keys.end(), key) != keys.end();
  };
  SkimmedJson skimmed;
  std::size_t copied = 0;  // the text before it is in `skimmed`
  const auto replace = [&](std::size_t from, std::size_t end, std::string_view by) {
    skimmed.text += text.substr(copied, from - copied);
    skimmed.text += by;
    copied = end;
  };
  for (std::size_t at = text.find('"'); at != kNone; at = text.find('"', at)) {
    const auto [key, end, value] = skimmer.string(at);
    const std::size_t begin = at;
    at = end;
    if (!value) {
      continue;
    }
    if (key == rules.group) {
      auto [lists, past] = skimmer.group(*value, rules.numbers);
      skimmed.groups.push_back(std::move(lists));
      replace(*value, past, "[]");
      at = past;
    } else if (is_among(rules.dropped, key)) {
      // With the comma behind it or, where it is the last of its object, the one before it.
      const std::size_t past = skimmer.past_value(*value);
      const std::size_t comma = skimmer.past_space(past);
      const bool is_last = comma >= text.size() || text[comma] != ',';
      replace(begin, is_last ? past : skimmer.past_space(comma + 1), "");
      if (is_last) {
        std::string& left = skimmed.text;
        left.erase(left.find_last_not_of(" \n\r\t,") + 1);
      }
      at = copied;
    } else if (skimmer.is_bracket(*value) && is_among(rules.emptied, key)) {
      const std::size_t past = skimmer.past_brackets(*value);
      replace(*value, past, text[*value] == '[' ? "[]" : "{}");
      at = past;
    }
  }
  skimmed.text += text.substr(copied);
  return skimmed;
}

}  // namespace mla_bench
