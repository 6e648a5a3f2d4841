#include "measure.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <exception>

namespace mla_bench {
namespace {

// A pass this long makes event ticks (32 ns on an H200) and clock reads vanish: 32 ns / 0.75 ms <
// 0.01 %.
constexpr double kLongPassNs = 1e6;
// Above this, one launch is long enough beside the fixed cost of a pass (2.3 us measured on an
// H200).
constexpr double kFixedCostNegligibleNs = 5e6;
// Graphs of more nodes take long to instantiate and add nothing.
constexpr std::int64_t kMostLaunches = 2048;
// Samples of a round, and the time that slow cells may take for one.
constexpr int kReplays = 31;
constexpr int kFewestReplays = 3;
constexpr double kRoundNs = 100e6;
// Cold operands: five times the cache, as flashinfer asks; the proof with twice as many is what
// counts.
constexpr std::int64_t kColdCacheMultiple = 5;

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
  return std::max<std::int64_t>(
      2, round_up(kColdCacheMultiple * cache_bytes, operand_bytes) / operand_bytes);
}

TimingPlan plan_timing(double launch_ns, std::int64_t ring) {
  TimingPlan plan;
  if (launch_ns >= kFixedCostNegligibleNs) {
    plan.long_launches = ring;
  } else {
    // Whole turns of the ring, at least two, so that a quarter of them can be taken away.
    const double turn_ns = std::max(launch_ns, 1.0) * static_cast<double>(ring);
    const auto wanted = static_cast<std::int64_t>(std::ceil(kLongPassNs / turn_ns));
    const std::int64_t most = std::max<std::int64_t>(2, kMostLaunches / ring);
    const std::int64_t turns = std::clamp<std::int64_t>(wanted, 2, most);
    plan.long_launches = turns * ring;
    plan.short_launches = std::max<std::int64_t>(1, turns / 4) * ring;
  }
  const double sample_ns =
      launch_ns * static_cast<double>(plan.short_launches + plan.long_launches);
  const double affordable = kRoundNs / std::max(sample_ns, 1.0);
  plan.replays = static_cast<int>(
      std::clamp(affordable, static_cast<double>(kFewestReplays), static_cast<double>(kReplays)));
  return plan;
}

double estimate_launch_ns(Timer& timer, std::int64_t ring) {
  // The first pass pays for caches and page tables. Longer ones follow until the fixed cost is
  // small.
  double launch_ns = 0;
  std::int64_t launches = ring;
  for (int attempt = 0; attempt < 4; ++attempt) {
    Replay replay = timer.replay(launches);
    if (replay.ns < kFixedCostNegligibleNs) {
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

void warm_up(Timer& timer, const TimingPlan& plan, double seconds) {
  constexpr double kSettled = 0.005;
  constexpr std::size_t kAgreeing = 3;
  const auto start = std::chrono::steady_clock::now();
  std::array<double, kAgreeing> latest{};
  for (std::size_t count = 0;; ++count) {
    latest[count % kAgreeing] = timer.replay(plan.long_launches).ns;
    const auto [least, most] = std::minmax_element(latest.begin(), latest.end());
    const bool settled = count + 1 >= kAgreeing && *most - *least <= kSettled * *least;
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    if (settled || elapsed.count() >= seconds) {
      return;
    }
  }
}

Round measure_round(Timer& timer, const TimingPlan& plan, const std::string& name) {
  Round round{.short_launches = plan.short_launches,
              .long_launches = plan.long_launches,
              .short_ns = {},
              .long_ns = {},
              .samples_ns = {}};
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
        const double short_ns =
            plan.short_launches > 0 ? timer.replay(plan.short_launches).ns : 0.0;
        const double long_ns = timer.replay(plan.long_launches).ns;
        const auto launches = static_cast<double>(plan.long_launches - plan.short_launches);
        state.SetIterationTime((long_ns - short_ns) / launches * 1e-9);
        round.long_ns.push_back(long_ns);
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
  timer.replay(
      plan.long_launches);  // untimed: whoever had the last turn left other clocks and lines

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
  return round;
}

}  // namespace mla_bench
