// mla-bench gate: gathers evidence from documents or fresh processes, judges it, reports.
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <map>

#include "child_process.hpp"
#include "commands.hpp"
#include "console.hpp"
#include "document.hpp"
#include "document_reader.hpp"
#include "errors.hpp"
#include "gate.hpp"
#include "interrupt.hpp"
#include "text.hpp"
#include "worker_process.hpp"

namespace mla_bench {
namespace {

namespace fs = std::filesystem;

constexpr const char* kThisProgram = "/proc/self/exe";
constexpr int kProcesses = 5;
constexpr int kMostPairs = 21;
// A series of pairs is looked at after so many, and after each kLookEvery more.
constexpr int kFirstLook = 5;
constexpr int kLookEvery = 4;
constexpr double kAlphaOfSeries = 0.01;

// A process that left no document to judge.
class ProcessFailed : public std::runtime_error {
 public:
  ProcessFailed(const std::string& what, ExitCode ends_with)
      : std::runtime_error(what), code(ends_with) {}
  ExitCode code;
};

// A folder for the processes' documents; gone with it, unless the user named one.
class DocumentFolder {
 public:
  explicit DocumentFolder(const std::optional<std::string>& kept) : is_kept_(kept.has_value()) {
    std::error_code error;
    if (kept) {
      path_ = *kept;
      fs::create_directories(path_, error);
      if (error) {
        throw UsageError("--keep '" + printable(*kept) + "': " + error.message());
      }
      return;
    }
    std::string name = (fs::temp_directory_path(error) / "mla-bench-gate-XXXXXX").string();
    if (error || mkdtemp(name.data()) == nullptr) {
      throw UsageError("cannot make a folder for documents in '" + printable(name) +
                       "': set TMPDIR to one that can be written, or give --keep");
    }
    path_ = name;
  }
  ~DocumentFolder() {
    std::error_code error;
    if (!is_kept_) {
      fs::remove_all(path_, error);
    }
  }
  DocumentFolder(const DocumentFolder&) = delete;
  DocumentFolder& operator=(const DocumentFolder&) = delete;

  std::string next(std::string_view side) {
    const std::string number = std::to_string(++count_);
    return (path_ / (std::string(3 - std::min<std::size_t>(3, number.size()), '0') + number + "-" +
                     std::string(side) + ".json"))
        .string();
  }

 private:
  bool is_kept_;
  fs::path path_;
  int count_ = 0;
};

// ---- cells as words of runs
// ----------------------------------------------------------------------

// A run whose lists multiply to some of the cells.
struct RunWords {
  static constexpr std::array<std::string_view, 9> kAxes{
      "variant", "l2", "precision", "batch", "seq", "model-dim", "rank", "kv-heads", "head-dim"};
  std::array<std::vector<std::string>, kAxes.size()> lists;
  std::vector<std::string> fixed;

  // The same for two runs that differ on this axis at most.
  std::string id_without(std::size_t axis) const {
    std::string id = join(fixed, "\n");
    for (std::size_t i = 0; i < lists.size(); ++i) {
      id += "\n\n" + (i == axis ? "" : join(lists[i], ","));
    }
    return id;
  }

