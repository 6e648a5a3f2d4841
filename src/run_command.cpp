// mla-bench run: plan, then measure cell by cell in a worker process, writing the document as it
// goes.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>

#include "commands.hpp"
#include "console.hpp"
#include "document.hpp"
#include "errors.hpp"
#include "interrupt.hpp"
#include "json.hpp"
#include "plan.hpp"
#include "report.hpp"
#include "safetensors.hpp"
#include "schedule.hpp"
#include "text.hpp"
#include "worker_process.hpp"

namespace mla_bench {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// A run in flight: the document so far and what is needed to go on.
struct Run {
  const RunOptions& options;
  WorkerProcess& worker;
  ProgressLine& progress;
  Document document;
  std::string path;  // of the document; "-" for stdout
  Clock::time_point started;

  void save() const {
    if (path != "-") {
      write_whole_file(path, to_text(document));
    }
  }
};

// A cell of the group in hand: where its result is, and the worker that holds it open.
struct Turn {
  Result* result = nullptr;
  int generation = 0;  // of the worker in which it is open; 0 where it is not

  bool open() const { return generation != 0; }
};

void fail(Turn& turn, const std::string& reason) {
  turn.generation = 0;
  turn.result->status = Status::kFailed;
  turn.result->reason = reason;
}

// Opens the cell in the worker, anew where an earlier worker died with it.
void open_cell(Run& run, Turn& turn) {
  const Cell cell = turn.result->cell;
  std::vector<Round> rounds = std::move(turn.result->rounds);
  try {
    *turn.result = run.worker.open(cell, run.options.measuring.warmup_s, run.options.save);
    if (turn.result->status == Status::kPassed) {
      turn.result->rounds = std::move(rounds);
      turn.generation = run.worker.generation();
    } else {
      turn.generation = 0;
    }
  } catch (const WorkerLost& lost) {
    fail(turn, lost.what());
  }
}

void measure_cell(Run& run, Turn& turn) {
  if (turn.generation != run.worker.generation()) {
    open_cell(run, turn);
  }
  if (!turn.open()) {
    return;
  }
  try {
    turn.result->rounds.push_back(run.worker.measure(turn.result->cell));
  } catch (const WorkerLost& lost) {
    fail(turn, lost.what());
  }
}

void close_cell(Run& run, Turn& turn) {
  if (turn.open() && turn.generation != run.worker.generation()) {
    open_cell(run, turn);
  }
  if (!turn.open()) {
    return;
  }
  Result& result = *turn.result;
  try {
    const Result closed = run.worker.close(result.cell);
    result.status = closed.status;
    result.reason = closed.reason;
    result.recheck = closed.recheck;
    if (result.status == Status::kPassed) {
      result.summary = summarize(result.rounds);
    } else {
      result.rounds.clear();  // no time beside a wrong answer
    }
  } catch (const WorkerLost& lost) {
    fail(turn, lost.what());
  }
  turn.generation = 0;
}

// Cells that share tensors: all opened, then measured in turns, then closed.
void measure_group(Run& run, std::span<Turn> turns, double seconds) {
  const Clock::time_point start = Clock::now();
  for (Turn& turn : turns) {
    run.progress.show(turn.result->cell.id() + ": checking");
    open_cell(run, turn);
  }
  for (std::uint64_t lap_number = 0;; ++lap_number) {
    std::vector<Progress> states;
    for (const Turn& turn : turns) {
      states.push_back({.open = turn.open(), .rounds = turn.result->rounds});
    }
    const std::vector<std::size_t> lap =
        next_lap(states, run.options.measuring, seconds - seconds_since(start), lap_number);
    if (lap.empty()) {
      break;
    }
    for (const std::size_t i : lap) {
      run.progress.show(turns[i].result->cell.id() + ": round " +
                        std::to_string(turns[i].result->rounds.size() + 1));
      measure_cell(run, turns[i]);
    }
  }
  for (Turn& turn : turns) {
    run.progress.show(turn.result->cell.id() + ": checking what the timed launches wrote");
    close_cell(run, turn);
    run.save();
  }
}

// The cells to run in groups that share tensors, in plan order.
std::vector<std::vector<Turn>> groups_of(const Plan& plan, std::vector<Result>& results) {
  std::vector<std::vector<Turn>> groups;
  for (std::size_t i = 0; i < plan.cells.size(); ++i) {
    if (!plan.cells[i].skip.empty()) {
      continue;
    }
    const Cell& cell = results[i].cell;
    if (groups.empty() || !groups.back().front().result->cell.shares_tensors_with(cell)) {
      groups.emplace_back();
    }
    groups.back().push_back({.result = &results[i]});
  }
  return groups;
}

std::vector<Result> results_of(const Plan& plan) {
  std::vector<Result> results;
  for (const PlannedCell& planned : plan.cells) {
    Result result;
    result.cell = planned.cell;
    result.status = planned.skip.empty() ? Status::kFailed : Status::kSkipped;
    result.reason = planned.skip.empty() ? "the run ended before it was measured" : planned.skip;
    results.push_back(std::move(result));
  }
  return results;
}

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

// Measures every group; returns the signal that ended the run early, or 0.
int measure_all(Run& run, const Plan& plan) {
  std::vector<std::vector<Turn>> groups = groups_of(plan, run.document.cells);
  std::size_t cells_left = 0;
  for (const std::vector<Turn>& group : groups) {
    cells_left += group.size();
  }
  for (std::vector<Turn>& group : groups) {
    try {
      // Each group may use its share of what the groups before it left over.
      const double left = run.options.measuring.time_budget_s - seconds_since(run.started);
      measure_group(run, group,
                    left * static_cast<double>(group.size()) / static_cast<double>(cells_left));
      cells_left -= group.size();
    } catch (const Interrupted&) {
      for (Turn& turn : group) {
        if (turn.open()) {
          fail(turn, "interrupted before its output was checked again");
        }
      }
      return interrupted();
    }
  }
  return 0;
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
  const Clock::time_point started = Clock::now();
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
  ProgressLine progress(!options.quiet);
  Run run{.options = options,
          .worker = worker,
          .progress = progress,
          .document = {.argv = {argv.begin(), argv.end()},
                       .started_at = started_at,
                       .finished_at = "",
                       .ended_by_signal = 0,
                       .devices = devices.devices,
                       .cells = results_of(plan)},
          .path = options.json.value_or(default_document_path(started_at)),
          .started = started};
  run.save();  // a path that cannot be written fails now, not after the measurements

  run.document.ended_by_signal = measure_all(run, plan);
  run.document.finished_at = utc_now();
  progress.clear();
  run.save();

  const std::string text =
      options.quiet ? "" : table(run.document.cells, run.document.devices, options.reference);
  if (run.path == "-") {
    print_result(to_text(run.document));
    std::fputs(text.c_str(), stderr);
  } else {
    print_result(text);
    if (!options.quiet) {
      print_note("wrote " + run.path);
    }
  }
  return run.document.ended_by_signal != 0
             ? kSignalBase + run.document.ended_by_signal
             : static_cast<int>(exit_code(run.document.cells, options.strict));
}

}  // namespace mla_bench
