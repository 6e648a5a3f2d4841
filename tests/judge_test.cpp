// Every reason to doubt a time, from recorded evidence alone.
#include "judge.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "environment.hpp"
#include "measure.hpp"

namespace mla_bench {
namespace {

constexpr int kClockMhz = 1980;

// Stands where NVML stands: tells the states of a script, one a call.
class ScriptedEnvironment final : public Environment {
 public:
  explicit ScriptedEnvironment(std::deque<GpuState> states) : states_(std::move(states)) {}

  std::optional<GpuSetup> setup(const std::string&) override { return std::nullopt; }

  std::optional<GpuState> state(const std::string&) override {
    if (states_.empty()) {
      return std::nullopt;
    }
    const GpuState next = states_.front();
    states_.pop_front();
    return next;
  }

 private:
  std::deque<GpuState> states_;
};

GpuState calm(int sm_clock_mhz = kClockMhz) {
  GpuState state;
  state.sm_clock_mhz = sm_clock_mhz;
  state.other_processes = 0;
  return state;
}

Round round_at(const std::vector<double>& clock_mhz, const std::optional<GpuState>& before,
               const std::optional<GpuState>& after) {
  Round round;
  round.samples_ns.assign(clock_mhz.size(), 3000);
  round.clock_mhz = clock_mhz;
  round.slow_clock_samples = slow_clock_samples(clock_mhz);
  round.before = before;
  round.after = after;
  return round;
}

Round calm_round() {
  return round_at(std::vector<double>(8, kClockMhz), calm(), calm());
}

// With every kind of evidence, and nothing wrong with any of it.
Result clean_result() {
  Result result;
  result.status = Status::kPassed;
  result.rounds.assign(4, calm_round());
  result.summary = summarize(result.rounds);
  result.roofline = Roofline{.ns = 1000, .by_memory = true};
  result.cold_proof =
      ColdProof{.sets = 300, .period_ns = 4000, .more_sets = 600, .more_sets_period_ns = 4040};
  result.referee = Referee{
      .missing = "", .duration_ns = 2000, .gap_ns = 1000, .empty_gap_ns = 900, .band_ns = 500};
  return result;
}

// Expects one doubt, and in it all of `parts`.
void expect_only(const Result& result, const std::vector<std::string>& parts) {
  const std::vector<std::string> found = doubts(result);
  ASSERT_EQ(found.size(), 1u) << (found.empty() ? "no doubt" : found.back());
  for (const std::string& part : parts) {
    EXPECT_NE(found[0].find(part), std::string::npos) << "'" << part << "' is not in: " << found[0];
  }
}

void expect_none(const Result& result) {
  const std::vector<std::string> found = doubts(result);
  EXPECT_TRUE(found.empty()) << found.front();
}

TEST(Doubts, NoneWhereAllEvidenceIsGoodOrThereIsNone) {
  expect_none(clean_result());
  expect_none(Result{});
}

TEST(Doubts, AColdRunWithTooFewCopiesWasNotCold) {
  Result result = clean_result();
  result.cold_proof =
      ColdProof{.sets = 3, .period_ns = 3000, .more_sets = 6, .more_sets_period_ns = 4000};
  expect_only(result, {"not cold", "3.00 us with 3 ", "4.00 us with 6"});
}

TEST(Doubts, AColdPeriodMayMoveByTwoPercentEitherWay) {
  for (const double moved : {0.981, 1.019}) {
    Result result = clean_result();
    result.cold_proof->more_sets_period_ns = moved * result.cold_proof->period_ns;
    expect_none(result);
  }
  for (const double moved : {0.979, 1.021}) {
    Result result = clean_result();
    result.cold_proof->more_sets_period_ns = moved * result.cold_proof->period_ns;
    expect_only(result, {"not cold"});
  }
}

TEST(Doubts, AProofThatWasNotTriedIsNoDoubt) {
  Result result = clean_result();
  result.cold_proof =
      ColdProof{.sets = 8192, .period_ns = 0, .more_sets = 0, .more_sets_period_ns = 0};
  expect_none(result);
}

TEST(Doubts, AGapInsideTheBandIsNone) {
  for (const double gap_ns : {401.0, 1399.0}) {
    Result result = clean_result();
    result.referee->gap_ns = gap_ns;
    expect_none(result);
  }
  for (const double gap_ns : {399.0, 1401.0}) {
    Result result = clean_result();
    result.referee->gap_ns = gap_ns;
    expect_only(result, {"own duration", "0.90 us +- 0.50 us"});
  }
}

// The profiler sees both kernels, the timed stream waits for one: durations outlast the period.
TEST(Doubts, AHiddenLaunchOnAnotherStreamIsFound) {
  Result result = clean_result();
  result.referee->duration_ns = 6000;
  result.referee->gap_ns = -2000;
  expect_only(result, {"duration (6.00 us)", "-2.00 us", "work outside the timed stream"});
}

// As recorded of launches that work on streams of their own.
TEST(Doubts, AKernelOutsideTheTimedGraphIsFound) {
  Result result = clean_result();
  result.referee->counts = KernelCounts{.captured = 1, .called = 1, .escaped = 0};
  expect_none(result);
  result.referee->counts = KernelCounts{.captured = 1, .called = 2, .escaped = 1};
  expect_only(result, {"one call ran 2 kernels", "holds 1 of them", "a stream other than"});
  result.referee->counts = KernelCounts{.captured = 2, .called = 1, .escaped = 0};
  expect_only(result, {"one call ran 1 kernel,", "holds 2 of them"});
  result.referee->counts = KernelCounts{.captured = 1, .called = 1, .escaped = 1};
  expect_only(result, {"1 kernel ran while the launch was only captured", "a stream other than"});
}

TEST(Doubts, KernelsThatNobodyCouldCountAreNoDoubt) {
  Result result = clean_result();
  result.referee->counts = KernelCounts{.missing = "no CUPTI", .captured = 1, .called = 2};
  expect_none(result);
}

TEST(WhyNotSearched, IsSaidOfTimedGpuCellsAlone) {
  Result result = clean_result();
  result.cell.backend = Backend::kCuda;
  result.referee->counts = KernelCounts{.captured = 1, .called = 1};
  EXPECT_EQ(why_not_searched(result), std::nullopt);
  result.referee->counts = KernelCounts{.missing = "no kernel was recorded"};
  EXPECT_EQ(why_not_searched(result), "no kernel was recorded");
  result.referee = Referee{.missing = "libcupti is not on this machine"};
  EXPECT_EQ(why_not_searched(result), "libcupti is not on this machine");
  result.cell.backend = Backend::kCpu;
  EXPECT_EQ(why_not_searched(result), std::nullopt);
  result.cell.backend = Backend::kCuda;
  result.summary.reset();
  EXPECT_EQ(why_not_searched(result), std::nullopt);
}

TEST(IsUnwatched, HoldsOfTimedGpuCellsThatNobodyTellsOf) {
  Result result = clean_result();
  result.cell.backend = Backend::kCuda;
  EXPECT_FALSE(is_unwatched(result));
  for (Round& round : result.rounds) {
    round.before.reset();
  }
  EXPECT_FALSE(is_unwatched(result)) << "told of after each round";
  for (Round& round : result.rounds) {
    round.after.reset();
  }
  EXPECT_TRUE(is_unwatched(result));
  result.cell.backend = Backend::kCpu;
  EXPECT_FALSE(is_unwatched(result));
  result.cell.backend = Backend::kCuda;
  result.summary.reset();
  EXPECT_FALSE(is_unwatched(result));
}

// Nothing ran in the time that was measured: all of the period is gap.
TEST(Doubts, AGraphThatHoldsNoWorkIsFound) {
  Result result = clean_result();
  result.referee->duration_ns = 0;
  result.referee->gap_ns = 3000;
  expect_only(result, {"duration (0.00 us)", "gap of 3.00 us", "or none in it"});
}

TEST(Doubts, AMissingRefereeIsNoDoubt) {
  Result result = clean_result();
  result.referee->missing = "no CUPTI";
  result.referee->gap_ns = 1e9;
  expect_none(result);
  result.referee.reset();
  expect_none(result);
}

TEST(Doubts, ATenPercentClockDropBetweenRoundsIsSeenAtTheNvmlSeam) {
  constexpr int kDroppedMhz = kClockMhz * 9 / 10;
  ScriptedEnvironment nvml({calm(), calm(), calm(kDroppedMhz), calm(kDroppedMhz)});
  Result result = clean_result();
  result.rounds.clear();
  for (const double clock_mhz : {kClockMhz, kDroppedMhz}) {
    const auto before = nvml.state("GPU-1");
    result.rounds.push_back(
        round_at(std::vector<double>(8, clock_mhz), before, nvml.state("GPU-1")));
  }
  EXPECT_FALSE(nvml.state("GPU-1")) << "the script was not read to its end";
  expect_only(result, {"SM clock", "1782", "1980"});
}

TEST(Doubts, AClockDropOverAWholeRoundIsSeenWhereNvmlTellsNone) {
  Result result = clean_result();
  result.rounds.push_back(result.rounds.front());
  for (double& mhz : result.rounds.back().clock_mhz) {
    mhz *= 0.9;
  }
  ASSERT_FALSE(result.rounds.back().clock_mhz.empty());
  const std::vector<std::string> found = doubts(result);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_NE(found.front().find("from round to round"), std::string::npos) << found.front();
}

// As it comes from a device whose passes cannot read its clock.
Result result_without_pass_clocks() {
  Result result = clean_result();
  for (Round& round : result.rounds) {
    round.clock_mhz.clear();
  }
  return result;
}

TEST(Doubts, AToldClockMayMoveByThreePercentBetweenRounds) {
  Result result = result_without_pass_clocks();
  result.rounds[1].before = result.rounds[1].after = calm(1921);  // 97.02 %
  expect_none(result);
  result.rounds[1].before = result.rounds[1].after = calm(1920);  // 96.97 %
  expect_only(result, {"SM clock", "1920", "1980"});
}

// A neighbour's load, or the idle moment between two rounds, moves a reading, not the round.
TEST(Doubts, WhatThePassesMeasuredOfTheClockCountsMoreThanWhatIsTold) {
  Result result = clean_result();
  result.rounds[1].before = result.rounds[1].after = calm(1200);
  expect_none(result);
  result.rounds[1].clock_mhz.assign(8, 0.96 * kClockMhz);
  expect_only(result, {"SM clock", "1980"});
}

TEST(Doubts, APowerLimitMayMoveTheClockByTenPercent) {
  Result result = clean_result();
  result.rounds[1].clock_mhz.assign(8, 0.91 * kClockMhz);
  result.rounds[0].after->throttle.software_power_cap = true;
  expect_none(result);
  result.rounds[1].clock_mhz.assign(8, 0.89 * kClockMhz);
  expect_only(result, {"SM clock", "1980"});
}

TEST(Doubts, OneLowReadingIsNone) {
  Result result = result_without_pass_clocks();
  result.rounds[1].after->sm_clock_mhz = 1200;
  result.rounds[2].before->sm_clock_mhz = 345;
  expect_none(result);
  result.rounds[2].after.reset();
  expect_none(result);
  result.rounds[1].before->sm_clock_mhz = 1200;
  expect_only(result, {"SM clock", "1200", "1980"});
}

TEST(Doubts, ATenPercentClockDropWithinRoundsIsSeenInTheSamples) {
  std::vector<double> clocks(8, kClockMhz);
  clocks[5] = clocks[6] = clocks[7] = 0.9 * kClockMhz;
  Result result = clean_result();
  result.rounds.assign(4, round_at(clocks, calm(), calm()));
  expect_only(result, {"12 of 32 samples", "lowered clock"});
}

TEST(Doubts, AQuarterOfTheSamplesMayBeMarked) {
  Result result = clean_result();
  for (Round& round : result.rounds) {
    round.slow_clock_samples = {0, 1};  // of 8
  }
  expect_none(result);
  result.rounds[0].slow_clock_samples.push_back(2);
  expect_only(result, {"9 of 32 samples"});
}

TEST(Doubts, ATenthOfTheSamplesMayBeTakenAgain) {
  Result result = clean_result();
  result.rounds[0].retaken_samples = 3;  // of 32
  expect_none(result);
  result.rounds[1].retaken_samples = 1;
  expect_only(result, {"4 of 32 samples", "taken again"});
}

TEST(Doubts, ThrottlingIsNamed) {
  const std::vector<std::pair<bool ThrottleReasons::*, std::string>> reasons{
      {&ThrottleReasons::hardware_slowdown, "slowdown by hardware"},
      {&ThrottleReasons::software_thermal, "thermal slowdown by software"},
      {&ThrottleReasons::hardware_thermal, "thermal slowdown by hardware"},
      {&ThrottleReasons::power_brake, "power brake"}};
  for (const auto& [reason, words] : reasons) {
    Result result = clean_result();
    result.rounds[0].before->throttle.*reason = true;
    expect_none(result);  // one round of four
    result.rounds[2].after->throttle.*reason = true;
    expect_only(result, {"16 of 32 samples", "(" + words + ")"});
  }
}

TEST(Doubts, ThePowerCapAloneIsNoDoubt) {
  Result result = clean_result();
  for (Round& round : result.rounds) {
    round.before->throttle.software_power_cap = true;
    round.after->throttle.software_power_cap = true;
  }
  expect_none(result);
  for (Round& round : result.rounds) {
    round.after->throttle.power_brake = true;
  }
  expect_only(result, {"power cap, power brake"});
}

TEST(ThrottleReasons, NoneHasNoWords) {
  EXPECT_EQ(ThrottleReasons{}.in_words(), "");
  EXPECT_FALSE(ThrottleReasons{}.protects());
}

TEST(Doubts, OtherProcessesAreCounted) {
  Result result = clean_result();
  result.rounds[3].after->other_processes = 1;
  expect_only(result, {"1 other process on the GPU"});
  result.rounds[1].before->other_processes = 2;
  expect_only(result, {"2 other processes on the GPU"});
  result.rounds[3].after->other_processes.reset();
  result.rounds[1].before->other_processes.reset();
  expect_none(result);
}

TEST(Doubts, NothingIsFasterThanLight) {
  Result result = clean_result();  // 3 us
  result.roofline = Roofline{.ns = 3080, .by_memory = true};
  expect_none(result);  // within what a ceiling is known to
  result.roofline->ns = 3100;
  expect_only(result, {"faster than light: 3.00 us", "its bytes alone take 3.10 us"});
  result.roofline->by_memory = false;
  expect_only(result, {"faster than light", "its FLOPs alone"});
  result.summary.reset();
  expect_none(result);
}

TEST(Doubts, EachIsTold) {
  Result result = result_without_pass_clocks();
  result.cold_proof->more_sets_period_ns = 5000;
  result.referee->gap_ns = 3000;
  for (Round& round : result.rounds) {
    round.before->throttle.hardware_thermal = true;
  }
  result.rounds[0].before->sm_clock_mhz = 1500;
  result.rounds[0].after->sm_clock_mhz = 1500;
  result.rounds[0].after->other_processes = 3;
  result.roofline->ns = 4000;
  EXPECT_EQ(doubts(result).size(), 6u);
}

TEST(SlowClockSamples, AreBelow97PercentOfTheMedian) {
  EXPECT_EQ(slow_clock_samples({1000, 971, 1000, 969, 1000, 1000}), (std::vector<std::int64_t>{3}));
  EXPECT_EQ(slow_clock_samples({900, 1000, 1000}), (std::vector<std::int64_t>{0}));
  EXPECT_TRUE(slow_clock_samples({1000, 1000, 1200}).empty()) << "a faster clock is not marked";
  EXPECT_TRUE(slow_clock_samples({}).empty());
}

TEST(SlowClockSamples, KeepTheirPlacesWhereAClockCouldNotBeRead) {
  EXPECT_EQ(slow_clock_samples({1000, 0, 1000, 0, 900, 1000, 1000}),
            (std::vector<std::int64_t>{4}));
  EXPECT_TRUE(slow_clock_samples({0, 0}).empty());
}

}  // namespace
}  // namespace mla_bench