  std::vector<std::string> words() const {
    std::vector<std::string> words = fixed;
    for (std::size_t i = 0; i < kAxes.size(); ++i) {
      if (!lists[i].empty()) {
        const bool is_both = kAxes[i] == "l2" && lists[i].size() == 2;
        words.push_back("--" + std::string(kAxes[i]));
        words.push_back(is_both ? "both" : join(lists[i], ","));
      }
    }
    return words;
  }
};

RunWords words_of(Cell cell, const DeviceList& devices) {
  RunWords run;
  if (cell.backend == Backend::kCpu) {
    run.fixed = {"--device", "cpu", "--threads", std::to_string(cell.threads)};
  } else {
    const bool is_here =
        std::any_of(devices.devices.begin(), devices.devices.end(), [&](const Device& device) {
          return device.backend == Backend::kCuda && device.uuid == cell.device;
        });
    // On another GPU it runs too, and the gate says that they are not the same.
    std::vector<std::string>& gpus = cell.concurrent_with;
    gpus.push_back(is_here ? cell.device : "cuda:0");
    std::sort(gpus.begin(), gpus.end());  // the cells of all of them are of one run
    run.fixed = {"--device", join(gpus, ",")};
    if (gpus.size() > 1) {
      run.fixed.push_back("--concurrent");
    }
  }
  const Problem& problem = cell.problem;
  const auto list = [](auto value) { return std::vector{std::to_string(value)}; };
  run.lists = {{{cell.variant},
                {std::string(name_of(cell.l2))},
                {std::string(name_of(cell.precision))},
                list(problem.batch),
                list(problem.seq),
                list(problem.model_dim),
                list(problem.rank),
                list(problem.kv_heads),
                list(problem.head_dim)}};
  if (cell.inputs.file) {
    run.fixed.insert(run.fixed.end(), {"--input", *cell.inputs.file});
    for (const std::size_t from_file : {3, 4, 5, 6}) {
      run.lists[from_file].clear();
    }
  } else {
    run.fixed.insert(run.fixed.end(), {"--inputs", std::string(name_of(cell.inputs.distribution)),
                                       "--seed", std::to_string(cell.inputs.seed)});
  }
  return run;
}

// As few runs as their lists allow: those that differ on one axis alone become one.
std::vector<std::vector<std::string>> runs_of(std::span<const CellEvidence> cells) {
  DeviceList devices;
  const auto is_cuda = [](const CellEvidence& cell) {
    return cell.key.place.backend == Backend::kCuda;
  };
  if (std::any_of(cells.begin(), cells.end(), is_cuda)) {
    constexpr double kTimeoutS = 120;
    devices = WorkerProcess(kTimeoutS).devices();
  }
  std::vector<RunWords> runs;
  for (const CellEvidence& evidence : cells) {
    const CellKey& key = evidence.key;
    const std::span<const Listed> known = registry();
    const bool is_known = std::any_of(known.begin(), known.end(), [&](const Listed& listed) {
      return listed.name == key.variant && listed.backend == key.place.backend;
    });
    if (is_known) {  // what is not is missing from the candidate, as the verdict will say
      runs.push_back(words_of({.variant = key.variant,
                               .backend = key.place.backend,
                               .device = key.place.device,
                               .threads = key.place.threads,
                               .precision = key.work.precision,
                               .l2 = key.work.l2,
                               .problem = key.work.problem,
                               .inputs = key.work.inputs,
                               .concurrent_with = evidence.concurrent_with},
                              devices));
    }
  }
  for (std::size_t axis = 0; axis < RunWords::kAxes.size(); ++axis) {
    std::vector<RunWords> merged;
    std::map<std::string, std::size_t> places;
    for (const RunWords& run : runs) {
      const auto [place, is_new] = places.emplace(run.id_without(axis), merged.size());
      if (is_new) {
        merged.push_back(run);
      } else {
        std::vector<std::string>& list = merged[place->second].lists[axis];
        for (const std::string& value : run.lists[axis]) {
          if (std::find(list.begin(), list.end(), value) == list.end()) {
            list.push_back(value);
          }
        }
      }
    }
    runs = std::move(merged);
  }
  std::vector<std::vector<std::string>> words;
  for (const RunWords& run : runs) {
    words.push_back(run.words());
  }
  return words;
}

// ---- processes
// -----------------------------------------------------------------------------------

// The cells of `more` beside those of `into`, which are others.
void append(RecordedDocument& into, RecordedDocument more) {
  for (DocumentDevice& entry : more.document.devices) {
    const auto same = [&](const DocumentDevice& known) {
      return known.device.backend == entry.device.backend && known.device.uuid == entry.device.uuid;
    };
    auto found = std::find_if(into.document.devices.begin(), into.document.devices.end(), same);
    if (found == into.document.devices.end()) {
      into.document.devices.push_back(std::move(entry));
    } else if (!found->setup) {  // only the devices that a run uses are asked
      *found = std::move(entry);
    }
  }
  std::move(more.document.cells.begin(), more.document.cells.end(),
            std::back_inserter(into.document.cells));
  into.document.finished_at = more.document.finished_at;
}

class Runner {
 public:
  Runner(const GateOptions& options, std::vector<std::vector<std::string>> runs)
      : options_(options),
        runs_(std::move(runs)),
        folder_(options.keep),
        progress_(!options.quiet) {}

  // One fresh process of `program` for each run, as one document. Throws ProcessFailed.
  RecordedDocument measure(const std::string& program, std::string_view side,
                           const std::string& progress) {
    progress_.show(progress);
    std::optional<RecordedDocument> whole;
    for (const std::vector<std::string>& run : runs_) {
      RecordedDocument part = measure_run(program, side, run);
      if (whole) {
        append(*whole, std::move(part));
      } else {
        whole = std::move(part);
      }
    }
    progress_.clear();
    if (!whole) {
      throw ProcessFailed("this mla-bench has no variant of the baseline", ExitCode::kIncomparable);
    }
    return *std::move(whole);
  }

