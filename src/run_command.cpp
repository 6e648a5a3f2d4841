// mla-bench run: from options to a document, a table and an exit code.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>

#include "calibration_cache.hpp"
#include "commands.hpp"
#include "console.hpp"
#include "document.hpp"
#include "errors.hpp"
#include "executor.hpp"
#include "interrupt.hpp"
#include "json.hpp"
#include "judge.hpp"
#include "measure_cells.hpp"
#include "output_file.hpp"
#include "plan.hpp"
#include "report.hpp"
#include "safetensors.hpp"
#include "schedule.hpp"
#include "text.hpp"
#include "worker_process.hpp"

namespace mla_bench {
namespace {

using Clock = std::chrono::steady_clock;

// Part of a run that may go into writing what it has so far: all of it each time, which of hundreds
// of short cells would be a good part.
constexpr double kMostForSaving = 0.05;

ExitCode exit_code(const std::vector<Result>& results, bool strict) {
  const auto any = [&](Status status) {
    return std::any_of(results.begin(), results.end(),
                       [status](const Result& result) { return result.status == status; });
  };
  if (any(Status::kIncorrect) || any(Status::kFailed)) {
    return ExitCode::kIncorrect;
  }
  if (strict && any(Status::kUntrusted)) {
    return ExitCode::kInconclusive;
  }
  return any(Status::kPassed) || any(Status::kUntrusted) ? ExitCode::kFine : ExitCode::kNothingRan;
}

// Fills in how the plan's GPUs are set up and what they can do at best: today's figures if they are
// known, else measured now.
void describe_devices(const RunOptions& options, const Plan& plan, WorkerProcess& worker,
                      ProgressLine& progress, Document& document) {
  for (DocumentDevice& entry : document.devices) {
    const Device& device = entry.device;
    const bool is_used =
        std::any_of(plan.cells.begin(), plan.cells.end(), [&](const PlannedCell& planned) {
          return planned.skip.empty() && planned.cell.backend == device.backend &&
                 planned.cell.device == device.uuid;
        });
    if (device.backend != Backend::kCuda || !is_used) {
      continue;
    }
    try {
      entry.setup = worker.setup(device);
      const CalibrationKey key{.uuid = device.uuid,
                               .driver = entry.setup ? entry.setup->driver : document.cuda_driver};
      if (!options.recalibrate) {
        entry.calibration = cached_calibration(key, document.started_at);
      }
      if (!entry.calibration) {
        progress.show("measuring what " + printable(device.name) + " can do at best");
        entry.calibration = worker.calibrate(device);
        entry.calibration->measured_at = document.started_at;
        cache_calibration(key, *entry.calibration);
      }
    } catch (const WorkerLost& lost) {
      print_note("no ceilings of " + printable(device.name) + ": " + lost.what());
    }
  }
}

// Every cell launched once for a profiler that watches from outside: no times, so no document.
int profile(const RunOptions& options, const Plan& plan, WorkerProcess& worker) {
  std::vector<Result> results = unmeasured(plan);
  const int signal = profile_cells(plan, worker, results);
  for (const Result& result : results) {
    print_note(result.cell.id() + ": " +
               (result.status == Status::kPassed
                    ? "launched once"
                    : std::string(name_of(result.status)) + ": " + printable(result.reason)));
  }
  return signal != 0 ? kSignalBase + signal : static_cast<int>(exit_code(results, options.strict));
}

// What a user could do about a cell that is not known as well as was asked, in the flags at hand.
std::vector<std::string> advice(const RunOptions& options, const std::vector<Result>& results) {
  std::vector<std::string> lines;
  for (const Result& result : results) {
    if (!result.summary) {
      continue;
    }
    const Summary& summary = *result.summary;
    const double half = (summary.ci95_high_ns - summary.ci95_low_ns) / 2 / summary.median_ns;
    if (half <= options.measuring.precision_target) {
      continue;
    }
    const std::string what = std::isfinite(half)
                                 ? "is known to +- " + fixed(100 * half, 2) + " % only"
                                 : "has one round, which says nothing of its spread";
    const std::size_t rounds = result.rounds.size();
    const bool rounds_end_it = options.measuring.rounds || rounds >= kMostRounds;
    lines.push_back(result.cell.id() + " " + what + "; raise " +
                    (rounds_end_it
                         ? "--rounds above " + std::to_string(rounds)
                         : "--time-budget above " + shortest(options.measuring.time_budget_s)));
  }
  return lines;
}

// What was not looked for, a line for each reason.
std::vector<std::string> gaps(const std::vector<Result>& results) {
  std::map<std::string, int> unsearched;  // cells by the reason
  int unwatched = 0;
  for (const Result& result : results) {
    if (const std::optional<std::string> why = why_not_searched(result)) {
      unsearched[*why] += 1;
    }
    unwatched += is_unwatched(result) ? 1 : 0;
  }
  const auto in_cells = [](int count) {
    return " in " + std::to_string(count) + (count == 1 ? " cell: " : " cells: ");
  };
  std::vector<std::string> lines;
  for (const auto& [why, count] : unsearched) {
    lines.push_back("nobody looked for work on other streams" + in_cells(count) + printable(why));
  }
  if (unwatched > 0) {
    lines.push_back("nobody watched for throttling and other processes" + in_cells(unwatched) +
                    "the driver's libnvidia-ml.so.1 is missing or does not know the GPU");
  }
  return lines;
}

// The worker gets these names as JSON.
void refuse_other_than_utf8(std::string_view option, const std::optional<std::string>& file) {
  if (file && !is_utf8(*file)) {
    throw UsageError("--" + std::string(option) + " '" + printable(*file) +
                     "': the name is not UTF-8; rename the file");
  }
}

}  // namespace

int run_command(const RunOptions& options, std::span<const char* const> argv) {
  const std::string started_at = utc_now();
  WorkerProcess worker(options.measuring.timeout_s);
  refuse_other_than_utf8("input", options.inputs.file);
  refuse_other_than_utf8("save", options.save);
  std::optional<FileFacts> file;
  if (options.inputs.file) {
    const auto only = [](const std::vector<std::int64_t>& sizes, std::string_view option) {
      if (sizes.size() > 1) {
        throw UsageError("--" + std::string(option) + " takes one value with --input, not a list");
      }
      return sizes.empty() ? std::nullopt : std::optional(sizes.front());
    };
    file = inspect_input_file(*options.inputs.file, only(options.kv_heads, "kv-heads"),
                              only(options.head_dim, "head-dim"));
  }
  DeviceList devices = worker.devices();
  if (options.threads) {
    if (*options.threads > most_threads()) {
      throw UsageError("--threads " + std::to_string(*options.threads) +
                       ": OMP_THREAD_LIMIT allows " + std::to_string(most_threads()) +
                       "; unset it or ask for less");
    }
    devices.devices.back().threads = *options.threads;
  }
  const Plan plan = make_plan(options, devices, registry(), file);
  for (const std::string& warning : plan.warnings) {
    print_note(warning);
  }
  if (options.dry_run) {
    print_result(describe(plan));
    return static_cast<int>(ExitCode::kFine);
  }

  if (options.save) {
    check_tensor_file_can_be_written(*options.save);
  }
  if (options.profile) {
    return profile(options, plan, worker);
  }
  ProgressLine progress(!options.quiet);
  std::vector<std::string> words(argv.begin(), argv.end());
  // By name, not by place: documents are published, and folders tell of the machine.
  words.front() = std::filesystem::path(words.front()).filename().string();
  Document document{.argv = std::move(words),
                    .started_at = started_at,
                    .cuda_runtime = devices.cuda_runtime,
                    .cuda_driver = devices.cuda_driver,
                    .cells = unmeasured(plan)};
  for (const Device& device : devices.devices) {
    document.devices.push_back({.device = device});
  }
  // A path that cannot be written fails now, not after the measurements.
  const std::string path =
      options.json ? *options.json
                   : write_new_file(default_document_path(started_at), to_text(document));
  const auto save = [&document, &path] {
    if (path != "-") {
      write_whole_file(path, to_text(document));
    }
  };
  if (options.json) {
    save();
  }

  const auto save_at_times = [&save, next = Clock::time_point()]() mutable {
    const Clock::time_point begin = Clock::now();
    if (begin >= next) {
      save();
      const Clock::time_point end = Clock::now();
      next = end + std::chrono::duration_cast<Clock::duration>((end - begin) / kMostForSaving);
    }
  };
  const Observer observer{.progress = [&progress](const std::string& line) { progress.show(line); },
                          .cells_done = save_at_times};
  try {
    describe_devices(options, plan, worker, progress, document);
    document.ended_by_signal =
        measure_cells(plan, options, document.devices, worker, observer, document.cells);
  } catch (const Interrupted&) {
    document.ended_by_signal = interrupted();
  }
  document.finished_at = utc_now();
  progress.clear();
  save();

  const std::string text =
      options.quiet ? "" : table(document.cells, devices.devices, options.reference);
  if (path == "-") {
    print_result(to_text(document));
    std::fputs(text.c_str(), stderr);
  } else {
    print_result(text);
    if (!options.quiet) {
      print_note("wrote " + path);
    }
  }
  if (!options.quiet && document.ended_by_signal == 0) {
    for (const std::string& line : gaps(document.cells)) {
      print_note(line);
    }
    for (const std::string& line : advice(options, document.cells)) {
      print_note(line);
    }
  }
  return document.ended_by_signal != 0
             ? kSignalBase + document.ended_by_signal
             : static_cast<int>(exit_code(document.cells, options.strict));
}

}  // namespace mla_bench
