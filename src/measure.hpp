// From a timer to the samples of one round. Google Benchmark runs the passes; how many and how long
// is our plan's, so its own calibration, flags and environment cannot change a run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "executor.hpp"
#include "result.hpp"

namespace mla_bench {

// What is spent on a cell beside its rounds.
struct Effort {
  double warmup_s = 0.5;        // at most; ends early when times have settled
  int samples = 31;             // of a round, fewer where a launch is long
  bool times_only = false;      // no floors, no host latency, no proof that cold is cold
  bool measure_plants = false;  // by how much planted work slows its launches down
};

// How a cell is sampled: each sample is a pair of passes, of short and of long length.
struct TimingPlan {
  std::int64_t short_launches = 0;  // 0: no short pass, the fixed cost of a pass is negligible
  std::int64_t long_launches = 1;
  int replays = 1;  // samples of a round
  // A long pass takes so long (a cold ring of slow launches, a slow launch on a CPU) that it warms
  // up by itself, and that one pass tells a period: every further one is felt by the user.
  bool is_slow = false;
};

// Operand sets that a run rotates: one for hot; for cold as many as fill the cache five times over,
// so that each set has left it when its turn comes again, but no more than a pass can take turns
// with.
std::int64_t ring_size(L2State l2, std::int64_t operand_bytes, std::int64_t cache_bytes);

// Whether that many sets fill the cache five times over.
bool fills_cache(std::int64_t sets, std::int64_t operand_bytes, std::int64_t cache_bytes);

// The plan for launches of about `launch_ns` by a timer with that fixed cost: lengths are multiples
// of the ring (a pass then visits each set equally often), and the long pass is long enough that
// the timer's tick is below 0.1 % of it. A short pass, whose difference to the long one has no
// fixed cost, only where that cost is not below 0.1 % of the long pass.
TimingPlan plan_timing(double launch_ns, double fixed_cost_ns, std::int64_t ring);

// A first estimate of a launch, from passes of growing length.
double estimate_launch_ns(Timer& timer, std::int64_t ring);

// Replays until three successive times agree within 0.5 % or `seconds` have passed. Returns the
// shortest of them.
double warm_up(Timer& timer, const TimingPlan& plan, double seconds);

// Replays for `seconds`, so that what is timed next sees the clock that a power limit leaves such
// work.
void settle_power(Timer& timer, const TimingPlan& plan, double seconds);

// The plan for a timer's launches at the speed that the warm-up left them with: an estimate during
// which this process did not get its CPU is far too long.
TimingPlan plan_warm(Timer& timer, std::int64_t ring, double warmup_s);

// One round, every sample kept, those at a slow clock marked. Throws what the timer throws.
Round measure_round(Timer& timer, const TimingPlan& plan, const std::string& name);

// Period of a launch now: the median of a short round, or one pass where that is slow. Throws what
// the timer throws.
double period_ns(Timer& timer, const TimingPlan& plan);

// The same for the launches of a ring, by a timer of their own.
double period_ns(Executor& executor, std::vector<Launch> ring, double warmup_s);

// The median of the clocks that were read, of one for each sample and 0 where none was; nothing
// where none was at all.
std::optional<double> usual_clock_mhz(const std::vector<double>& clock_mhz);

// The samples whose clock was read and below 97 % of the usual one.
std::vector<std::int64_t> slow_clock_samples(const std::vector<double>& clock_mhz);

}  // namespace mla_bench