 private:
  RecordedDocument measure_run(const std::string& program, std::string_view side,
                               const std::vector<std::string>& run) {
    const std::string path = folder_.next(side);
    std::vector<std::string> words{"run"};
    words.insert(words.end(), run.begin(), run.end());
    words.insert(words.end(), {"--rounds", std::to_string(options_.rounds), "--warmup",
                               shortest(options_.warmup_s), "--time-budget",
                               shortest(options_.timeout_s), "--quiet", "--json", path});
    std::error_code error;
    fs::remove(path, error);  // --keep may hold another gate's
    const ChildEnd end = run_child(program, words, options_.timeout_s);
    const std::string name = side == "candidate" ? "the candidate" : "'" + printable(program) + "'";
    const auto fail = [&](const std::string& why) -> ProcessFailed {
      // Of a program that says that it was asked for what it cannot do, the word counts.
      const ExitCode code = end.code == static_cast<int>(ExitCode::kUsage) ? ExitCode::kUsage
                            : end.code == static_cast<int>(ExitCode::kNothingRan)
                                ? ExitCode::kNothingRan
                            : side == "candidate" ? ExitCode::kIncorrect
                                                  : ExitCode::kIncomparable;
      return {name + " " + why, code};
    };
    // A run with wrong, skipped or untrusted cells has a document that says so.
    const std::array judged{ExitCode::kFine, ExitCode::kIncorrect, ExitCode::kNothingRan};
    const bool has_ended = std::any_of(judged.begin(), judged.end(), [&](ExitCode code) {
      return end.code == static_cast<int>(code);
    });
    if (end.timed_out || !has_ended || !fs::exists(path, error)) {
      throw fail(end.in_words(options_.timeout_s));
    }
    try {
      RecordedDocument document =
          std::move(read_documents(std::span<const std::string>(&path, 1), Detail::kAll).front());
      if (document.document.finished_at.empty()) {
        throw fail(end.in_words(options_.timeout_s));
      }
      return document;
    } catch (const UsageError& unreadable) {
      throw fail(std::string("left a document that cannot be read: ") + unreadable.what());
    }
  }

