#include "measure_cells.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <set>

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
  const Observer& observer;
};

// A cell of the group in hand: where its result is, and the worker that holds it open.
struct Turn {
  Result* result = nullptr;
  WorkerProcess* worker = nullptr;
  int generation = 0;  // of the worker in which it is open; 0 where it is not

  bool open() const { return generation != 0; }
  bool is_lost() const { return open() && generation != worker->generation(); }
  const Cell& cell() const { return result->cell; }
};

// The turns of one cell on the devices that do it at the same time; mostly one.
using Together = std::vector<Turn>;

void fail(Turn& turn, const std::string& reason) {
  turn.generation = 0;
  turn.result->status = Status::kFailed;
  turn.result->reason = reason;
  turn.result->summary.reset();  // no time beside a failure
}

enum class Early { kWait, kGoOn };

// Asks the workers of these turns, all at once, and gives each answer to `take` or, where a worker
// was lost over it, the reason to `lose`. Who has answered before the others can go on with the
// same, which is not taken, so that nobody's answer is found beside idle devices.
template <typename Value, typename Ask, typename Take, typename Lose>
void ask_together(const std::vector<Turn*>& turns, const Ask& question_of, Early early,
                  const Take& take, const Lose& lose) {
  struct Asked {
    Turn* turn;
    Value (*read)(const Json&);
    bool counts;
  };
  std::vector<Asked> asked;
  const auto ask = [&](Turn& turn, bool counts) {
    const Question<Value> question = question_of(turn);
    try {
      turn.worker->send(question.request);
      asked.push_back({.turn = &turn, .read = question.read, .counts = counts});
    } catch (const WorkerLost& lost) {
      lose(turn, lost);
    }
  };
  for (Turn* turn : turns) {
    ask(*turn, true);
  }
  while (!asked.empty()) {
    std::vector<WorkerProcess*> workers;
    for (const Asked& one : asked) {
      workers.push_back(one.turn->worker);
    }
    const std::size_t first = first_to_answer(workers);
    const Asked answered = asked[first];
    asked.erase(asked.begin() + static_cast<std::ptrdiff_t>(first));
    try {
      const Json answer = answered.turn->worker->receive();
      if (answered.counts) {
        take(*answered.turn, answered.read(answer));
      }
    } catch (const WorkerLost& lost) {
      lose(*answered.turn, lost);
      continue;
    }
    const bool others_count =
        std::any_of(asked.begin(), asked.end(), [](const Asked& one) { return one.counts; });
    if (early == Early::kGoOn && others_count) {
      ask(*answered.turn, false);
    }
  }
}

void fail_lost(Turn& turn, const WorkerLost& lost) {
  fail(turn, lost.what());
}

// Those of the turns that meet a condition.
template <typename Condition>
std::vector<Turn*> those(Together& turns, const Condition& condition) {
  std::vector<Turn*> found;
  for (Turn& turn : turns) {
    if (condition(turn)) {
      found.push_back(&turn);
    }
  }
  return found;
}

bool is_open(const Turn& turn) {
  return turn.open();
}

// Opens the cells in their workers, anew where an earlier worker died with them.
void open_cells(const Run& run, const std::vector<Turn*>& turns) {
  const auto take = [](Turn& turn, Result opened) {
    std::vector<Round> rounds = std::move(turn.result->rounds);
    *turn.result = std::move(opened);
    turn.generation = 0;
    if (turn.result->status == Status::kPassed) {
      turn.result->rounds = std::move(rounds);
      turn.generation = turn.worker->generation();
    }
  };
  const MeasuringOptions& measuring = run.options.measuring;
  const Effort effort{.warmup_s = measuring.warmup_s,
                      .samples = measuring.samples,
                      .times_only = measuring.times_only,
                      .measure_plants = measuring.measure_plants};
  ask_together<Result>(
      turns, [&](const Turn& turn) { return open_question(turn.cell(), effort, run.options.save); },
      Early::kWait, take, fail_lost);
}

void measure_cells(const Run& run, Together& turns) {
  open_cells(run, those(turns, [](const Turn& turn) { return turn.is_lost(); }));
  ask_together<Round>(
      those(turns, is_open), [](const Turn& turn) { return measure_question(turn.cell()); },
      Early::kGoOn,
      [](Turn& turn, Round round) { turn.result->rounds.push_back(std::move(round)); }, fail_lost);
}

