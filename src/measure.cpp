#include "measure.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <exception>
#include <iterator>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>

#include "statistics.hpp"

namespace mla_bench {
namespace {

// A pass this long makes event ticks (32 ns on an H200) and clock reads vanish: 32 ns / 0.75 ms <
// 0.01 %.
constexpr double kLongPassNs = 1e6;
// A fixed cost below this part of a pass is left in it.
constexpr double kNegligible = 0.001;
// A pass this long is slow: the estimate takes the first one as it is, since another would cost
// more than it tells.
constexpr double kSlowPassNs = 20e6;
// Graphs of more nodes take long to instantiate and add nothing.
constexpr std::int64_t kMostLaunches = 2048;
// A warm launch shorter than this part of what was planned for is planned for anew: its passes
// would be too short by as much.
constexpr double kAsPlanned = 0.8;
// Samples of a round, and the time that slow cells may take for one.
constexpr int kReplays = 31;
constexpr int kFewestReplays = 2;
// Of one sample whose passes' difference is no time: some 25 ms, which outlasts a disturbance.
constexpr int kMostRetakes = 20;
// Samples where the median alone is wanted.
constexpr int kPeriodReplays = 7;
constexpr double kRoundNs = 100e6;
// Cold operands: five times the cache, as flashinfer asks; the proof with twice as many is what
// counts.
constexpr std::int64_t kColdCacheMultiple = 5;
// More sets than this take graphs whose building outlasts the measurement.
constexpr std::int64_t kMostSets = 8192;
// A sample whose clock is lower than this part of its round's is marked.
constexpr double kSlowClock = 0.97;

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Takes what Google Benchmark measured of each repetition and prints nothing.
class SampleCollector : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }

  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      if (run.run_type == Run::RT_Iteration) {
        samples_ns.push_back(run.GetAdjustedRealTime());
      }
    }
  }

  std::vector<double> samples_ns;
};

}  // namespace

std::int64_t ring_size(L2State l2, std::int64_t operand_bytes, std::int64_t cache_bytes) {
  if (l2 == L2State::kHot) {
    return 1;
  }
  return std::clamp<std::int64_t>(
      round_up(kColdCacheMultiple * cache_bytes, operand_bytes) / operand_bytes, 2, kMostSets);
}

bool fills_cache(std::int64_t sets, std::int64_t operand_bytes, std::int64_t cache_bytes) {
  return sets * operand_bytes >= kColdCacheMultiple * cache_bytes;
}

TimingPlan plan_timing(double launch_ns, double fixed_cost_ns, std::int64_t ring) {
  // Whole turns of the ring, at least two where a quarter of them is to be taken away.
  const double turn_ns = std::max(launch_ns, 1.0) * static_cast<double>(ring);
  const auto wanted = static_cast<std::int64_t>(std::ceil(kLongPassNs / turn_ns));
  const std::int64_t most = std::max<std::int64_t>(2, kMostLaunches / ring);
  std::int64_t turns = std::clamp<std::int64_t>(wanted, 1, most);
  TimingPlan plan;
  if (fixed_cost_ns > kNegligible * static_cast<double>(turns) * turn_ns) {
    turns = std::max<std::int64_t>(turns, 2);
    plan.short_launches = std::max<std::int64_t>(1, turns / 4) * ring;
  }
  plan.long_launches = turns * ring;
  const double sample_ns =
      launch_ns * static_cast<double>(plan.short_launches + plan.long_launches);
  const double affordable = kRoundNs / std::max(sample_ns, 1.0);
  plan.replays = static_cast<int>(
      std::clamp(affordable, static_cast<double>(kFewestReplays), static_cast<double>(kReplays)));
  plan.is_slow = static_cast<double>(turns) * turn_ns >= kSlowPassNs;
  return plan;
}

double estimate_launch_ns(Timer& timer, std::int64_t ring) {
  // The first pass pays for caches and page tables. Longer ones follow until the fixed cost is
  // small.
  double launch_ns = 0;
  std::int64_t launches = ring;
  for (int attempt = 0; attempt < 4; ++attempt) {
    Replay replay = timer.replay(launches);
    if (replay.ns < kSlowPassNs) {
      replay = timer.replay(launches);
    }
    launch_ns = replay.ns / static_cast<double>(replay.launches);
    if (replay.ns >= kLongPassNs / 4 || launches >= kMostLaunches) {
      break;
    }
    launches = round_up(std::min(launches * 8, kMostLaunches), ring);
  }
  return launch_ns;
}

double warm_up(Timer& timer, const TimingPlan& plan, double seconds) {
  constexpr double kSettled = 0.005;
  constexpr std::size_t kAgreeing = 3;
  const auto start = std::chrono::steady_clock::now();
  std::array<double, kAgreeing> latest{};
  double shortest_ns = std::numeric_limits<double>::infinity();
  for (std::size_t count = 0;; ++count) {
    const double ns = timer.replay(plan.long_launches).ns;
    latest[count % kAgreeing] = ns;
    shortest_ns = std::min(shortest_ns, ns);
    const auto [least, most] = std::minmax_element(latest.begin(), latest.end());
    const bool settled = count + 1 >= kAgreeing && *most - *least <= kSettled * *least;
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    if (settled || elapsed.count() >= seconds) {
      return shortest_ns;
    }
  }
}

