// gate and selftest.
#include <algorithm>
#include <array>

#include "cell_options.hpp"
#include "command_options.hpp"

namespace mla_bench {
namespace {

// Before the first look at a series of pairs there is nothing to judge.
constexpr int kFewestPairs = 5;

// How fresh processes measure, of gate and of selftest.
std::vector<OptionRow> series_rows() {
  return {
      {"rounds", "N", "of each cell in a process (default: 2)"},
      {"samples", "N", "of a round, fewer where a launch is long (default: 31)"},
      {"warmup", "SECONDS", "longest warm-up of each cell (default: 0.5)"},
      {"timeout", "SECONDS", "kill a process that takes so long (default: 600)"},
      {"times-only", nullptr,
       "leave floors, cold proof and second witness out of the first processes too"},
      {"keep", "FOLDER", "keep the documents of the processes there, in a new or empty folder"},
      {"quiet", nullptr, "no progress"},
  };
}

std::vector<OptionRow> gate_measuring_rows() {
  return with(with(series_rows(),
                   {"processes", "N",
                    "fresh processes of the candidate (default: 5); with --against the most of "
                    "each program (default: 21)"}),
              {"no-confirm", nullptr, "call a regression without a second series"});
}

SeriesOptions series_options(const Parsed& parsed) {
  SeriesOptions options;
  options.rounds = count_of(parsed, "rounds", 1, 1000).value_or(options.rounds);
  options.samples = count_of(parsed, "samples", 1, 1000);
  options.warmup_s = seconds_of(parsed, "warmup", options.warmup_s, 0);
  options.timeout_s = seconds_of(parsed, "timeout", options.timeout_s, 1);
  options.times_only = parsed.flags.contains("times-only");
  options.quiet = parsed.flags.contains("quiet");
  options.keep = text_of(parsed, "keep");
  return options;
}

GateFormat format_of(const std::string& file) {
  const auto ends = [&](std::string_view end) { return file.ends_with(end); };
  if (ends(".md")) {
    return GateFormat::kMarkdown;
  }
  if (ends(".xml")) {
    return GateFormat::kJunit;
  }
  if (ends(".json")) {
    return GateFormat::kJson;
  }
  if (ends(".txt")) {
    return GateFormat::kText;
  }
  throw UsageError("--output '" + printable(file) +
                   "' tells no format: name it .md, .xml, .json or .txt, or give --format");
}

std::vector<Planted> plants_of(const Parsed& parsed, double threshold) {
  constexpr double kMargin = 0.02;  // of what the gate promises to find
  const auto work = [](double part) {
    return Planted{.kind = PlantKind::kWork, .slow_down = part};
  };
  const std::array<std::pair<std::string_view, Planted>, 3> named{
      {{"below", work(threshold / 2)},
       {"at", work(threshold)},
       {"above", work(threshold + kMargin)}}};
  std::vector<Planted> plants;
  for (const std::string& item : list_of(parsed, "plant")) {
    const auto found = std::find_if(named.begin(), named.end(),
                                    [&](const auto& entry) { return entry.first == item; });
    const std::optional<Planted> planted =
        found != named.end() ? std::optional(found->second) : planted_from(item);
    if (!planted) {
      throw UsageError(
          "--plant takes nothing, below, at, above, work:FRACTION, wrong_element, "
          "nothing_written or first_call_only, not '" +
          printable(item) + "'");
    }
    plants.push_back(*planted);
  }
  if (plants.empty()) {
    plants = {{},
              named[0].second,
              named[1].second,
              named[2].second,
              {.kind = PlantKind::kWrongElement},
              {.kind = PlantKind::kNothingWritten},
              {.kind = PlantKind::kFirstCallOnly}};
  }
  return plants;
}

}  // namespace

Grammar gate_grammar() {
  return {
      "mla-bench gate (--baseline FILE [CANDIDATE...] | --against PROGRAM)",
      "Tells whether a candidate is slower, wrong or less exact than a baseline, a verdict for\n"
      "every cell, and ends with 1 where it is. The evidence is fresh processes, not samples.\n"
      "  --baseline FILE    against documents; the candidate is documents too, or this program,\n"
      "                     measured with the baseline's cells\n"
      "  --against PROGRAM  this program against another mla-bench, taking turns\n",
      {
          {"Against what",
           {
               {"baseline", "LIST", "documents of mla-bench run or of gate --update",
                FileUse::kRead},
               {"against", "PROGRAM", "the mla-bench of before", FileUse::kRead},
               {"allow-environment", nullptr,
                "compare though device, driver, clocks, build or the values of --input differ, and "
                "say how"},
           }},
          {"Rules",
           {
               {"threshold", "PERCENT", "the slow-down that is not let through (default: 3)"},
               {"error-factor", "FACTOR", "so many times the error may grow (default: 2)"},
               {"strict", nullptr, "end with 4 where a cell is inconclusive"},
           }},
          {"What to run, with --against (--baseline has its own cells)", cell_rows()},
          {kProblemTitle, problem_rows()},
          {"Inputs", input_rows()},
          {"Measuring", gate_measuring_rows()},
          {"Output",
           {
               {"output", "FILE",
                "write the report there too: .md, .xml (JUnit), .json, .txt, or as --format says",
                FileUse::kWritten},
               {"format", "NAME", "text, md, junit or json (default: text)"},
               {"update", nullptr,
                "write what was measured as the baseline, if all is well: with --strict, so that 0 "
                "means that it did"},
               kHelp,
           }},
      }};
}

GateOptions gate_options(const Parsed& parsed) {
  GateOptions options{.baselines = list_of(parsed, "baseline"),
                      .against = text_of(parsed, "against"),
                      .candidates = parsed.unmatched,
                      .cells = {}};
  if (options.baselines.empty() == !options.against) {
    throw UsageError("gate needs --baseline FILE or --against PROGRAM, one of them");
  }
  options.cells = cell_words(parsed);
  if (options.against) {
    if (!options.candidates.empty()) {
      throw UsageError("--against measures both programs: leave out '" +
                       printable(options.candidates.front()) + "'");
    }
    // What a run would refuse is refused here, before two programs are started.
    RunOptions run;
    read_cells(parsed, run);
  } else if (!options.cells.empty()) {
    throw UsageError(options.cells.front() +
                     " is for --against: with --baseline the cells are the baseline's");
  }
  options.rules.threshold =
      positive_of(parsed, "threshold", 100 * options.rules.threshold, "percent", 0.1, 1000) / 100;
  options.rules.error_factor =
      positive_of(parsed, "error-factor", options.rules.error_factor, "a factor", 1, 1e6);
  options.rules.allow_environment = parsed.flags.contains("allow-environment");
  options.rules.is_paired = options.against.has_value();
  options.rules.compares_build = !options.against;
  options.processes = count_of(parsed, "processes", options.against ? kFewestPairs : 2, 1000);
  options.series = series_options(parsed);
  options.update = parsed.flags.contains("update");
  options.strict = parsed.flags.contains("strict") || options.update;
  options.confirm = !parsed.flags.contains("no-confirm");
  options.output = text_of(parsed, "output");
  const std::optional<GateFormat> format = value_of<GateFormat>(parsed, "format", kGateFormats);
  options.format = format                                     ? *format
                   : options.output && *options.output != "-" ? format_of(*options.output)
                                                              : GateFormat::kText;
  if (options.output == "-") {
    options.output.reset();
  }
  if (options.update && (options.against || options.baselines.size() != 1)) {
    throw UsageError("--update writes the one document of --baseline");
  }
  if (options.update && !options.candidates.empty()) {
    throw UsageError("--update writes what gate measured itself: leave out '" +
                     printable(options.candidates.front()) + "'");
  }
  for (const OptionRow& row : gate_measuring_rows()) {
    const bool is_harmless = row.name == std::string_view("quiet");
    if (!options.candidates.empty() && parsed.has(row.name) && !is_harmless) {
      throw UsageError("--" + std::string(row.name) +
                       " is for a candidate that is measured: leave out '" +
                       printable(options.candidates.front()) + "'");
    }
  }
  return options;
}

Grammar selftest_grammar() {
  return {
      "mla-bench selftest",
      "Tells what the gate finds on this machine today: this program against itself, by the same\n"
      "processes, looks and second series as gate --against, with work and wrong answers planted\n"
      "in hidden copies of each cell. Keeps how far two processes of one program lie apart, where\n"
      "all came out as promised; the gate then calls no regression below three times that.\n"
      "Ends with 1 where the gate erred, with 4 where noise left it undecided.\n",
      {
          {"What to plant",
           {
               {"plant", "LIST",
                "of nothing, below, at, above (the threshold: half of it, itself, and two points "
                "more), work:FRACTION, wrong_element, nothing_written, first_call_only (default: "
                "all but work:FRACTION)"},
               {"threshold", "PERCENT", "of the gate that is tried (default: 3)"},
           }},
          {"What to run (default: cooperative)", cell_rows()},
          {kProblemTitle, problem_rows()},
          {"Inputs", input_rows()},
          {"Measuring",
           with(series_rows(), {"processes", "N", "most of each program, 5 or more (default: 9)"})},
          {"Output",
           {
               {"output", "FILE", "write the report there as JSON too; - is stdout",
                FileUse::kWritten},
               {"format", "NAME", "text or json (default: text)"},
               kHelp,
           }},
      }};
}

SelftestOptions selftest_options(const Parsed& parsed) {
  SelftestOptions options;
  options.cells = cell_words(parsed);
  RunOptions run;
  read_cells(parsed, run);  // refuses here what a run would refuse
  if (!parsed.has("variant")) {
    options.cells.insert(options.cells.end(), {"--variant", "cooperative"});
  }
  options.threshold =
      positive_of(parsed, "threshold", 100 * options.threshold, "percent", 0.1, 1000) / 100;
  options.plants = plants_of(parsed, options.threshold);
  options.pairs = count_of(parsed, "processes", kFewestPairs, 1000).value_or(options.pairs);
  options.series = series_options(parsed);
  options.output = text_of(parsed, "output");
  const bool is_stdout = options.output == "-";
  const std::string format = text_of(parsed, "format").value_or(is_stdout ? "json" : "text");
  if (format != "text" && format != "json") {
    throw UsageError("--format takes text or json, not '" + printable(format) + "'");
  }
  options.json = format == "json";
  if (is_stdout) {
    options.output.reset();
  }
  return options;
}

}  // namespace mla_bench
