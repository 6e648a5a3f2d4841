#include "gate_series.hpp"

#include <stdlib.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>

#include "child_process.hpp"
#include "document.hpp"
#include "text.hpp"
#include "worker_process.hpp"

namespace mla_bench {

namespace fs = std::filesystem;

int looks_of(int most_pairs) {
  return 1 + (most_pairs - kFirstLook + kLookEvery - 1) / kLookEvery;
}

DocumentFolder::DocumentFolder(const std::optional<std::string>& kept)
    : is_kept_(kept.has_value()) {
  std::error_code error;
  if (kept) {
    path_ = *kept;
    fs::create_directories(path_, error);
    if (error) {
      throw UsageError("--keep '" + printable(*kept) + "': " + error.message());
    }
    if (!fs::is_empty(path_, error)) {  // nobody could tell another gate's documents from ours
      throw UsageError("--keep '" + printable(*kept) +
                       "': there are files in it; name a new or empty folder");
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

DocumentFolder::~DocumentFolder() {
  std::error_code error;
  if (!is_kept_) {
    fs::remove_all(path_, error);
  }
}

std::string DocumentFolder::next(std::string_view side) {
  const std::string number = std::to_string(++count_);
  return (fs::path(path_) / (std::string(3 - std::min<std::size_t>(3, number.size()), '0') +
                             number + "-" + std::string(side) + ".json"))
      .string();
}

// ---- cells as words of runs
// ----------------------------------------------------------------------

namespace {

// A run whose lists multiply to some of the cells.
struct RunWords {
  static constexpr std::array<std::string_view, 10> kAxes{
      "variant",   "l2",   "precision", "batch",    "seq",
      "model-dim", "rank", "kv-heads",  "head-dim", "copy"};
  static constexpr std::size_t kCopy = kAxes.size() - 1;
  std::array<std::vector<std::string>, kAxes.size()> lists;
  std::vector<std::string> fixed;

  // The same for two runs that differ on this axis at most.
  std::string id_without(std::size_t axis) const {
    std::string id = join(fixed, "\n");
    for (std::size_t i = 0; i < kAxes.size(); ++i) {
      id += "\n\n" + (i == axis ? "" : join(lists[i], ","));
    }
    return id;
  }

  CellRun run() const {
    CellRun run{.words = fixed, .copies = {}};
    for (std::size_t i = 0; i < kCopy; ++i) {
      if (!lists[i].empty()) {
        const bool is_both = kAxes[i] == "l2" && lists[i].size() == 2;
        run.words.push_back("--" + std::string(kAxes[i]));
        run.words.push_back(is_both ? "both" : join(lists[i], ","));
      }
    }
    for (const std::string& copy : lists[kCopy]) {
      run.copies.push_back(static_cast<int>(parse_integer(copy).value_or(0)));
    }
    return run;
  }
};

RunWords words_of(const CellEvidence& evidence, const DeviceList& devices) {
  const CellKey& key = evidence.key;
  RunWords run;
  if (key.place.backend == Backend::kCpu) {
    run.fixed = {"--device", "cpu", "--threads", std::to_string(key.place.threads)};
  } else {
    const bool is_here =
        std::any_of(devices.devices.begin(), devices.devices.end(), [&](const Device& device) {
          return device.backend == Backend::kCuda && device.uuid == key.place.device;
        });
    // On another GPU it runs too, and the gate says that they are not the same.
    std::vector<std::string> gpus = evidence.concurrent_with;
    gpus.push_back(is_here ? key.place.device : "cuda:0");
    std::sort(gpus.begin(), gpus.end());  // the cells of all of them are of one run
    run.fixed = {"--device", join(gpus, ",")};
    if (gpus.size() > 1) {
      run.fixed.push_back("--concurrent");
    }
  }
  const Problem& problem = key.work.problem;
  const auto list = [](auto value) { return std::vector{std::to_string(value)}; };
  run.lists = {{{key.variant},
                {std::string(name_of(key.work.l2))},
                {std::string(name_of(key.work.precision))},
                list(problem.batch),
                list(problem.seq),
                list(problem.model_dim),
                list(problem.rank),
                list(problem.kv_heads),
                list(problem.head_dim),
                list(key.copy)}};
  const InputSource& inputs = key.work.inputs;
  if (inputs.file) {
    run.fixed.insert(run.fixed.end(), {"--input", *inputs.file});
    for (const std::size_t from_file : {3, 4, 5, 6}) {
      run.lists[from_file].clear();
    }
  } else {
    run.fixed.insert(run.fixed.end(), {"--inputs", std::string(name_of(inputs.distribution)),
                                       "--seed", std::to_string(inputs.seed)});
  }
  return run;
}

}  // namespace

std::vector<CellRun> runs_of(std::span<const CellEvidence> cells) {
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
      runs.push_back(words_of(evidence, devices));
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
  std::vector<CellRun> words;
  for (const RunWords& run : runs) {
    words.push_back(run.run());
  }
  return words;
}

// ---- processes
// -----------------------------------------------------------------------------------

namespace {

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
  std::vector<std::string> starts = starts_of(into.document);
  const std::vector<std::string> later = starts_of(more.document);
  starts.insert(starts.end(), later.begin(), later.end());
  into.document.merged_from = std::move(starts);
  std::move(more.document.cells.begin(), more.document.cells.end(),
            std::back_inserter(into.document.cells));
  into.document.finished_at = more.document.finished_at;
}

std::string_view name_of(Side side) {
  return side == Side::kBaseline ? "baseline" : "candidate";
}

}  // namespace

Runner::Runner(const SeriesOptions& options, std::vector<CellRun> runs,
               std::map<int, Planted> plants)
    : options_(options),
      runs_(std::move(runs)),
      plants_(std::move(plants)),
      folder_(options.keep),
      progress_(!options.quiet) {}

RecordedDocument Runner::measure(const std::string& program, Side side, bool whole,
                                 const std::string& progress) {
  progress_.show(progress);
  std::optional<RecordedDocument> document;
  for (const CellRun& run : runs_) {
    RecordedDocument part = measure_run(program, side, whole, run);
    if (document) {
      append(*document, std::move(part));
    } else {
      document = std::move(part);
    }
  }
  progress_.clear();
  if (!document) {
    throw ProcessFailed("this mla-bench has no variant of the baseline", ExitCode::kIncomparable);
  }
  return *std::move(document);
}

std::vector<std::string> Runner::words_of(Side side, bool whole, const CellRun& run,
                                          const std::string& path) const {
  std::vector<std::string> words{"run"};
  words.insert(words.end(), run.words.begin(), run.words.end());
  std::vector<std::string> copies;
  for (const int copy : run.copies) {
    const auto plant = plants_.find(copy);
    const bool is_honest = side == Side::kBaseline || plant == plants_.end();
    copies.push_back(std::to_string(copy) + "=" + text_of(is_honest ? Planted{} : plant->second));
  }
  if (!plants_.empty()) {
    words.insert(words.end(), {"--plant", join(copies, ",")});
  }
  if (whole && side == Side::kCandidate && !plants_.empty()) {
    words.emplace_back("--measure-plants");
  }
  if ((!whole || options_.times_only) && !(side == Side::kBaseline && is_old_baseline_)) {
    words.emplace_back("--times-only");
  }
  if (options_.samples) {
    words.insert(words.end(), {"--samples", std::to_string(*options_.samples)});
  }
  words.insert(words.end(), {"--rounds", std::to_string(options_.rounds), "--warmup",
                             shortest(options_.warmup_s), "--time-budget",
                             shortest(options_.timeout_s), "--quiet", "--json", path});
  return words;
}

RecordedDocument Runner::measure_run(const std::string& program, Side side, bool whole,
                                     const CellRun& run) {
  const bool is_baseline = side == Side::kBaseline;
  const std::string path = folder_.next(name_of(side));
  std::error_code error;
  const ChildEnd end = run_child(program, words_of(side, whole, run, path), options_.timeout_s);
  const bool is_brief = !whole || options_.times_only;
  if (is_baseline && is_brief && !is_old_baseline_ &&
      end.code == static_cast<int>(ExitCode::kUsage)) {
    is_old_baseline_ = true;  // from before there was --times-only: slower, and as good
    return measure_run(program, side, whole, run);
  }
  const std::string name = is_baseline ? "'" + printable(program) + "'" : "the candidate";
  const auto fail = [&](const std::string& why) -> ProcessFailed {
    // Of a program that says that it was asked for what it cannot do, the word counts.
    const ExitCode code = end.code == static_cast<int>(ExitCode::kUsage) ? ExitCode::kUsage
                          : end.code == static_cast<int>(ExitCode::kNothingRan)
                              ? ExitCode::kNothingRan
                          : is_baseline ? ExitCode::kIncomparable
                                        : ExitCode::kIncorrect;
    return {name + " " + why, code};
  };
  // A run with wrong, skipped or untrusted cells has a document that says so.
  const std::array judged{ExitCode::kFine, ExitCode::kIncorrect, ExitCode::kNothingRan};
  const bool has_ended = std::any_of(judged.begin(), judged.end(), [&](ExitCode code) {
    return end.code == static_cast<int>(code);
  });
  if (end.timed_out || !has_ended) {
    throw fail(end.in_words(options_.timeout_s));
  }
  if (!fs::exists(path, error)) {
    throw fail(end.in_words(options_.timeout_s) + "; it left no document");
  }
  try {
    RecordedDocument document =
        std::move(read_documents(std::span<const std::string>(&path, 1), Detail::kAll,
                                 plants_.empty() ? Origin::kRun : Origin::kSelftest)
                      .front());
    if (document.document.finished_at.empty()) {
      throw fail(end.in_words(options_.timeout_s) + "; its document is not finished");
    }
    return document;
  } catch (const UsageError& unreadable) {
    throw fail(std::string("left a document that cannot be read: ") + unreadable.what());
  }
}

// ---- series
// --------------------------------------------------------------------------------------

namespace {

// The candidate's evidence on the cells that have this verdict: the key of a judged cell is the
// candidate's, and the baseline's may be another.
std::vector<CellEvidence> with_verdict(std::span<const CellEvidence> candidate,
                                       const GateResult& result, Verdict verdict) {
  std::set<std::string> wanted;
  for (const JudgedCell& cell : result.cells) {
    if (cell.verdict == verdict) {
      wanted.insert(id_of(cell.key));
    }
  }
  std::vector<CellEvidence> found;
  std::copy_if(candidate.begin(), candidate.end(), std::back_inserter(found),
               [&](const CellEvidence& cell) { return wanted.contains(id_of(cell.key)); });
  return found;
}

}  // namespace

Series measure_candidate(Runner& runner, std::span<const CellEvidence> baseline, int processes,
                         const GateRules& rules) {
  Series series;
  std::optional<SeriesFailure> failure;
  try {
    for (int i = 0; i < processes; ++i) {
      series.candidate.push_back(
          runner.measure(kThisProgram, Side::kCandidate, true,
                         "process " + std::to_string(i + 1) + " of " + std::to_string(processes)));
    }
  } catch (const ProcessFailed& failed) {
    failure = {.why = failed.what(), .code = failed.code};
  }
  series.result = judge(baseline, evidence_of(series.candidate), rules);
  series.result.failure = failure;
  return series;
}

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
                is_old ? old_program : kThisProgram, is_old ? Side::kBaseline : Side::kCandidate,
                pair == 0,
                "pair " + std::to_string(pair + 1) + " of at most " + std::to_string(most)));
      }
      ++pair;
      if (pair == look) {
        const std::vector<CellEvidence> candidate = evidence_of(series.candidate);
        series.result = judge(evidence_of(series.baseline), candidate, rules);
        if (is_settled(series.result)) {
          return series;
        }
        runner.limit_to(runs_of(with_verdict(candidate, series.result, Verdict::kInconclusive)));
        look = std::min(look + kLookEvery, most);
      }
    }
  } catch (const ProcessFailed& failed) {
    const std::size_t pairs = std::min(series.baseline.size(), series.candidate.size());
    series.baseline.resize(pairs);
    series.candidate.resize(pairs);
    series.result = judge(evidence_of(series.baseline), evidence_of(series.candidate), rules);
    series.result.failure = {.why = failed.what(), .code = failed.code};
  }
  return series;
}

void confirm(Runner& runner, Series& series, const std::function<Series()>& measure_again) {
  const std::vector<CellEvidence> regressed =
      with_verdict(evidence_of(series.candidate), series.result, Verdict::kRegression);
  if (series.result.failure || regressed.empty()) {
    return;
  }
  runner.limit_to(runs_of(regressed));
  const Series again = measure_again();
  if (again.result.failure) {
    series.result.failure = again.result.failure;
  } else {
    series.result = confirmed(series.result, again.result);
  }
}

}  // namespace mla_bench
