// A cell (what is measured) and its result, as every stage after the plan passes them on and as the
// document holds them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "check.hpp"
#include "environment.hpp"
#include "executor.hpp"
#include "inputs.hpp"
#include "mla_bench/variant.hpp"
#include "planted.hpp"

namespace mla_bench {

// Whether the operands are in the last-level cache when a timed launch begins.
enum class L2State { kHot, kCold };

enum class Status {
  kPassed,
  kIncorrect,  // the output is wrong: no time is shown
  kFailed,     // an error or a crash while it ran
  kSkipped,    // it cannot or should not run here, and `reason` says why
  kUntrusted,  // the output is right, but the time cannot be believed, and `reason` says why
};

std::string_view name_of(L2State state);
std::string_view name_of(Status status);

// One row of a run: everything that tells two measurements apart.
struct Cell {
  std::string variant;
  Backend backend = Backend::kCpu;
  int ordinal = 0;     // CUDA index while this run lasts, which tells no cells apart
  std::string device;  // uuid, or the CPU's name
  int threads = 0;     // OpenMP threads of a CPU cell
  Precision precision = Precision::kFp32;
  L2State l2 = L2State::kHot;
  Problem problem;
  InputSource inputs;
  // UUIDs of the GPUs that do the same at the same time (--concurrent), in their order; none: it is
  // measured alone.
  std::vector<std::string> concurrent_with;
  // Of selftest: which of several copies of the cell it is, and what was planted in it.
  int copy = 0;
  Planted planted;

  // "tiled/GPU-6750905a-.../B:4/S:96/Dm:256/R:48/H:4/D:32/fp32/hot", and "/concurrent:2" where two
  // GPUs are measured at the same time: unique in a document.
  std::string id() const;

  // True where two cells work on the same tensors on the same device, so that they can share them
  // and take turns.
  bool shares_tensors_with(const Cell& other) const;
};

// Periods of two frozen launches, timed beside a cell: what a session shifts, it shifts in these
// too. See anchors.hpp.
struct Anchors {
  double copy_ns = 0;
  double fma_ns = 0;
  std::string source;  // what they were made from: a hash
};

// One burst of timed passes in one process, the unit of evidence: samples inside a round share
// their process, clocks and addresses.
struct Round {
  // Which fresh run of the program it is of, where a document holds several (a gate's baseline).
  std::int64_t process = 0;
  std::int64_t short_launches = 0;  // 0: the fixed cost of a pass is negligible beside one launch
  std::int64_t long_launches = 0;
  std::vector<double> short_ns;    // whole passes, as the timer gave them
  std::vector<double> long_ns;     // whole passes
  std::vector<double> samples_ns;  // (long - short) / (long_launches - short_launches), per launch
  // Samples that were taken again, since something disturbed the short pass for longer than the
  // long one takes: their difference is no time.
  std::int64_t retaken_samples = 0;
  // SM clock over each long pass, 0 where it could not be read; empty on a CPU.
  std::vector<double> clock_mhz;
  // Places in samples_ns of those whose clock was below 97 % of the round's median: kept, but
  // marked.
  std::vector<std::int64_t> slow_clock_samples;
  // Around the round, where the environment can be asked.
  std::optional<GpuState> before;
  std::optional<GpuState> after;
  std::optional<Anchors> anchors;  // right after the last round of a process
};

// Per launch. The median is over all samples; the interval comes from the spread between rounds.
struct Summary {
  double median_ns = 0;
  double min_ns = 0;
  double mad_ns = 0;       // median absolute deviation of all samples
  double ci95_low_ns = 0;  // Student's t on the rounds' medians
  double ci95_high_ns = 0;
  std::int64_t samples = 0;
  // Smallest step between two times of passes, a launch: what a sample can tell. 0 where all passes
  // took the same time, which tells nothing.
  double resolution_ns = 0;
};

// Periods of launches that do none of the operator's arithmetic, measured beside it.
struct Floors {
  double empty_ns = 0;  // the same launch shapes, nothing done
  double touch_ns = 0;  // every input read and every output written once
};

// Whether a cold run was cold: the period with as many operand sets again must not differ, or the
// sets had not left the cache when their turn came.
struct ColdProof {
  std::int64_t sets = 0;
  double period_ns = 0;
  std::int64_t more_sets =
      0;  // 0: not tried, since it would take more launches than a pass may have
  double more_sets_period_ns = 0;
};

// The second witness: how long the kernels themselves ran by the GPU's own time stamps.
struct Referee {
  std::string missing;      // why there is none; the numbers below are then meaningless
  double duration_ns = 0;   // of the kernels of one launch, without the gaps between them
  double gap_ns = 0;        // period - duration
  double empty_gap_ns = 0;  // the same of the empty kernels of the same launch shapes
  double band_ns = 0;       // how far the two gaps may differ, as calibrated on this device
  // Unset where nobody was asked, for want of a process that measured.
  std::optional<KernelCounts> counts;
};

// The least time that a cell's credited work can take on its device, by measured ceilings.
struct Roofline {
  double ns = 0;
  bool by_memory = false;  // bytes bind, not arithmetic
};

// Work that was planted in a cell to slow it down, and how much it does.
struct PlantedWork {
  double spin_ns = 0;         // each spin
  std::int64_t launches = 0;  // between two spins
  // Measured beside the same launches without spins, where that was asked for; 0.05 is 5 %.
  std::optional<double> slow_down;
};

struct Result {
  Cell cell;
  Status status = Status::kSkipped;
  std::string reason;                // one line; empty when passed
  std::optional<Check> check;        // of the launch before timing
  std::optional<Check> recheck;      // of what the timed launches wrote
  std::vector<KernelFacts> kernels;  // as captured, a library's too
  std::string choice;
  std::optional<Floors> floors;
  std::optional<double> api_latency_ns;  // host call to completion; no part of any other time
  std::vector<Round> rounds;
  std::optional<Roofline> roofline;
  std::optional<ColdProof> cold_proof;
  std::optional<Referee> referee;
  std::optional<PlantedWork> planted_work;
  std::optional<Summary> summary;  // only for a right output
};

// The sizes of a problem as ids and names hold them: "B:4/S:96/Dm:256/R:48/H:4/D:32".
std::string id_of(const Problem& problem);

// How many GPUs are measured at the same time, this cell's among them, and that as a part of ids:
// "/concurrent:2", nothing for one.
int gpus_at_once(const Cell& cell);
std::string concurrent_id(int gpus);

// Whether the management library told, before or after the round, that a power limit held the
// clock.
bool is_at_power_limit(const Round& round);

// Per launch, a median for each round that has samples: the independent values that intervals come
// from.
std::vector<double> round_medians_ns(const std::vector<Round>& rounds);

// When each of these rounds was: its process, and the how manieth it is there of its cell. Cells
// that took turns were beside one another where these are the same.
std::vector<std::pair<std::int64_t, std::int64_t>> round_turns(const std::vector<Round>& rounds);

// Throws std::invalid_argument where there is no sample.
Summary summarize(const std::vector<Round>& rounds);

// The command that repeats this cell, and no other but those that are measured at the same time.
std::string command_of(const Cell& cell);

}  // namespace mla_bench
