#include "json_skim.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include "errors.hpp"

namespace mla_bench {
namespace {

constexpr std::size_t kNone = std::string_view::npos;

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
    for (std::size_t i = at; i < text_.size();) {
      const char c = text_[i];
      depth += c == '[' || c == '{' ? 1 : c == ']' || c == '}' ? -1 : 0;
      i = c == '"' ? past_string(i) : i + 1;
      if (depth == 0) {
        return i;
      }
    }
    fail("a list or object has no end", at);
  }

  struct Numbers {
    std::vector<double> values;
    std::size_t end;  // behind the list
  };

  // The list at `at`, which must be one of finite numbers.
  Numbers numbers(std::size_t at) const {
    Numbers list;
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
    for (std::size_t i = at; is_bracket(at) && i < text_.size();) {
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
      depth += c == '[' || c == '{' ? 1 : c == ']' || c == '}' ? -1 : 0;
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
  std::string_view text_;
  std::string_view origin_;
};

}  // namespace

SkimmedJson skim_json(std::string_view text, std::span<const std::string_view> dropped,
                      const LiftedKeys& lifted, std::string_view origin) {
  const Skimmer skimmer(text, origin);
  SkimmedJson skimmed;
  std::size_t copied = 0;  // the text before it is in `skimmed`
  const auto replace = [&](std::size_t from, std::size_t end, std::string_view by) {
    skimmed.text += text.substr(copied, from - copied);
    skimmed.text += by;
    copied = end;
  };
  for (std::size_t at = text.find('"'); at != kNone; at = text.find('"', at)) {
    const auto [key, end, value] = skimmer.string(at);
    at = end;
    if (!value) {
      continue;
    }
    if (key == lifted.group) {
      auto [lists, past] = skimmer.group(*value, lifted.numbers);
      skimmed.groups.push_back(std::move(lists));
      replace(*value, past, "[]");
      at = past;
    } else if (skimmer.is_bracket(*value) &&
               std::find(dropped.begin(), dropped.end(), key) != dropped.end()) {
      const std::size_t past = skimmer.past_brackets(*value);
      replace(*value, past, text[*value] == '[' ? "[]" : "null");
      at = past;
    }
  }
  skimmed.text += text.substr(copied);
  return skimmed;
}

}  // namespace mla_bench