  const GateOptions& options_;
  std::vector<std::vector<std::string>> runs_;
  DocumentFolder folder_;
  ProgressLine progress_;
};

// ---- series
// --------------------------------------------------------------------------------------

// What was measured, and why no more.
struct Series {
  std::vector<RecordedDocument> baseline;  // of --against
  std::vector<RecordedDocument> candidate;
  GateResult result;
  std::optional<ProcessFailed> failed;
};

// The candidate in `processes` fresh processes, against documents.
Series measure_candidate(Runner& runner, std::span<const CellEvidence> baseline, int processes,
                         const GateRules& rules) {
  Series series;
  try {
    for (int i = 0; i < processes; ++i) {
      series.candidate.push_back(
          runner.measure(kThisProgram, "candidate",
                         "process " + std::to_string(i + 1) + " of " + std::to_string(processes)));
    }
  } catch (const ProcessFailed& failed) {
    series.failed = failed;
  }
  series.result = judge(baseline, evidence_of(series.candidate), rules);
  return series;
}

// Both programs in turns, from one look to the next until nothing is left to learn or `most` pairs
// are taken.
Series measure_pairs(Runner& runner, const std::string& old_program, int first_look, int most,
                     const GateRules& rules) {
  Series series;
  int look = std::min(first_look, most);
  try {
    for (int pair = 0; pair < most;) {
      // Old new, new old: what drifts evenly falls on both alike.
      const bool is_old_first = pair % 2 == 0;
      for (const bool is_old : {is_old_first, !is_old_first}) {
        (is_old ? series.baseline : series.candidate)
            .push_back(runner.measure(
                is_old ? old_program : kThisProgram, is_old ? "baseline" : "candidate",
                "pair " + std::to_string(pair + 1) + " of at most " + std::to_string(most)));
      }
      ++pair;
      if (pair == look) {
        series.result = judge(evidence_of(series.baseline), evidence_of(series.candidate), rules);
        if (is_settled(series.result)) {
          return series;
        }
        look = std::min(look + kLookEvery, most);
      }
    }
  } catch (const ProcessFailed& failed) {
    series.failed = failed;
    const std::size_t pairs = std::min(series.baseline.size(), series.candidate.size());
    series.baseline.resize(pairs);
    series.candidate.resize(pairs);
    series.result = judge(evidence_of(series.baseline), evidence_of(series.candidate), rules);
  }
  return series;
}

bool has_regression(const GateResult& result) {
  return std::any_of(result.cells.begin(), result.cells.end(),
                     [](const JudgedCell& cell) { return cell.verdict == Verdict::kRegression; });
}

// Calls a regression only if a series of its own repeats it.
void confirm(Series& series, const std::function<Series()>& measure_again) {
  if (series.failed || !has_regression(series.result)) {
    return;
  }
  Series again = measure_again();
  series.failed = again.failed;
  if (!again.failed) {
    series.result = confirmed(series.result, again.result);
  }
}

std::string count_words(std::size_t count) {
  return std::to_string(count) + (count == 1 ? " process" : " processes");
}

std::string file_words(std::span<const std::string> files) {
  return files.size() == 1 ? files.front()
                           : files.front() + " and " + std::to_string(files.size() - 1) + " more";
}

void update_baseline(const GateOptions& options, const Series& series,
                     std::span<const char* const> argv, int code) {
  if (code != static_cast<int>(ExitCode::kFine)) {
    print_note("the baseline stays as it is: not all is well");
    return;
  }
  const auto is_open =
      std::find_if(series.result.cells.begin(), series.result.cells.end(),
                   [](const JudgedCell& cell) { return cell.verdict == Verdict::kInconclusive; });
  if (is_open != series.result.cells.end()) {
    print_note("the baseline stays as it is: " + export_name(is_open->key) + " is inconclusive");
    return;
  }
  Document merged = merge_runs(series.candidate);
  merged.argv.assign(argv.begin(), argv.end());
  merged.argv.front() = fs::path(merged.argv.front()).filename().string();
  write_whole_file(options.baselines.front(), to_text(merged));
  print_note("wrote the baseline " + printable(options.baselines.front()) + " from " +
             count_words(series.candidate.size()));
}

void report(const GateOptions& options, const GateResult& result, const GateHeading& heading) {
  print_result(render(result, heading, options.output ? GateFormat::kText : options.format));
  if (options.output) {
    write_whole_file(*options.output, render(result, heading, options.format));
  }
}

}  // namespace

int gate_command(const GateOptions& options, std::span<const char* const> argv) {
  Series series;
  GateHeading heading{.baseline = "", .candidate = "this build", .strict = options.strict};
  if (options.against) {
    const int most = options.processes.value_or(kMostPairs);
    GateRules rules = options.rules;
    const int looks = 1 + (most - kFirstLook + kLookEvery - 1) / kLookEvery;
    rules.alpha = kAlphaOfSeries / looks;
    Runner runner(options, {options.cells});
    series = measure_pairs(runner, *options.against, kFirstLook, most, rules);
    heading.baseline = *options.against + ", " + count_words(series.baseline.size()) + " of each";
    if (options.confirm) {
      const auto pairs = static_cast<int>(series.baseline.size());
      confirm(series, [&] { return measure_pairs(runner, *options.against, pairs, pairs, rules); });
    }
  } else {
    const std::vector<RecordedDocument> baseline = read_documents(options.baselines, Detail::kAll);
    const std::vector<CellEvidence> evidence = evidence_of(baseline);
    heading.baseline = file_words(options.baselines);
    if (!options.candidates.empty()) {
      for (const std::string& file : options.candidates) {
        if (std::find(options.baselines.begin(), options.baselines.end(), file) !=
            options.baselines.end()) {
          throw UsageError("'" + printable(file) + "' is the baseline and the candidate");
        }
      }
      series.candidate = read_documents(options.candidates, Detail::kAll);
      series.result = judge(evidence, evidence_of(series.candidate), options.rules);
      heading.candidate = file_words(options.candidates);
    } else {
      const int processes = options.processes.value_or(kProcesses);
      Runner runner(options, runs_of(evidence));
      series = measure_candidate(runner, evidence, processes, options.rules);
      heading.candidate += " in " + count_words(series.candidate.size());
      if (options.confirm) {
        confirm(series,
                [&] { return measure_candidate(runner, evidence, processes, options.rules); });
      }
    }
  }
  if (series.failed) {
    series.result.notes.emplace_back(series.failed->what());
  }
  report(options, series.result, heading);
  int code = static_cast<int>(exit_code(series.result, options.strict));
  if (series.failed) {
    print_note(series.failed->what());
    code = static_cast<int>(series.failed->code);
  }
  if (options.update) {
    update_baseline(options, series, argv, code);
  }
  return code;
}

}  // namespace mla_bench