void close_cells(const Run& run, Together& turns) {
  open_cells(run, those(turns, [](const Turn& turn) { return turn.is_lost(); }));
  const auto take = [](Turn& turn, const Result& closed) {
    Result& result = *turn.result;
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
  };
  ask_together<Result>(
      those(turns, is_open), [](const Turn& turn) { return close_question(turn.cell()); },
      Early::kWait, take, fail_lost);
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

// Why the rounds of a cell were not all beside those that they were meant to be beside; empty where
// they were.
std::string missing_company(const Together& turns) {
  for (const Turn& other : turns) {
    if (!other.result->summary) {
      return "not measured at the same time as " + other.cell().device + ", whose cell is " +
             std::string(name_of(other.result->status));
    }
  }
  return "";
}

// The second witness, and the verdict on the times. A worker that dies here costs the witness only.
void judge_cells(const Run& run, Together& turns) {
  const auto has_time = [](const Turn& turn) { return turn.result->summary.has_value(); };
  for (Turn* turn : those(turns, has_time)) {
    turn->result->referee = Referee{.missing = "the process that measured it was gone"};
  }
  const auto is_planted = [](const Turn& turn) { return turn.cell().planted != Planted{}; };
  for (Turn* turn : those(turns, is_planted)) {
    if (has_time(*turn)) {
      turn->result->referee = Referee{.missing = "not asked: something is planted in the cell"};
    }
  }
  for (Turn* turn : those(turns, has_time)) {
    if (run.options.measuring.times_only) {
      turn->result->referee = Referee{.missing = "not asked: --times-only"};
    }
  }
  const auto is_left = [&](const Turn& turn) {
    return !run.options.measuring.times_only && !is_planted(turn) && has_time(turn) &&
           turn.open() && !turn.is_lost();
  };
  ask_together<Referee>(
      those(turns, is_left), [](const Turn& turn) { return witness_question(turn.cell()); },
      Early::kWait, [](Turn& turn, Referee referee) { turn.result->referee = std::move(referee); },
      [](Turn& turn, const WorkerLost& lost) {
        turn.result->referee = Referee{.missing = lost.what()};
      });
  for (Turn* turn : those(turns, has_time)) {
    Result& result = *turn->result;
    result.roofline = roofline_of(run, result.cell);
    std::vector<std::string> found = doubts(result);
    if (const std::string missing = missing_company(turns); !missing.empty()) {
      found.push_back(missing);
    }
    if (!found.empty()) {
      result.status = Status::kUntrusted;
      result.reason = join(found, "; ");
    }
    turn->generation = 0;
  }
}

// The anchors, at the clocks that the cells leave, beside the last round of each. They are worth no
// cell: a worker that dies of them costs them only.
void measure_anchors(const Run& run, std::vector<Together>& group) {
  std::map<WorkerProcess*, std::vector<Turn*>> by_worker;
  for (Together& turns : group) {
    for (Turn& turn : turns) {
      if (turn.open() && !turn.is_lost() && !turn.result->rounds.empty()) {
        by_worker[turn.worker].push_back(&turn);
      }
    }
  }
  for (const auto& [worker, turns] : by_worker) {
    run.observer.progress("timing the anchors");
    try {
      const std::optional<Anchors> anchors = worker->anchors();
      for (Turn* turn : turns) {
        turn->result->rounds.back().anchors = anchors;
      }
    } catch (const WorkerLost&) {
      // No anchors; the cells are opened anew to be closed.
    }
  }
}

// Cells that share tensors: all opened, then measured in turns, then closed.
void measure_group(const Run& run, std::vector<Together>& group, double seconds) {
  const Clock::time_point start = Clock::now();
  const auto tell = [&run](const std::string& what, const Together& turns) {
    run.observer.progress(what + " " + turns.front().cell().id());
  };
  for (Together& turns : group) {
    tell("checking", turns);
    open_cells(run, those(turns, [](const Turn&) { return true; }));
  }
  for (std::uint64_t lap_number = 0;; ++lap_number) {
    std::vector<Progress> states;
    std::vector<std::size_t> owners;  // which of the group a state is of
    for (std::size_t i = 0; i < group.size(); ++i) {
      for (const Turn& turn : group[i]) {
        states.push_back({.open = turn.open(), .rounds = turn.result->rounds});
        owners.push_back(i);
      }
    }
    const std::vector<std::size_t> lap =
        next_lap(states, run.options.measuring, seconds - seconds_since(start), lap_number);
    if (lap.empty()) {
      break;
    }
    std::set<std::size_t> done;
    for (const std::size_t state : lap) {
      const std::size_t owner = owners[state];
      if (done.insert(owner).second) {  // one that wants a round brings the others along
        Together& turns = group[owner];
        tell("round " + std::to_string(turns.front().result->rounds.size() + 1) + " of", turns);
        measure_cells(run, turns);
      }
    }
  }
  if (!run.options.measuring.times_only) {
    measure_anchors(run, group);
  }
  for (Together& turns : group) {
    tell("checking what was written by the timed launches of", turns);
    close_cells(run, turns);
  }
  // Last, since the witness may slow whatever its process times afterwards, so that the next cells
  // need another.
  for (Together& turns : group) {
    tell("asking the second witness of", turns);
    judge_cells(run, turns);
  }
  run.observer.cells_done();  // not one by one: those to come have a time, and no judgement yet
  for (const Together& turns : group) {
    for (const Turn& turn : turns) {
      if (!run.options.measuring.times_only) {
        turn.worker->retire();
      }
    }
  }
}

// Whether these are measured at the same time, on different devices.
bool are_together(const Cell& a, const Cell& b) {
  return std::find(a.concurrent_with.begin(), a.concurrent_with.end(), b.device) !=
             a.concurrent_with.end() &&
         a.variant == b.variant && a.copy == b.copy && a.l2 == b.l2 && a.precision == b.precision &&
         a.problem == b.problem && a.inputs == b.inputs;
}

// The worker at hand for every cell, or one for each GPU where these measure at the same time.
class Workers {
 public:
  Workers(WorkerProcess& first, const RunOptions& options)
      : first_(first),
        timeout_s_(options.measuring.timeout_s),
        one_for_each_gpu_(options.concurrent) {
    if (one_for_each_gpu_) {
      first_.retire();  // it may have contexts on the GPUs, and would be another process there
    }
  }

  WorkerProcess& of(const Cell& cell) {
    if (!one_for_each_gpu_ || cell.backend != Backend::kCuda) {
      return first_;
    }
    std::unique_ptr<WorkerProcess>& worker = of_gpus_[cell.device];
    if (!worker) {
      worker = std::make_unique<WorkerProcess>(timeout_s_);
    }
    return *worker;
  }

 private:
  WorkerProcess& first_;
  double timeout_s_;
  bool one_for_each_gpu_;
  std::map<std::string, std::unique_ptr<WorkerProcess>> of_gpus_;  // by UUID
};

// The cells to run in groups that share tensors, or work on the same ones on different GPUs at the
// same time, in plan order.
std::vector<std::vector<Together>> groups_of(const Plan& plan, bool concurrent, Workers& workers,
                                             std::vector<Result>& results) {
  const auto is_of_one_group = [concurrent](const Cell& a, const Cell& b) {
    return a.shares_tensors_with(b) ||
           (concurrent && a.backend == b.backend && a.precision == b.precision &&
            a.problem == b.problem && a.inputs == b.inputs);
  };
  std::vector<std::vector<Together>> groups;
  for (std::size_t i = 0; i < plan.cells.size(); ++i) {
    if (!plan.cells[i].skip.empty()) {
      continue;
    }
    const Cell& cell = results[i].cell;
    const Turn turn{.result = &results[i], .worker = &workers.of(cell)};
    const auto group = std::find_if(groups.begin(), groups.end(), [&](const auto& known) {
      return is_of_one_group(known.front().front().cell(), cell);
    });
    if (group == groups.end()) {
      groups.push_back({{turn}});
      continue;
    }
    const auto partners = std::find_if(group->begin(), group->end(), [&](const Together& turns) {
      return are_together(cell, turns.front().cell());
    });
    if (partners == group->end()) {
      group->push_back({turn});
    } else {
      partners->push_back(turn);
    }
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
  const Run run{.options = options, .devices = devices, .observer = observer};
  Workers workers(worker, options);
  std::vector<std::vector<Together>> groups = groups_of(plan, options.concurrent, workers, results);
  std::size_t cells_left = 0;
  for (const std::vector<Together>& group : groups) {
    cells_left += group.size();
  }
  for (std::vector<Together>& group : groups) {
    try {
      // Each group may use its share of what the groups before it left over.
      const double left = options.measuring.time_budget_s - seconds_since(started);
      measure_group(run, group,
                    left * static_cast<double>(group.size()) / static_cast<double>(cells_left));
      cells_left -= group.size();
    } catch (const Interrupted&) {
      for (Together& turns : group) {
        for (Turn* turn : those(turns, is_open)) {
          fail(*turn, "interrupted before it was known well enough");
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
