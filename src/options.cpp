#include "options.hpp"

#include <algorithm>
#include <array>

#include "build_facts.hpp"
#include "command_options.hpp"
#include "errors.hpp"
#include "output_file.hpp"
#include "text.hpp"

namespace mla_bench {
namespace {

constexpr std::string_view kExitCodes =
    "\nExit codes: 0 fine, 1 regression (gate) or a gate that errs (selftest), 2 usage or file "
    "error,\n"
    "3 a cell incorrect or failed, 4 untrusted or inconclusive with --strict, or undecided "
    "(selftest),\n"
    "5 incomparable, missing or nothing to compare or export, 6 environment unfit (gate, "
    "selftest),\n"
    "77 nothing could run here, 128+n ended by signal n. Where several apply: 2, 3, 77, 5, 6, 1, "
    "4.\n";

struct Command {
  std::string_view name;
  std::string_view summary;
  Grammar (*grammar)();
  bool takes_files;
  Options (*options)(const Parsed&);
};

constexpr std::array kCommands{
    Command{"run", "check and time variants (the default)", run_grammar, false,
            [](const Parsed& parsed) -> Options {
              if (parsed.has("version")) {
                return HelpOptions{version_text()};
              }
              return run_options(parsed);
            }},
    Command{"compare", "documents side by side: variants, GPUs, commits", compare_grammar, true,
            [](const Parsed& parsed) -> Options { return compare_options(parsed); }},
    Command{"export", "documents in the forms that other tools read", export_grammar, true,
            [](const Parsed& parsed) -> Options { return export_options(parsed); }},
    Command{"gate", "is a candidate slower, wrong or less exact than a baseline?", gate_grammar,
            true, [](const Parsed& parsed) -> Options { return gate_options(parsed); }},
    Command{"selftest", "what the gate finds here: planted work, planted wrong answers, nothing",
            selftest_grammar, false,
            [](const Parsed& parsed) -> Options { return selftest_options(parsed); }},
    Command{"list", "devices, and variants with why each can or cannot run here", list_grammar,
            false, [](const Parsed& parsed) -> Options { return list_options(parsed); }},
};

std::vector<std::string> command_names() {
  std::vector<std::string> names;
  for (const Command& command : kCommands) {
    names.emplace_back(command.name);
  }
  return names;
}

std::string commands_help() {
  constexpr std::size_t kWidth = 10;
  std::string text = "\nCommands:\n";
  for (const Command& command : kCommands) {
    text += "  " + std::string(command.name) + std::string(kWidth - command.name.size(), ' ') +
            std::string(command.summary) + "\n";
  }
  return text + "  mla-bench COMMAND --help tells more of each.\n" + std::string(kExitCodes);
}

struct NamedFile {
  std::string option;  // empty: a word that is none
  std::string path;
};

std::string words_of(const NamedFile& file) {
  return (file.option.empty() ? "the document" : "--" + file.option) + " '" + printable(file.path) +
         "'";
}

std::vector<NamedFile> named_files(const Grammar& grammar, const Parsed& parsed, FileUse use) {
  std::vector<NamedFile> files;
  for (const OptionGroup& group : grammar.groups) {
    for (const OptionRow& row : group.rows) {
      if (row.file == use && parsed.has(row.name)) {
        const bool is_list = row.value == std::string_view("LIST");
        for (const std::string& path :
             is_list ? list_of(parsed, row.name) : std::vector{*text_of(parsed, row.name)}) {
          files.push_back({.option = row.name, .path = path});
        }
      }
    }
  }
  return files;
}

// What is written must be neither read nor written a second time: it would be lost.
void refuse_lost_files(const Grammar& grammar, const Parsed& parsed) {
  std::vector<NamedFile> files = named_files(grammar, parsed, FileUse::kRead);
  for (const std::string& path : parsed.unmatched) {
    files.push_back({.option = "", .path = path});
  }
  for (const NamedFile& written : named_files(grammar, parsed, FileUse::kWritten)) {
    if (written.path == "-") {
      continue;
    }
    for (const NamedFile& other : files) {
      // The tensors of --input are read before those of --save are written.
      const bool may_be = written.option == "save" && other.option == "input";
      if (!may_be && is_same_file(written.path, other.path)) {
        throw UsageError(words_of(written) + " is the file of " + words_of(other) +
                         ", which would be lost: name another");
      }
    }
    files.push_back(written);
  }
}

}  // namespace

Options parse_options(std::span<const char* const> argv) {
  // cxxopts has no commands: the first word that is no option names one.
  const bool has_command = argv.size() > 1 && argv[1][0] != '-';
  const std::string command = has_command ? argv[1] : "run";
  const std::span<const char* const> arguments = has_command ? argv.subspan(1) : argv;

  if (command == "worker") {
    const std::optional<std::int64_t> channel =
        arguments.size() == 2 ? parse_integer(arguments[1]) : std::nullopt;
    if (!channel || *channel < 3 || *channel > 65535) {
      throw UsageError("worker is for mla-bench itself: use run");
    }
    return WorkerOptions{.channel = static_cast<int>(*channel)};
  }
  const auto found = std::find_if(kCommands.begin(), kCommands.end(),
                                  [&](const Command& known) { return known.name == command; });
  if (found == kCommands.end()) {
    throw UsageError(unknown_name("command", command, command_names()));
  }
  const Grammar grammar = found->grammar();
  const Parsed parsed = parse(grammar, arguments);
  if (parsed.has("help")) {
    return HelpOptions{grammar.help() + (command == "run" ? commands_help() : "")};
  }
  if (!found->takes_files && !parsed.unmatched.empty()) {
    throw UsageError("unexpected argument '" + printable(parsed.unmatched.front()) +
                     "': options begin with --, commands are " + join(command_names(), ", "));
  }
  Options options = found->options(parsed);
  refuse_lost_files(grammar, parsed);
  return options;
}

}  // namespace mla_bench
