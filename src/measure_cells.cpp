#include "measure_cells.hpp"

#include <algorithm>
#include <chrono>
#include <span>

#include "calibration.hpp"
#include "interrupt.hpp"
#include "judge.hpp"
#include "schedule.hpp"
#include "text.hpp"

namespace mla_bench {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// What every step of a run needs.
struct Run {
  const RunOptions& options;
  const std::vector<DocumentDevice>& devices;
  WorkerProcess& worker;
  const Observer& observer;
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
  turn.result->summary.reset();  // no time beside a failure
}

// Opens the cell in the worker, anew where an earlier worker died with it.
void open_cell(Run& run, Turn& turn) {
  const Cell cell = turn.result->cell;
  std::vector<Round> rounds = std::move(turn.result->rounds);
  try {
    const MeasuringOptions& measuring = run.options.measuring;
    const Effort effort{.warmup_s = measuring.warmup_s,
                        .samples = measuring.samples,
                        .times_only = measuring.times_only,
                        .measure_plants = measuring.measure_plants};
    *turn.result = run.worker.open(cell, effort, run.options.save);
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
    result.cold_proof = closed.cold_proof;
    if (result.status == Status::kPassed) {
      result.summary = summarize(result.rounds);
    } else {
      result.rounds.clear();  // no time beside a wrong answer
      turn.generation = 0;
    }
  } catch (const WorkerLost& lost) {
    fail(turn, lost.what());
  }
}

const Variant& variant_of(const Cell& cell) {
  const auto is_it = [&cell](const Listed& listed) {
    return listed.name == cell.variant && listed.backend == cell.backend;
  };
  return *std::find_if(registry().begin(), registry().end(), is_it)->variant;
}

std::optional<Roofline> roofline_of(const Run& run, const Cell& cell) {
  for (const DocumentDevice& known : run.devices) {
    if (known.device.uuid == cell.device && known.device.backend == cell.backend &&
        known.calibration) {
      return roofline(*known.calibration, known.device, cell,
                      variant_of(cell).unit(cell.precision));
    }
  }
  return std::nullopt;
}

// The second witness, and the verdict on the time. A worker that dies here costs the witness only.
void judge_cell(Run& run, Turn& turn) {
  Result& result = *turn.result;
  if (!result.summary) {
    return;
  }
  if (run.options.measuring.times_only) {
    result.referee = Referee{.missing = "not asked: --times-only"};
  } else if (result.cell.planted != Planted{}) {
    result.referee = Referee{.missing = "not asked: something is planted in the cell"};
  } else if (turn.open() && turn.generation == run.worker.generation()) {
    try {
      result.referee = run.worker.witness(result.cell);
    } catch (const WorkerLost& lost) {
      result.referee = Referee{.missing = lost.what()};
    }
  } else {
    result.referee = Referee{.missing = "the process that measured it was gone"};
  }
  result.roofline = roofline_of(run, result.cell);
  const std::vector<std::string> found = doubts(result);
  if (!found.empty()) {
    result.status = Status::kUntrusted;
    result.reason = join(found, "; ");
  }
  turn.generation = 0;
}

// The anchors, at the clocks that the cells leave, beside the last round of each. They are worth no
// cell: a worker that dies of them costs them only.
void measure_anchors(Run& run, std::span<Turn> turns) {
  const auto is_here = [&run](const Turn& turn) {
    return turn.open() && turn.generation == run.worker.generation() &&
           !turn.result->rounds.empty();
  };
  if (std::none_of(turns.begin(), turns.end(), is_here)) {
    return;
  }
  run.observer.progress("timing the anchors");
  try {
    const std::optional<Anchors> anchors = run.worker.anchors();
    for (Turn& turn : turns) {
      if (is_here(turn)) {
        turn.result->rounds.back().anchors = anchors;
      }
    }
  } catch (const WorkerLost&) {
    // No anchors; the cells are opened anew to be closed.
  }
}

// Cells that share tensors: all opened, then measured in turns, then closed.
void measure_group(Run& run, std::span<Turn> turns, double seconds) {
  const Clock::time_point start = Clock::now();
  for (Turn& turn : turns) {
    run.observer.progress(turn.result->cell.id() + ": checking");
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
      run.observer.progress(turns[i].result->cell.id() + ": round " +
                            std::to_string(turns[i].result->rounds.size() + 1));
      measure_cell(run, turns[i]);
    }
  }
  if (!run.options.measuring.times_only) {
    measure_anchors(run, turns);
  }
  for (Turn& turn : turns) {
    run.observer.progress(turn.result->cell.id() + ": checking what the timed launches wrote");
    close_cell(run, turn);
  }
  // Last, since the witness may slow whatever its process times afterwards, so that the next cells
  // need another.
  for (Turn& turn : turns) {
    run.observer.progress(turn.result->cell.id() + ": asking the second witness");
    judge_cell(run, turn);
    run.observer.cell_done();
  }
  if (!run.options.measuring.times_only) {
    run.worker.retire();
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

}  // namespace

std::vector<Result> unmeasured(const Plan& plan) {
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

int measure_cells(const Plan& plan, const RunOptions& options,
                  const std::vector<DocumentDevice>& devices, WorkerProcess& worker,
                  const Observer& observer, std::vector<Result>& results) {
  const Clock::time_point started = Clock::now();
  Run run{.options = options, .devices = devices, .worker = worker, .observer = observer};
  std::vector<std::vector<Turn>> groups = groups_of(plan, results);
  std::size_t cells_left = 0;
  for (const std::vector<Turn>& group : groups) {
    cells_left += group.size();
  }
  for (std::vector<Turn>& group : groups) {
    try {
      // Each group may use its share of what the groups before it left over.
      const double left = options.measuring.time_budget_s - seconds_since(started);
      measure_group(run, group,
                    left * static_cast<double>(group.size()) / static_cast<double>(cells_left));
      cells_left -= group.size();
    } catch (const Interrupted&) {
      for (Turn& turn : group) {
        if (turn.open()) {
          fail(turn, "interrupted before it was known well enough");
        }
      }
      return interrupted();
    }
  }
  return 0;
}

int profile_cells(const Plan& plan, WorkerProcess& worker, std::vector<Result>& results) {
  for (std::size_t i = 0; i < plan.cells.size(); ++i) {
    if (!plan.cells[i].skip.empty()) {
      continue;
    }
    try {
      const Result profiled = worker.profile(results[i].cell);
      results[i].status = profiled.status;
      results[i].reason = profiled.reason;
      results[i].choice = profiled.choice;
    } catch (const WorkerLost& lost) {
      results[i].reason = lost.what();
    } catch (const Interrupted&) {
      return interrupted();
    }
  }
  return 0;
}

}  // namespace mla_bench
