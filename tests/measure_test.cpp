// Measuring with a timer whose every pass costs a known time.
#include "measure.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <stdexcept>
#include <vector>

namespace mla_bench {
namespace {

// The intercept of a CUDA graph.
constexpr double kFixedCost_ns = 2300;

// A pass costs `fixed_ns` and `launch_ns` for each launch, or what `model` says.
class FakeTimer final : public Timer {
 public:
  using Model = std::function<double(std::int64_t launches, std::size_t call)>;

  FakeTimer(double fixed_ns, double launch_ns)
      : FakeTimer([=](std::int64_t launches, std::size_t) {
          return fixed_ns + launch_ns * static_cast<double>(launches);
        }) {}
  explicit FakeTimer(Model model) : model_(std::move(model)) {}

  Replay replay(std::int64_t launches) override {
    calls.push_back(launches);
    const std::size_t call = calls.size() - 1;
    return {.launches = launches,
            .ns = model_(launches, call),
            .clock_mhz = call < clock_mhz.size() ? clock_mhz[call] : 0};
  }

  double fixed_cost_ns() const override { return kFixedCost_ns; }

  std::vector<std::int64_t> calls;
  std::vector<double> clock_mhz;  // of each call; none for those beyond

 private:
  Model model_;
};

using Calls = std::vector<std::int64_t>;

TEST(RingSize, HotIsOneAndColdPassesTheCacheFiveTimes) {
  EXPECT_EQ(ring_size(L2State::kHot, 1000, 1'000'000), 1);
  EXPECT_EQ(ring_size(L2State::kCold, 1 << 20, 60 << 20), 300);
  EXPECT_EQ(ring_size(L2State::kCold, (1 << 20) - 1, 60 << 20), 301);
  EXPECT_EQ(ring_size(L2State::kCold, 1 << 30, 60 << 20), 2) << "even one set is five times it";
  EXPECT_EQ(ring_size(L2State::kCold, 1000, 0), 2) << "a cache of unknown size";
}

TEST(PlanTiming, PassesAreWholeTurnsOfTheRing) {
  for (const std::int64_t ring : {1, 2, 7, 301, 1500, 2048, 5000}) {
    for (double launch_ns = 1; launch_ns < 1e10; launch_ns *= 3.7) {
      const TimingPlan plan = plan_timing(launch_ns, kFixedCost_ns, ring);
      EXPECT_EQ(plan.long_launches % ring, 0) << ring << " " << launch_ns;
      EXPECT_EQ(plan.short_launches % ring, 0) << ring << " " << launch_ns;
      EXPECT_GT(plan.long_launches, plan.short_launches);
      EXPECT_GE(plan.short_launches, 0);
      EXPECT_GE(plan.replays, 2);
      EXPECT_LE(plan.replays, 31);
      EXPECT_LE(plan.long_launches, std::max<std::int64_t>(2048, 2 * ring));
    }
  }
}

TEST(PlanTiming, AShortLaunchGetsLongPasses) {
  const TimingPlan plan = plan_timing(3000, kFixedCost_ns, 1);
  EXPECT_EQ(plan.long_launches, 334);
  EXPECT_EQ(plan.short_launches, 83);
  EXPECT_EQ(plan.replays, 31);
  // The difference must be a thousand ticks of 0.5 us, CUDA's documented event resolution.
  EXPECT_GE(3000.0 * static_cast<double>(plan.long_launches - plan.short_launches), 0.5e3 * 1000);
}

TEST(PlanTiming, ALongLaunchIsTimedAlone) {
  const TimingPlan plan = plan_timing(50e6, kFixedCost_ns, 1);
  EXPECT_EQ(plan.short_launches, 0);
  EXPECT_EQ(plan.long_launches, 1);
  EXPECT_EQ(plan.replays, 2);
  EXPECT_TRUE(plan.is_slow);
  EXPECT_EQ(plan_timing(50e6, kFixedCost_ns, 3).long_launches, 3);
}

TEST(PlanTiming, ALongRingOfSlowLaunchesIsSlow) {
  EXPECT_FALSE(plan_timing(50e3, kFixedCost_ns, 1).is_slow);
  EXPECT_FALSE(plan_timing(50e3, kFixedCost_ns, 340).is_slow);
  EXPECT_TRUE(plan_timing(500e3, kFixedCost_ns, 340).is_slow);
}

TEST(PlanTiming, NoShortPassWhereTheFixedCostIsNegligible) {
  // A clock read beside a pass of a millisecond; taking it away would only add the noise of a pass.
  const TimingPlan plan = plan_timing(3000, 50, 1);
  EXPECT_EQ(plan.short_launches, 0);
  EXPECT_EQ(plan.long_launches, 334);
}

TEST(PlanTiming, AVanishingLaunchIsNoReasonToDivideByIt) {
  const TimingPlan plan = plan_timing(0, kFixedCost_ns, 1);
  EXPECT_EQ(plan.long_launches, 2048);
  EXPECT_EQ(plan.replays, 31);
}

TEST(Estimate, FindsALaunchWithinAFewPercent) {
  for (const double launch_ns : {50.0, 3000.0, 1e5, 1e7, 1e9}) {
    for (const std::int64_t ring : {1, 301}) {
      FakeTimer timer(2300, launch_ns);
      const double estimate = estimate_launch_ns(timer, ring);
      EXPECT_GE(estimate, launch_ns);
      EXPECT_LE(estimate, 1.10 * launch_ns) << launch_ns << " " << ring;
      for (const std::int64_t launches : timer.calls) {
        EXPECT_EQ(launches % ring, 0);
      }
    }
  }
}

TEST(Estimate, SlowLaunchesArePaidOnce) {
  FakeTimer timer(0, 10e9);
  EXPECT_EQ(estimate_launch_ns(timer, 1), 10e9);
  EXPECT_EQ(timer.calls, Calls{1});
}

TEST(Estimate, TheFirstPassOfALengthDoesNotCount) {
  FakeTimer timer([](std::int64_t launches, std::size_t call) {
    return (call % 2 == 0 ? 3e6 : 0.0) + 1e6 * static_cast<double>(launches);
  });
  EXPECT_EQ(estimate_launch_ns(timer, 1), 1e6);
}

TEST(PlanWarm, AnEstimateMadeWithoutTheCpuIsMadeAgain) {
  for (const std::int64_t ring : {1, 7}) {
    const TimingPlan usual = plan_timing(3000, kFixedCost_ns, ring);
    for (const double away_ns : {1e5, 1e7, 3e8}) {
      // Another process had the CPU during the first passes.
      FakeTimer timer([=](std::int64_t launches, std::size_t call) {
        return kFixedCost_ns + 3000 * static_cast<double>(launches) + (call < 2 ? away_ns : 0);
      });
      const TimingPlan plan = plan_warm(timer, ring, 1);
      EXPECT_GE(plan.long_launches, usual.long_launches * 8 / 10) << ring << " " << away_ns;
      EXPECT_LE(plan.long_launches, usual.long_launches) << ring << " " << away_ns;
      EXPECT_EQ(plan.replays, usual.replays) << ring << " " << away_ns;
      for (const std::int64_t launches : timer.calls) {
        EXPECT_EQ(launches % ring, 0);
      }
    }
  }
}

TEST(PlanWarm, AGoodEstimateStands) {
  FakeTimer timer(kFixedCost_ns, 3000);
  const double estimate = estimate_launch_ns(timer, 1);
  timer.calls.clear();
  const TimingPlan plan = plan_warm(timer, 1, 0);
  EXPECT_EQ(plan.long_launches, plan_timing(estimate, kFixedCost_ns, 1).long_launches);
  EXPECT_EQ(std::count(timer.calls.begin(), timer.calls.end(), plan.long_launches), 1)
      << "one warm-up";
  FakeTimer slow(0, 10e9);
  plan_warm(slow, 1, 0);
  EXPECT_EQ(slow.calls, (Calls{1, 1}));
}

TEST(WarmUp, EndsWhenThreeTimesAgree) {
  FakeTimer steady(100, 10);
  const TimingPlan plan{.short_launches = 2, .long_launches = 8, .replays = 5};
  EXPECT_EQ(warm_up(steady, plan, 1e6), 180);
  EXPECT_EQ(steady.calls, (Calls{8, 8, 8}));

  // Falls by 10 % a pass until the seventh; 7, 8 and 9 agree.
  FakeTimer falling([](std::int64_t, std::size_t call) {
    return 1000 * std::pow(0.9, static_cast<double>(std::min<std::size_t>(call, 6)));
  });
  warm_up(falling, plan, 1e6);
  EXPECT_EQ(falling.calls.size(), 9u);
}

TEST(WarmUp, EndsWhenItsTimeIsOver) {
  FakeTimer restless([](std::int64_t, std::size_t call) { return call % 2 == 0 ? 100.0 : 200.0; });
  const TimingPlan plan{.short_launches = 2, .long_launches = 8, .replays = 5};
  warm_up(restless, plan, 0);
  EXPECT_EQ(restless.calls.size(), 1u);
  warm_up(restless, plan, 0.01);
  EXPECT_GT(restless.calls.size(), 1u);
}

TEST(Round, TheSlopeIsFreeOfTheFixedCost) {
  for (const double fixed_ns : {0.0, 2300.0, 1e6}) {
    FakeTimer timer(fixed_ns, 3141.5);
    const TimingPlan plan{.short_launches = 80, .long_launches = 320, .replays = 31};
    const Round round = measure_round(timer, plan, "tiled/cpu/B:4");
    EXPECT_EQ(round.short_launches, 80);
    EXPECT_EQ(round.long_launches, 320);
    EXPECT_EQ(round.short_ns, std::vector<double>(31, fixed_ns + 80 * 3141.5));
    EXPECT_EQ(round.long_ns, std::vector<double>(31, fixed_ns + 320 * 3141.5));
    ASSERT_EQ(round.samples_ns.size(), 31u);
    for (const double sample : round.samples_ns) {
      EXPECT_NEAR(sample, 3141.5, 1e-9 * 3141.5);
    }
  }
}

TEST(Round, TakesExactlyThePlannedPasses) {
  FakeTimer timer(100, 10);
  measure_round(timer, {.short_launches = 2, .long_launches = 8, .replays = 3}, "a");
  EXPECT_EQ(timer.calls, (Calls{8, 2, 8, 2, 8, 2, 8})) << "one untimed, then pairs";
  timer.calls.clear();
  const Round alone =
      measure_round(timer, {.short_launches = 0, .long_launches = 1, .replays = 4}, "a");
  EXPECT_EQ(timer.calls, (Calls{1, 1, 1, 1, 1}));
  EXPECT_TRUE(alone.short_ns.empty());
  EXPECT_EQ(alone.long_ns, std::vector<double>(4, 110));
}

TEST(Round, ASlowPassNeedsNoUntimedOneBeforeIt) {
  FakeTimer timer(0, 1e9);
  const Round round = measure_round(timer, plan_timing(1e9, 0, 1), "a");
  EXPECT_EQ(timer.calls, (Calls{1, 1}));
  EXPECT_EQ(round.samples_ns, std::vector<double>(2, 1e9));
}

TEST(Period, IsTheMedianOfARoundOrOneSlowPass) {
  FakeTimer timer([](std::int64_t launches, std::size_t call) {
    return 10.0 * static_cast<double>(launches) + (call == 1 ? 1e6 : 0.0);
  });
  EXPECT_EQ(period_ns(timer, {.short_launches = 0, .long_launches = 10, .replays = 3}), 10);
  EXPECT_EQ(timer.calls, (Calls{10, 10, 10, 10}));

  FakeTimer slow(0, 1e6);
  EXPECT_EQ(period_ns(slow, plan_timing(1e6, 0, 340)), 1e6);
  EXPECT_EQ(slow.calls, Calls{340});
}

TEST(Round, KeepsEverySampleAsItCame) {
  FakeTimer timer([](std::int64_t launches, std::size_t call) {
    return 10.0 * static_cast<double>(launches) + 1000.0 * static_cast<double>(call);
  });
  const Round round =
      measure_round(timer, {.short_launches = 0, .long_launches = 10, .replays = 5}, "a");
  ASSERT_EQ(round.samples_ns.size(), 5u);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_NEAR(round.samples_ns[i], 10 + 100 * static_cast<double>(i + 1), 1e-6);
  }
}

TEST(Round, ASampleThatIsNoTimeIsTakenAgainAndCounted) {
  // The untimed pass, a short one that was disturbed, its long one, and five that were not.
  FakeTimer timer([](std::int64_t launches, std::size_t call) {
    return 10.0 * static_cast<double>(launches) + (call == 1 ? 1000.0 : 0.0);
  });
  const TimingPlan plan{.short_launches = 2, .long_launches = 8, .replays = 3};
  const Round round = measure_round(timer, plan, "a");
  ASSERT_EQ(round.samples_ns.size(), 3u);
  EXPECT_EQ(round.short_ns, std::vector<double>(3, 20));
  EXPECT_EQ(round.long_ns, std::vector<double>(3, 80));
  EXPECT_EQ(round.retaken_samples, 1);

  FakeTimer senseless([](std::int64_t, std::size_t) { return 100.0; });
  EXPECT_THROW(measure_round(senseless, plan, "a"), std::runtime_error);
}

// The clock of the third sample could not be read, that of the fourth was low.
TEST(Round, ClocksStandBesideTheirSamples) {
  FakeTimer timer(100, 10);
  timer.clock_mhz = {1980, 1980, 1980, 0, 1700, 1980};  // the untimed pass first
  const Round round =
      measure_round(timer, {.short_launches = 0, .long_launches = 8, .replays = 5}, "a");
  EXPECT_EQ(round.clock_mhz, (std::vector<double>{1980, 1980, 0, 1700, 1980}));
  EXPECT_EQ(round.slow_clock_samples, (std::vector<std::int64_t>{3}));

  FakeTimer without(100, 10);
  const Round none =
      measure_round(without, {.short_launches = 0, .long_launches = 8, .replays = 5}, "a");
  EXPECT_TRUE(none.clock_mhz.empty());
  EXPECT_TRUE(none.slow_clock_samples.empty());
}

TEST(Round, AnyNameWillDo) {
  FakeTimer timer(100, 10);
  for (const std::string name : {"a", "+*[(", "cublas/cuda:0/B:4/S:96/fp32/hot", "-a"}) {
    EXPECT_EQ(measure_round(timer, {.short_launches = 2, .long_launches = 8, .replays = 4}, name)
                  .samples_ns.size(),
              4u)
        << name;
  }
}

struct Broken : std::runtime_error {
  using std::runtime_error::runtime_error;
};

TEST(Round, AFailureComesOutAndTheNextRoundWorks) {
  const TimingPlan plan{.short_launches = 2, .long_launches = 8, .replays = 5};
  for (std::size_t failing = 0; failing < 11; ++failing) {
    FakeTimer timer([failing](std::int64_t launches, std::size_t call) {
      if (call == failing) {
        throw Broken("an illegal address");
      }
      return static_cast<double>(launches);
    });
    EXPECT_THROW(measure_round(timer, plan, "a"), Broken) << failing;
    EXPECT_EQ(timer.calls.size(), failing + 1) << "a broken device is not asked again";
    EXPECT_EQ(measure_round(timer, plan, "a").samples_ns.size(), 5u) << failing;
  }
}

}  // namespace
}  // namespace mla_bench
