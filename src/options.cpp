#include "options.hpp"

#include <algorithm>
#include <array>
#include <cxxopts.hpp>
#include <map>

#include "build_facts.hpp"
#include "errors.hpp"
#include "text.hpp"

namespace mla_bench {
namespace {

// cxxopts splits the line into options and their texts. What the texts mean is decided here: its
// own number parsing takes prefixes ("1e-3x"), and its lists split file names at commas.
using Parsed = cxxopts::ParseResult;

// cxxopts takes a following option as the value of one that needs a value.
void refuse_option_as_value(const std::string& option, const std::string& text) {
  if (text.starts_with("--")) {
    throw UsageError("--" + option + " needs a value, not the option '" + printable(text) + "'");
  }
}

std::vector<std::string> list_of(const Parsed& parsed, const std::string& option) {
  if (parsed.count(option) == 0) {
    return {};
  }
  const std::string text = parsed[option].as<std::string>();
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

// The values whose names are listed, in the user's order.
template <typename Value>
std::vector<Value> values_of(const Parsed& parsed, const std::string& option,
                             std::span<const Value> valid) {
  std::vector<std::string> names;
  for (const Value value : valid) {
    names.emplace_back(name_of(value));
  }
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

std::optional<std::string> text_of(const Parsed& parsed, const std::string& option) {
  if (parsed.count(option) == 0) {
    return std::nullopt;
  }
  const std::string text = parsed[option].as<std::string>();
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

// The beginning of a GPU's UUID, as nvidia-smi -L prints it: "GPU-" or "MIG-", then hexadecimal
// digits and hyphens.
bool is_uuid(std::string_view text) {
  constexpr std::size_t kPrefix = 4;
  const auto is_part = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F') || c == '-';
  };
  return (text.starts_with("GPU-") || text.starts_with("MIG-")) && text.size() > kPrefix &&
         std::all_of(text.begin() + kPrefix, text.end(), is_part);
}

// Empty where none is named.
std::vector<DeviceRequest> devices_of(const Parsed& parsed) {
  using Kind = DeviceRequest::Kind;
  std::vector<DeviceRequest> devices;
  for (const std::string& item : list_of(parsed, "device")) {
    const std::int64_t ordinal =
        item.starts_with("cuda:") ? parse_integer(item.substr(5)).value_or(-1) : -1;
    if (item == "auto") {
      devices.push_back({.kind = Kind::kAuto});
    } else if (item == "cpu") {
      devices.push_back({.kind = Kind::kCpu});
    } else if (item == "cuda:all") {
      devices.push_back({.kind = Kind::kCudaAll});
    } else if (ordinal >= 0 && ordinal <= 1023) {
      devices.push_back({.kind = Kind::kCuda, .ordinal = static_cast<int>(ordinal)});
    } else if (is_uuid(item)) {
      devices.push_back({.kind = Kind::kUuid, .uuid = item});
    } else {
      throw UsageError(
          "--device takes auto, cpu, cuda:all, cuda:N or a UUID (GPU-...), or a list of them, "
          "not '" +
          printable(item) + "'");
    }
  }
  return devices;
}

InputSource inputs_of(const Parsed& parsed) {
  static constexpr std::array kDistributions{Distribution::kNormal, Distribution::kPositive,
                                             Distribution::kExact};
  InputSource source{
      .distribution = Distribution::kNormal, .seed = 0, .file = text_of(parsed, "input")};
  const std::vector<Distribution> chosen =
      values_of<Distribution>(parsed, "inputs", kDistributions);
  if (source.file && (!chosen.empty() || parsed.count("seed") > 0)) {
    throw UsageError("--input reads every tensor from the file: leave out --inputs and --seed");
  }
  if (chosen.size() > 1) {
    throw UsageError("--inputs takes one distribution, not a list");
  }
  if (!chosen.empty()) {
    source.distribution = chosen.front();
  }
  if (const std::optional<std::string> seed = text_of(parsed, "seed")) {
    const std::optional<std::uint64_t> value = parse_unsigned(*seed);
    if (!value) {
      throw UsageError("--seed takes a whole number from 0 to 2^64 - 1, not '" + printable(*seed) +
                       "'");
    }
    source.seed = *value;
  }
  return source;
}

std::vector<L2State> l2_states_of(const Parsed& parsed) {
  const std::string text = text_of(parsed, "l2").value_or("hot");
  if (text == "both") {
    return {L2State::kHot, L2State::kCold};
  }
  if (text != "hot" && text != "cold") {
    throw UsageError("--l2 takes hot, cold or both, not '" + printable(text) + "'");
  }
  return {text == "hot" ? L2State::kHot : L2State::kCold};
}

// One option of a command; `value` is what --help calls its value, null for a flag.
struct OptionRow {
  const char* name;
  const char* value;
  const char* help;
};

// Title of the options that --help leaves out.
constexpr const char* kHidden = "Hidden";

struct OptionGroup {
  const char* title;
  std::vector<OptionRow> rows;
};

// A command's options, and the order of its groups for --help, which cxxopts would sort by name.
struct Grammar {
  cxxopts::Options options;
  std::vector<std::string> titles;
  std::map<std::string, bool> takes_list;  // of the options that take a value

  std::string help() const { return options.help(titles); }
};

Grammar grammar_of(const std::string& program, const std::string& purpose,
                   const std::vector<OptionGroup>& groups) {
  Grammar grammar{.options = cxxopts::Options(program, purpose), .titles = {}, .takes_list = {}};
  for (const OptionGroup& group : groups) {
    if (group.title != std::string_view(kHidden)) {
      grammar.titles.emplace_back(group.title);
    }
    cxxopts::OptionAdder add = grammar.options.add_options(group.title);
    for (const OptionRow& row : group.rows) {
      if (row.value == nullptr) {
        add(row.name, row.help);
      } else {
        add(row.name, row.help, cxxopts::value<std::string>(), row.value);
        grammar.takes_list.emplace(row.name, std::string_view(row.value) == "LIST");
      }
    }
  }
  return grammar;
}

constexpr OptionRow kDevice{"device", "LIST",
                            "auto, cpu, cuda:N, cuda:all, or UUIDs (default: auto, the first GPU, "
                            "else the CPU), one after the other"};
constexpr OptionRow kHelp{"help", nullptr, "this text"};

// What a run measures, as run and gate take it.
std::vector<OptionRow> cell_rows() {
  return {
      {"variant", "LIST", "variants by name, or all (see mla-bench list)"},
      {"precision", "LIST", "fp32, tf32, bf16, fp16 (default: fp32, or the input file's)"},
      kDevice,
      {"concurrent", nullptr, "all GPUs of --device at the same time, round by round"},
      {"l2", "STATE", "hot, cold or both: are operands in the last-level cache (default: hot)"},
      {"threads", "N", "OpenMP threads of CPU variants (default: all cores)"},
  };
}

std::vector<OptionRow> problem_rows() {
  return {
      {"batch", "LIST", "sequences"},
      {"seq", "LIST", "tokens of a sequence"},
      {"model-dim", "LIST", "columns of hidden"},
      {"rank", "LIST", "columns of the latent"},
      {"kv-heads", "LIST", "heads of k and of v"},
      {"head-dim", "LIST", "columns of a head"},
  };
}

constexpr const char* kProblemTitle =
    "Problem (default: the headline 4x96x256, rank 48, 4 heads of 32)";

std::vector<OptionRow> input_rows() {
  return {
      {"inputs", "KIND", "normal, positive or exact (default: normal)"},
      {"seed", "N", "of generated inputs (default: 0)"},
      {"input", "FILE", "safetensors file with hidden, w_down, w_up_k, w_up_v"},
  };
}

std::vector<OptionRow> with(std::vector<OptionRow> rows, const OptionRow& row) {
  rows.push_back(row);
  return rows;
}

Grammar run_grammar() {
  return grammar_of(
      "mla-bench [run]",
      "Checks and times variants of the MLA key/value up-projection:\n"
      "  latent = hidden @ w_down;  k, v = latent @ w_up_k, w_up_v;  kv = stack(k, v)\n"
      "Lists (a,b,c) multiply: every combination is one cell of the run.\n",
      {
          {"What to run", cell_rows()},
          {kProblemTitle, problem_rows()},
          {"Inputs", with(input_rows(),
                          {"save", "FILE", "write inputs and kv of the one cell as safetensors"})},
          {"Measuring",
           {
               {"time-budget", "SECONDS", "for the whole run (default: 60)"},
               {"precision-target", "FRACTION",
                "stop a cell when its 95 % interval is this narrow (default: 0.005)"},
               {"rounds", "N", "exactly this many rounds of each cell"},
               {"samples", "N", "of a round, fewer where a launch is long (default: 31)"},
               {"times-only", nullptr,
                "leave out what stands beside a time: floors, host latency, second witness"},
               {"warmup", "SECONDS", "longest warm-up of each cell (default: 0.5)"},
               {"timeout", "SECONDS",
                "give up a cell that does not answer for so long (default: 120)"},
               {"force", nullptr, "also run cells that are predicted to take too long"},
               {"recalibrate", nullptr, "measure the GPU's ceilings even if today's are known"},
               {"profile", nullptr,
                "launch each cell once in an NVTX range for an outside profiler, time nothing"},
           }},
          {"Output",
           {
               {"json", "FILE", "the document's file, - for stdout (default: results/local/)"},
               {"reference", "VARIANT", "tell speed against this variant (default: the slowest)"},
               {"strict", nullptr, "end with 4 where a time cannot be trusted"},
               {"quiet", nullptr, "no table and no progress"},
               {"dry-run", nullptr, "print the plan and end"},
               kHelp,
               {"version", nullptr, "version, commit and compilers"},
           }},
          // For mla-bench selftest, which alone reads such a document.
          {kHidden,
           {
               {"plant", "LIST", "copies of each cell, as NUMBER=WHAT"},
               {"measure-plants", nullptr, "by how much planted work slows launches down"},
           }},
      });
}

// What to run, of run and of gate.
void read_cells(const Parsed& parsed, RunOptions& options) {
  options.variants = list_of(parsed, "variant");
  if (std::find(options.variants.begin(), options.variants.end(), "all") !=
      options.variants.end()) {
    if (options.variants.size() > 1) {
      throw UsageError("--variant all is every variant: give no other name beside it");
    }
    options.variants.clear();
  }
  options.precisions = values_of<Precision>(parsed, "precision", kPrecisions);
  options.devices = devices_of(parsed);
  if (options.devices.empty()) {
    options.devices = {DeviceRequest{}};
  }
  options.concurrent = parsed["concurrent"].as<bool>();
  options.l2_states = l2_states_of(parsed);
  options.batch = sizes_of(parsed, "batch");
  options.seq = sizes_of(parsed, "seq");
  options.model_dim = sizes_of(parsed, "model-dim");
  options.rank = sizes_of(parsed, "rank");
  options.kv_heads = sizes_of(parsed, "kv-heads");
  options.head_dim = sizes_of(parsed, "head-dim");
  options.inputs = inputs_of(parsed);
  options.threads = count_of(parsed, "threads", 1, 4096);
}

// "0=nothing,1=work:0.05"
std::vector<Copy> copies_of(const Parsed& parsed) {
  constexpr std::int64_t kMost = 1000;
  std::vector<Copy> copies;
  for (const std::string& item : list_of(parsed, "plant")) {
    const std::size_t equals = item.find('=');
    const std::optional<std::int64_t> number = parse_integer(item.substr(0, equals));
    const std::optional<Planted> planted =
        equals == std::string::npos ? std::nullopt : planted_from(item.substr(equals + 1));
    if (!number || *number < 0 || *number > kMost || !planted) {
      throw UsageError("--plant takes NUMBER=WHAT, such as 0=nothing or 1=work:0.05, not '" +
                       printable(item) + "'");
    }
    copies.push_back({.number = static_cast<int>(*number), .planted = *planted});
  }
  return copies;
}

RunOptions run_options(const Parsed& parsed) {
  RunOptions options;
  read_cells(parsed, options);
  options.save = text_of(parsed, "save");
  options.json = text_of(parsed, "json");
  options.reference = text_of(parsed, "reference");
  options.measuring.rounds = count_of(parsed, "rounds", 1, 1000);
  options.measuring.samples =
      count_of(parsed, "samples", 1, 1000).value_or(options.measuring.samples);
  options.measuring.times_only = parsed["times-only"].as<bool>();
  options.measuring.measure_plants = parsed["measure-plants"].as<bool>();
  options.copies = copies_of(parsed);
  options.measuring.time_budget_s =
      seconds_of(parsed, "time-budget", options.measuring.time_budget_s, 0.1);
  options.measuring.warmup_s = seconds_of(parsed, "warmup", options.measuring.warmup_s, 0);
  options.measuring.timeout_s = seconds_of(parsed, "timeout", options.measuring.timeout_s, 1);
  if (const std::optional<std::string> target = text_of(parsed, "precision-target")) {
    const std::optional<double> fraction = parse_real(*target);
    if (!fraction || *fraction <= 0 || *fraction >= 1) {
      throw UsageError(
          "--precision-target takes a fraction between 0 and 1 (0.005 is 0.5 %), not '" +
          printable(*target) + "'");
    }
    options.measuring.precision_target = *fraction;
  }
  options.force = parsed["force"].as<bool>();
  options.strict = parsed["strict"].as<bool>();
  options.quiet = parsed["quiet"].as<bool>();
  options.dry_run = parsed["dry-run"].as<bool>();
  options.recalibrate = parsed["recalibrate"].as<bool>();
  options.profile = parsed["profile"].as<bool>();
  return options;
}

Grammar list_grammar() {
  return grammar_of(
      "mla-bench list", "Lists devices and variants, and why a variant cannot run here.\n",
      {{"Options",
        {{"device", "LIST", "devices whose variants are listed, as of run (default: all)"},
         kHelp}}});
}

Grammar compare_grammar() {
  return grammar_of(
      "mla-bench compare FILE...",
      "Shows the cells of documents side by side, each with its median, 95 % interval and speed\n"
      "against a reference. Only cells of the same problem, precision, cache state and inputs are\n"
      "compared; what is wrong, untrusted or not comparable is said.\n",
      {
          {"What to compare",
           {
               {"reference", "NAME",
                "variant, device (name or UUID) or FILE that speed is told against (default: the "
                "first FILE if another has its cells, else the first variant, else the first "
                "device)"},
           }},
          {"Output",
           {
               {"rows", "LIST",
                "of variant, device, run, problem, precision, l2, inputs (default: problem, "
                "precision, l2, inputs; or what --columns leaves)"},
               {"columns", "LIST",
                "of the same (default: what --rows leaves); an axis in neither list makes a table "
                "for each of its values"},
               {"format", "NAME", "text, md, csv or json (default: text)"},
               kHelp,
           }},
      });
}

Grammar export_grammar() {
  return grammar_of(
      "mla-bench export FILE...",
      "Writes the cells of documents in the form that another tool reads:\n" + export_summaries(),
      {
          {"Output",
           {
               {"to", "FORMAT", "one of the above"},
               {"output", "FILE", "- for stdout (default: -)"},
               {"no-aggregates", nullptr, "gbench: rounds only, no mean, median, stddev and cv"},
               kHelp,
           }},
      });
}

// How fresh processes measure, of gate and of selftest.
std::vector<OptionRow> series_rows() {
  return {
      {"rounds", "N", "of each cell in a process (default: 3)"},
      {"samples", "N", "of a round, fewer where a launch is long (default: 31)"},
      {"warmup", "SECONDS", "longest warm-up of each cell (default: 0.5)"},
      {"timeout", "SECONDS", "kill a process that takes so long (default: 600)"},
      {"times-only", nullptr,
       "leave floors and second witness out of the first processes too (of the others they are)"},
      {"keep", "FOLDER", "keep the documents of the processes there"},
      {"quiet", nullptr, "no progress"},
  };
}

SeriesOptions series_options(const Parsed& parsed) {
  SeriesOptions options;
  options.rounds = count_of(parsed, "rounds", 1, 1000).value_or(options.rounds);
  options.samples = count_of(parsed, "samples", 1, 1000);
  options.warmup_s = seconds_of(parsed, "warmup", options.warmup_s, 0);
  options.timeout_s = seconds_of(parsed, "timeout", options.timeout_s, 1);
  options.times_only = parsed["times-only"].as<bool>();
  options.quiet = parsed["quiet"].as<bool>();
  options.keep = text_of(parsed, "keep");
  return options;
}

Grammar gate_grammar() {
  return grammar_of(
      "mla-bench gate (--baseline FILE [CANDIDATE...] | --against PROGRAM)",
      "Tells whether a candidate is slower, wrong or less exact than a baseline, a verdict for\n"
      "every cell, and ends with 1 where it is. The evidence is fresh processes, not samples.\n"
      "  --baseline FILE    against documents; the candidate is documents too, or this program,\n"
      "                     measured with the baseline's cells\n"
      "  --against PROGRAM  this program against another mla-bench, taking turns\n",
      {
          {"Against what",
           {
               {"baseline", "LIST", "documents of mla-bench run or of gate --update"},
               {"against", "PROGRAM", "the mla-bench of before"},
               {"allow-environment", nullptr,
                "compare though device, driver, clocks or build differ, and say how"},
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
          {"Measuring",
           with(with(series_rows(),
                     {"processes", "N",
                      "fresh processes of the candidate (default: 5); with --against the most of "
                      "each program (default: 21)"}),
                {"no-confirm", nullptr, "call a regression without a second series"})},
          {"Output",
           {
               {"output", "FILE",
                "write the report there too: .md, .xml (JUnit), .json, .txt, or as --format says"},
               {"format", "NAME", "text, md, junit or json (default: text)"},
               {"update", nullptr, "write what was measured as the baseline, if all is well"},
               kHelp,
           }},
      });
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

// The documents on a command line.
std::vector<std::string> files_of(const Parsed& parsed, const std::string& command) {
  const std::vector<std::string>& files = parsed.unmatched();
  if (files.empty()) {
    throw UsageError(command + " needs a document: mla-bench " + command + " FILE...");
  }
  if (std::find(files.begin(), files.end(), "") != files.end()) {
    throw UsageError(command + ": the name of a document is empty");
  }
  return files;
}

CompareOptions compare_options(const Parsed& parsed) {
  CompareOptions options{.files = files_of(parsed, "compare"),
                         .reference = text_of(parsed, "reference"),
                         .layout = {.rows = values_of<Axis>(parsed, "rows", kAxes),
                                    .columns = values_of<Axis>(parsed, "columns", kAxes)}};
  std::vector<Axis> axes = options.layout.rows;
  axes.insert(axes.end(), options.layout.columns.begin(), options.layout.columns.end());
  for (auto axis = axes.begin(); axis != axes.end(); ++axis) {
    if (std::find(axes.begin(), axis, *axis) != axis) {
      throw UsageError("--rows and --columns: " + std::string(name_of(*axis)) +
                       " stands there twice");
    }
  }
  options.format =
      value_of<CompareFormat>(parsed, "format", kCompareFormats).value_or(CompareFormat::kText);
  return options;
}

ExportOptions export_options(const Parsed& parsed) {
  const std::optional<ExportFormat> format = value_of<ExportFormat>(parsed, "to", kExportFormats);
  if (!format) {
    throw UsageError("export needs --to FORMAT; --help lists them");
  }
  const bool no_aggregates = parsed["no-aggregates"].as<bool>();
  if (no_aggregates && *format != ExportFormat::kGbench) {
    throw UsageError("--no-aggregates is for --to gbench: " + std::string(name_of(*format)) +
                     " has no aggregates");
  }
  return {.files = files_of(parsed, "export"),
          .format = *format,
          .output = text_of(parsed, "output").value_or("-"),
          .aggregates = !no_aggregates};
}

// A number above 0.
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

// Before the first look at a series of pairs there is nothing to judge.
constexpr int kFewestPairs = 5;

// What to run, as words for another run.
std::vector<std::string> cell_words(const Parsed& parsed) {
  std::vector<std::string> words;
  for (const std::vector<OptionRow>& rows : {cell_rows(), problem_rows(), input_rows()}) {
    for (const OptionRow& row : rows) {
      if (parsed.count(row.name) > 0) {
        words.push_back("--" + std::string(row.name));
        if (row.value != nullptr) {
          words.push_back(parsed[row.name].as<std::string>());
        }
      }
    }
  }
  return words;
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

GateOptions gate_options(const Parsed& parsed) {
  GateOptions options{.baselines = list_of(parsed, "baseline"),
                      .against = text_of(parsed, "against"),
                      .candidates = parsed.unmatched(),
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
  options.rules.allow_environment = parsed["allow-environment"].as<bool>();
  options.rules.is_paired = options.against.has_value();
  options.rules.compares_build = !options.against;
  options.processes = count_of(parsed, "processes", options.against ? kFewestPairs : 2, 1000);
  options.series = series_options(parsed);
  options.strict = parsed["strict"].as<bool>();
  options.confirm = !parsed["no-confirm"].as<bool>();
  options.update = parsed["update"].as<bool>();
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
  if (!options.candidates.empty() && options.processes) {
    throw UsageError("--processes is for a candidate that is measured: leave out '" +
                     printable(options.candidates.front()) + "'");
  }
  return options;
}

Grammar selftest_grammar() {
  return grammar_of(
      "mla-bench selftest",
      "Tells what the gate finds on this machine today: this program against itself, by the same\n"
      "processes, looks and second series as gate --against, with work and wrong answers planted\n"
      "in hidden copies of each cell. Keeps how far two processes of one program lie apart; the\n"
      "gate then lets no cell's threshold be below three times that.\n"
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
               {"output", "FILE", "write the report there as JSON too"},
               {"format", "NAME", "text or json (default: text)"},
               kHelp,
           }},
      });
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

SelftestOptions selftest_options(const Parsed& parsed) {
  SelftestOptions options;
  options.cells = cell_words(parsed);
  RunOptions run;
  read_cells(parsed, run);  // refuses here what a run would refuse
  if (parsed.count("variant") == 0) {
    options.cells.insert(options.cells.end(), {"--variant", "cooperative"});
  }
  options.threshold =
      positive_of(parsed, "threshold", 100 * options.threshold, "percent", 0.1, 1000) / 100;
  options.plants = plants_of(parsed, options.threshold);
  options.pairs = count_of(parsed, "processes", kFewestPairs, 1000).value_or(options.pairs);
  options.series = series_options(parsed);
  options.output = text_of(parsed, "output");
  const std::string format = text_of(parsed, "format").value_or("text");
  if (format != "text" && format != "json") {
    throw UsageError("--format takes text or json, not '" + printable(format) + "'");
  }
  options.json = format == "json";
  return options;
}

constexpr std::string_view kExitCodes =
    "\nExit codes: 0 fine, 1 regression (gate) or a gate that errs (selftest), 2 usage or file "
    "error,\n"
    "3 a cell incorrect or failed, 4 untrusted or inconclusive with --strict, 5 incomparable, "
    "missing\n"
    "or nothing to compare or export, 6 environment unfit (gate), 77 nothing could run here, 128+n "
    "ended\n"
    "by signal n. Where several apply: 2, 3, 5, 6, 1, 4.\n";

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
void refuse_repeats(const Parsed& parsed, const std::map<std::string, bool>& takes_list) {
  for (const auto& [option, is_list] : takes_list) {
    std::vector<std::string> values;
    for (const cxxopts::KeyValue& given : parsed.arguments()) {
      if (given.key() == option) {
        values.push_back(printable(given.value()));
      }
    }
    if (values.size() > 1) {
      throw UsageError("--" + option + " is given " +
                       (values.size() == 2 ? "twice" : std::to_string(values.size()) + " times") +
                       (is_list ? ": give one list, --" + option + " " + join(values, ",")
                                : ": it takes one value, " + join(values, " or ")));
    }
  }
}

// Reads with one grammar and refuses options that are none of its.
Parsed parse(Grammar& described, std::span<const char* const> argv) {
  cxxopts::Options& grammar = described.options;
  refuse_values_of_flags(grammar, argv);
  try {
    Parsed parsed = grammar.parse(static_cast<int>(argv.size()), argv.data());
    refuse_repeats(parsed, described.takes_list);
    return parsed;
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
              if (parsed.count("version") > 0) {
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
    Command{
        "list", "devices, and variants with why each can or cannot run here", list_grammar, false,
        [](const Parsed& parsed) -> Options { return ListOptions{.devices = devices_of(parsed)}; }},
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

}  // namespace

std::string name_of(const DeviceRequest& request) {
  switch (request.kind) {
    case DeviceRequest::Kind::kAuto:
      return "auto";
    case DeviceRequest::Kind::kCpu:
      return "cpu";
    case DeviceRequest::Kind::kCudaAll:
      return "cuda:all";
    case DeviceRequest::Kind::kCuda:
      return "cuda:" + std::to_string(request.ordinal);
    case DeviceRequest::Kind::kUuid:
      return request.uuid;
  }
  return "?";
}

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
  Grammar grammar = found->grammar();
  const Parsed parsed = parse(grammar, arguments);
  if (parsed.count("help") > 0) {
    return HelpOptions{grammar.help() + (command == "run" ? commands_help() : "")};
  }
  if (!found->takes_files && !parsed.unmatched().empty()) {
    throw UsageError("unexpected argument '" + printable(parsed.unmatched().front()) +
                     "': options begin with --, commands are " + join(command_names(), ", "));
  }
  return found->options(parsed);
}

}  // namespace mla_bench
