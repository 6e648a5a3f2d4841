#include "option_grammar.hpp"

#include <cxxopts.hpp>

namespace mla_bench {
namespace {

// cxxopts takes a following option as the value of one that needs a value.
void refuse_option_as_value(const std::string& option, const std::string& text) {
  if (text.starts_with("--")) {
    throw UsageError("--" + option + " needs a value, not the option '" + printable(text) + "'");
  }
}

// cxxopts takes --quiet=false for --quiet, and its error for --quiet=maybe names no option.
void refuse_values_of_flags(const cxxopts::Options& grammar, std::span<const char* const> argv) {
  for (const std::string& group : grammar.groups()) {
    for (const auto& option : grammar.group_help(group).options) {
      const std::string start = "--" + option.l.front() + "=";
      const bool has_value = std::any_of(argv.begin(), argv.end(), [&](std::string_view argument) {
        return argument.starts_with(start);
      });
      if (option.is_boolean && has_value) {
        throw UsageError("option '--" + option.l.front() + "' takes no value");
      }
    }
  }
}

// cxxopts keeps the last value and drops the others.
std::string one_value_of(const cxxopts::ParseResult& result, const OptionRow& row) {
  const std::string option = row.name;
  std::vector<std::string> values;
  for (const cxxopts::KeyValue& given : result.arguments()) {
    if (given.key() == option) {
      values.push_back(printable(given.value()));
    }
  }
  if (values.size() > 1) {
    const bool is_list = std::string_view(row.value) == "LIST";
    throw UsageError("--" + option + " is given " +
                     (values.size() == 2 ? "twice" : std::to_string(values.size()) + " times") +
                     (is_list ? ": give one list, --" + option + " " + join(values, ",")
                              : ": it takes one value, " + join(values, " or ")));
  }
  return result[option].as<std::string>();
}

cxxopts::Options cxxopts_of(const Grammar& grammar) {
  cxxopts::Options options(grammar.program, grammar.purpose);
  for (const OptionGroup& group : grammar.groups) {
    cxxopts::OptionAdder add = options.add_options(group.title);
    for (const OptionRow& row : group.rows) {
      if (row.value == nullptr) {
        add(row.name, row.help);
      } else {
        add(row.name, row.help, cxxopts::value<std::string>(), row.value);
      }
    }
  }
  return options;
}

Parsed parsed_of(const Grammar& grammar, const cxxopts::ParseResult& result) {
  Parsed parsed{.values = {}, .flags = {}, .unmatched = result.unmatched()};
  for (const OptionGroup& group : grammar.groups) {
    for (const OptionRow& row : group.rows) {
      if (result.count(row.name) == 0) {
        continue;
      }
      if (row.value == nullptr) {
        parsed.flags.insert(row.name);
      } else {
        parsed.values.emplace(row.name, one_value_of(result, row));
      }
    }
  }
  return parsed;
}

}  // namespace

std::vector<OptionRow> with(std::vector<OptionRow> rows, const OptionRow& row) {
  rows.push_back(row);
  return rows;
}

std::string Grammar::help() const {
  std::vector<std::string> titles;  // cxxopts would sort them by name
  for (const OptionGroup& group : groups) {
    if (group.title != std::string_view(kHidden)) {
      titles.emplace_back(group.title);
    }
  }
  return cxxopts_of(*this).help(titles);
}

Parsed parse(const Grammar& described, std::span<const char* const> argv) {
  cxxopts::Options grammar = cxxopts_of(described);
  refuse_values_of_flags(grammar, argv);
  try {
    return parsed_of(described, grammar.parse(static_cast<int>(argv.size()), argv.data()));
  } catch (const cxxopts::exceptions::no_such_option&) {
    // Its message has typographic quotes and no hint; find the culprit again for a better one.
    std::vector<std::string> valid;
    std::vector<std::string> flags;
    for (const std::string& group : grammar.groups()) {
      for (const auto& option : grammar.group_help(group).options) {
        valid.push_back("--" + option.l.front());
        if (option.is_boolean) {
          flags.push_back(valid.back());
        }
      }
    }
    const auto is_in = [](const std::vector<std::string>& names, const std::string& name) {
      return std::find(names.begin(), names.end(), name) != names.end();
    };
    bool is_value = false;  // of the option before it
    for (const std::string_view argument : argv.subspan(1)) {
      const std::string name(argument.substr(0, argument.find('=')));
      if (is_value || is_in(valid, name)) {
        is_value = !is_value && !is_in(flags, name) && name.size() == argument.size();
      } else if (name.starts_with("-")) {
        const std::vector<std::string> near = nearest(name, valid);
        throw UsageError(
            "unknown option '" + printable(name) + "'" +
            (near.empty() ? "; --help lists them" : "; did you mean " + join(near, " or ") + "?"));
      }
    }
    throw UsageError("unknown option; --help lists them");
  } catch (const cxxopts::exceptions::missing_argument&) {
    throw UsageError("option '" + printable(argv.back()) + "' needs a value");
  } catch (const cxxopts::exceptions::exception& error) {
    throw UsageError(printable(error.what()) + "; --help lists the options");
  }
}

std::vector<std::string> list_of(const Parsed& parsed, const std::string& option) {
  if (!parsed.has(option)) {
    return {};
  }
  const std::string text = parsed.values.at(option);
  refuse_option_as_value(option, text);
  const std::vector<std::string> items = split(text, ',');
  if (std::find(items.begin(), items.end(), "") != items.end()) {
    throw UsageError("--" + option + " has an empty item: give values separated by single commas");
  }
  return items;
}

std::vector<std::int64_t> sizes_of(const Parsed& parsed, const std::string& option) {
  std::vector<std::int64_t> sizes;
  for (const std::string& item : list_of(parsed, option)) {
    const std::optional<std::int64_t> size = parse_integer(item);
    if (!size || *size < 1) {
      throw UsageError("--" + option + " takes whole numbers from 1 to 2^63 - 1, not '" +
                       printable(item) + "'");
    }
    sizes.push_back(*size);
  }
  return sizes;
}

std::optional<std::string> text_of(const Parsed& parsed, const std::string& option) {
  if (!parsed.has(option)) {
    return std::nullopt;
  }
  const std::string text = parsed.values.at(option);
  refuse_option_as_value(option, text);
  if (text.empty()) {
    throw UsageError("--" + option + " needs a value");
  }
  return text;
}

double seconds_of(const Parsed& parsed, const std::string& option, double fallback, double least) {
  const std::optional<std::string> text = text_of(parsed, option);
  if (!text) {
    return fallback;
  }
  const std::optional<double> seconds = parse_real(*text);
  if (!seconds || *seconds < least || *seconds > 1e6) {
    throw UsageError("--" + option + " takes seconds from " +
                     fixed(least, least > 0 && least < 1 ? 1 : 0) + " to 1000000, not '" +
                     printable(*text) + "'");
  }
  return *seconds;
}

std::optional<int> count_of(const Parsed& parsed, const std::string& option, int least, int most) {
  const std::optional<std::string> text = text_of(parsed, option);
  if (!text) {
    return std::nullopt;
  }
  const std::optional<std::int64_t> count = parse_integer(*text);
  if (!count || *count < least || *count > most) {
    throw UsageError("--" + option + " takes a whole number from " + std::to_string(least) +
                     " to " + std::to_string(most) + ", not '" + printable(*text) + "'");
  }
  return static_cast<int>(*count);
}

double positive_of(const Parsed& parsed, const std::string& option, double fallback,
                   const std::string& unit, double least, double most) {
  const std::optional<std::string> text = text_of(parsed, option);
  if (!text) {
    return fallback;
  }
  const std::optional<double> value = parse_real(*text);
  if (!value || !(*value >= least) || !(*value <= most)) {
    throw UsageError("--" + option + " takes " + unit + " from " + shortest(least) + " to " +
                     shortest(most) + ", not '" + printable(*text) + "'");
  }
  return *value;
}

std::vector<std::string> files_of(const Parsed& parsed, const std::string& command) {
  const std::vector<std::string>& files = parsed.unmatched;
  if (files.empty()) {
    throw UsageError(command + " needs a document: mla-bench " + command + " FILE...");
  }
  if (std::find(files.begin(), files.end(), "") != files.end()) {
    throw UsageError(command + ": the name of a document is empty");
  }
  return files;
}

}  // namespace mla_bench