void settle_power(Timer& timer, const TimingPlan& plan, double seconds) {
  const auto start = std::chrono::steady_clock::now();
  std::chrono::duration<double> elapsed{0};
  while (elapsed.count() < seconds) {
    timer.replay(plan.long_launches);
    elapsed = std::chrono::steady_clock::now() - start;
  }
}

TimingPlan plan_warm(Timer& timer, std::int64_t ring, double warmup_s) {
  const auto start = std::chrono::steady_clock::now();
  double launch_ns = estimate_launch_ns(timer, ring);
  while (true) {
    const TimingPlan plan = plan_timing(launch_ns, timer.fixed_cost_ns(), ring);
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    const double warm_ns = warm_up(timer, plan, std::max(0.0, warmup_s - spent.count())) /
                           static_cast<double>(plan.long_launches);
    if (warm_ns >= kAsPlanned * launch_ns) {
      return plan;
    }
    launch_ns = warm_ns;
  }
}

std::optional<double> usual_clock_mhz(const std::vector<double>& clock_mhz) {
  std::vector<double> read;
  std::copy_if(clock_mhz.begin(), clock_mhz.end(), std::back_inserter(read),
               [](double mhz) { return mhz > 0; });
  return read.empty() ? std::nullopt : std::optional(median(read));
}

std::vector<std::int64_t> slow_clock_samples(const std::vector<double>& clock_mhz) {
  std::vector<std::int64_t> slow;
  const double usual = usual_clock_mhz(clock_mhz).value_or(0);
  for (std::size_t i = 0; i < clock_mhz.size(); ++i) {
    if (clock_mhz[i] > 0 && clock_mhz[i] < kSlowClock * usual) {
      slow.push_back(static_cast<std::int64_t>(i));
    }
  }
  return slow;
}

Round measure_round(Timer& timer, const TimingPlan& plan, const std::string& name) {
  Round round{.short_launches = plan.short_launches,
              .long_launches = plan.long_launches,
              .short_ns = {},
              .long_ns = {},
              .samples_ns = {},
              .retaken_samples = 0,
              .clock_mhz = {},
              .slow_clock_samples = {},
              .before = {},
              .after = {}};
  std::exception_ptr failure;
  const auto sample = [&](benchmark::State& state) {
    for (auto _ : state) {
      if (failure) {
        // The device may be broken. And where only the first repetition failed, Google Benchmark
        // 1.7 follows a wild pointer when it sums up the others.
        state.SkipWithError("an earlier launch failed");
        break;
      }
      try {
        double short_ns = 0;
        Replay long_pass;
        for (int attempt = 0;; ++attempt) {
          short_ns = plan.short_launches > 0 ? timer.replay(plan.short_launches).ns : 0.0;
          long_pass = timer.replay(plan.long_launches);
          if (long_pass.ns > short_ns) {
            break;
          }
          if (attempt == kMostRetakes) {
            throw std::runtime_error(
                "passes of " + std::to_string(plan.short_launches) +
                " launches take no less than those of " + std::to_string(plan.long_launches) +
                ": something else keeps the device busy, or the launches do not run in the pass");
          }
          round.retaken_samples += 1;
        }
        const auto launches = static_cast<double>(plan.long_launches - plan.short_launches);
        state.SetIterationTime((long_pass.ns - short_ns) / launches * 1e-9);
        round.long_ns.push_back(long_pass.ns);
        round.clock_mhz.push_back(long_pass.clock_mhz);
        if (plan.short_launches > 0) {
          round.short_ns.push_back(short_ns);
        }
      } catch (...) {
        // Google Benchmark's frames are not written to be unwound through.
        failure = std::current_exception();
        state.SkipWithError("the launch failed");
        break;
      }
    }
  };
  if (!plan.is_slow) {
    // Untimed: whoever had the last turn left other clocks and other lines.
    timer.replay(plan.long_launches);
  }

  SampleCollector collector;
  benchmark::ClearRegisteredBenchmarks();
  benchmark::RegisterBenchmark(name.c_str(), sample)
      ->UseManualTime()
      ->Iterations(1)
      ->Repetitions(plan.replays)
      ->Unit(benchmark::kNanosecond);
  benchmark::RunSpecifiedBenchmarks(&collector, nullptr, ".");
  benchmark::ClearRegisteredBenchmarks();

  if (failure) {
    std::rethrow_exception(failure);
  }
  round.samples_ns = std::move(collector.samples_ns);
  if (!usual_clock_mhz(round.clock_mhz)) {
    round.clock_mhz.clear();  // a device without such a clock
  }
  round.slow_clock_samples = slow_clock_samples(round.clock_mhz);
  return round;
}

double period_ns(Timer& timer, const TimingPlan& plan) {
  if (plan.is_slow) {
    const Replay pass = timer.replay(plan.long_launches);
    return pass.ns / static_cast<double>(pass.launches);
  }
  TimingPlan brief = plan;
  brief.replays = std::min(brief.replays, kPeriodReplays);
  return median(measure_round(timer, brief, "period").samples_ns);
}

double period_ns(Executor& executor, std::vector<Launch> ring, double warmup_s) {
  const auto sets = static_cast<std::int64_t>(ring.size());
  const std::unique_ptr<Timer> timer = executor.make_timer(std::move(ring));
  return period_ns(*timer, plan_warm(*timer, sets, warmup_s));
}

}  // namespace mla_bench
