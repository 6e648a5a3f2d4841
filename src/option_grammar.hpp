// The words of one command: which options it has, and what the texts that stand behind them mean.
//
// cxxopts splits the line into options and their texts. What the texts mean is decided here: its
// own number parsing takes prefixes ("1e-3x"), and its lists split file names at commas. Every
// reader throws UsageError that names the option and says what it takes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "errors.hpp"
#include "text.hpp"

namespace mla_bench {

// What was given of a grammar's options, as text.
struct Parsed {
  std::map<std::string, std::string> values;
  std::set<std::string> flags;
  std::vector<std::string> unmatched;  // words that are no options

  bool has(const std::string& option) const {
    return values.contains(option) || flags.contains(option);
  }
};

// What a command does with the file, or files, that an option names.
enum class FileUse { kNone, kRead, kWritten };

// One option of a command; `value` is what --help calls its value, null for a flag.
struct OptionRow {
  const char* name;
  const char* value;
  std::string help;
  FileUse file = FileUse::kNone;
};

// Title of the options that --help leaves out.
inline constexpr const char* kHidden = "Hidden";

struct OptionGroup {
  const char* title;
  std::vector<OptionRow> rows;
};

// A command's options, in the order that --help shows.
struct Grammar {
  std::string program;
  std::string purpose;
  std::vector<OptionGroup> groups;

  std::string help() const;
};

inline const OptionRow kHelp{"help", nullptr, "this text"};

std::vector<OptionRow> with(std::vector<OptionRow> rows, const OptionRow& row);

// Reads a line, the command's name first, and refuses what the grammar does not have.
Parsed parse(const Grammar& grammar, std::span<const char* const> argv);

// ---- what stands behind an option

std::vector<std::string> list_of(const Parsed& parsed, const std::string& option);

// Whole numbers from 1.
std::vector<std::int64_t> sizes_of(const Parsed& parsed, const std::string& option);

std::optional<std::string> text_of(const Parsed& parsed, const std::string& option);

double seconds_of(const Parsed& parsed, const std::string& option, double fallback, double least);

std::optional<int> count_of(const Parsed& parsed, const std::string& option, int least, int most);

// A number of that unit, in words for the error.
double positive_of(const Parsed& parsed, const std::string& option, double fallback,
                   const std::string& unit, double least, double most);

// The documents on a command line; at least one.
std::vector<std::string> files_of(const Parsed& parsed, const std::string& command);

template <typename Value>
std::vector<std::string> names_of(std::span<const Value> values) {
  std::vector<std::string> names;
  for (const Value value : values) {
    names.emplace_back(name_of(value));
  }
  return names;
}

// The values whose names are listed, in the user's order.
template <typename Value>
std::vector<Value> values_of(const Parsed& parsed, const std::string& option,
                             std::span<const Value> valid) {
  const std::vector<std::string> names = names_of(valid);
  std::vector<Value> values;
  for (const std::string& item : list_of(parsed, option)) {
    const auto found = std::find(names.begin(), names.end(), item);
    if (found == names.end()) {
      throw UsageError("--" + option + ": " + unknown_name(option, item, names));
    }
    values.push_back(valid[static_cast<std::size_t>(found - names.begin())]);
  }
  return values;
}

// The one value of an option that takes one of a few names.
template <typename Value>
std::optional<Value> value_of(const Parsed& parsed, const std::string& option,
                              std::span<const Value> valid) {
  const std::vector<Value> values = values_of<Value>(parsed, option, valid);
  if (values.size() > 1) {
    throw UsageError("--" + option + " takes one value, not a list");
  }
  return values.empty() ? std::nullopt : std::optional(values.front());
}

}  // namespace mla_bench
