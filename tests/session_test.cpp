// Cells opened, timed and closed in this process, with variants that are wrong in every way that
// leaves the process alive. What ends a process is in worker_test.cpp.
#include "session.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <stdexcept>
#include <string>

#include "errors.hpp"
#include "late_faults.hpp"
#include "statistics.hpp"

namespace mla_bench {
namespace {

constexpr Problem kTiny{
    .batch = 1, .seq = 3, .model_dim = 4, .rank = 2, .kv_heads = 1, .head_dim = 4};
constexpr std::int64_t kTinyBytes = (12 + 8 + 16 + 24) * 4;

// A CPU whose caches are small, so that a cold ring is short.
DeviceList small_cpu() {
  Device device = find_cpu_device();
  device.threads = 1;
  device.last_level_cache = 2 * kTinyBytes;  // a cold ring of ten sets
  DeviceList list;
  list.devices = {device};
  return list;
}

Cell cell_of(const std::string& variant) {
  Cell cell;
  cell.variant = variant;
  cell.device = small_cpu().devices.front().uuid;
  cell.threads = 1;
  cell.problem = kTiny;
  return cell;
}

Cell cold_cell_of(const std::string& variant) {
  Cell cell = cell_of(variant);
  cell.l2 = L2State::kCold;
  return cell;
}

Result open(Session& session, const Cell& cell) {
  return session.open(cell, {.warmup_s = 0}, std::nullopt);
}

// The last word on a cell that is opened, measured once and closed.
Result outcome(Session& session, const Cell& cell) {
  const Result opened = open(session, cell);
  if (opened.status != Status::kPassed) {
    return opened;
  }
  session.measure(cell.id());
  return session.close(cell.id());
}

#define EXPECT_SAYS(message, part) \
  EXPECT_NE((message).find(part), std::string::npos) << "it says: " << (message)

TEST(Session, ARightCellIsCheckedTimedAndCheckedAgain) {
  Session session(small_cpu(), nullptr);
  for (const Cell& cell : {cell_of("right"), cold_cell_of("right")}) {
    const Result opened = open(session, cell);
    ASSERT_EQ(opened.status, Status::kPassed) << opened.reason;
    EXPECT_EQ(opened.cell.id(), cell.id());
    ASSERT_TRUE(opened.check);
    EXPECT_TRUE(opened.check->passed);
    EXPECT_EQ(opened.check->elements, kTiny.kv_count());
    EXPECT_FALSE(opened.summary || opened.recheck);
    for (int i = 0; i < 2; ++i) {
      const Round round = session.measure(cell.id());
      EXPECT_GE(round.samples_ns.size(), 3u);
      EXPECT_EQ(round.samples_ns.size(), round.long_ns.size());
    }
    const Result closed = session.close(cell.id());
    EXPECT_EQ(closed.status, Status::kPassed) << closed.reason;
    ASSERT_TRUE(closed.recheck);
    EXPECT_TRUE(closed.recheck->passed);
  }
}

TEST(Session, AWrongOutputIsFoundAndSaidSo) {
  Session session(small_cpu(), nullptr);
  for (const std::string variant :
       {"writes_nothing", "one_element_wrong", "writes_nan", "swaps_k_and_v"}) {
    const Result result = open(session, cell_of(variant));
    EXPECT_EQ(result.status, Status::kIncorrect) << variant;
    EXPECT_FALSE(result.reason.empty()) << variant;
    ASSERT_TRUE(result.check) << variant;
    EXPECT_FALSE(result.check->passed) << variant;
    EXPECT_TRUE(result.check->worst) << variant;
    EXPECT_THROW(session.measure(cell_of(variant).id()), std::exception) << "no time for it";
  }
}

TEST(Session, WhatALaunchLeftOutIsCounted) {
  Session session(small_cpu(), nullptr);
  EXPECT_SAYS(open(session, cell_of("writes_nothing")).reason,
              "it left 24 of 24 elements of kv unwritten");
  const std::string wrong = open(session, cell_of("one_element_wrong")).reason;
  EXPECT_EQ(wrong.find("unwritten"), std::string::npos) << wrong;
}

TEST(Session, TheWorstElementIsTheWrongOne) {
  Session session(small_cpu(), nullptr);
  const Result result = open(session, cell_of("one_element_wrong"));
  ASSERT_TRUE(result.check && result.check->worst);
  const WorstElement& worst = *result.check->worst;
  EXPECT_EQ(result.check->wrong_elements, 1);
  EXPECT_TRUE(worst.is_v);
  EXPECT_EQ(worst.seq, kTiny.seq - 1);
  EXPECT_EQ(worst.dim, kTiny.head_dim - 1);
  EXPECT_NEAR(worst.actual - worst.expected, 1, 1e-5);
}

TEST(Session, ARightOutputDoesNotExcuseATrespass) {
  Session session(small_cpu(), nullptr);
  const Result before = open(session, cell_of("writes_before_kv"));
  EXPECT_EQ(before.status, Status::kIncorrect);
  EXPECT_SAYS(before.reason, "guard band before");
  const Result after = open(session, cell_of("writes_after_kv"));
  EXPECT_EQ(after.status, Status::kIncorrect);
  EXPECT_SAYS(after.reason, "guard band after");
  const Result input = open(session, cell_of("modifies_input"));
  EXPECT_EQ(input.status, Status::kIncorrect);
  EXPECT_SAYS(input.reason, "it changed its input w_down");
}

TEST(Session, WhatTheTimedLaunchesWriteIsChecked) {
  Session session(small_cpu(), nullptr);
  const Result result = outcome(session, cell_of("right_once_only"));
  EXPECT_EQ(result.status, Status::kIncorrect);
  EXPECT_SAYS(result.reason, "the timed launches: ");
  ASSERT_TRUE(result.recheck);
  EXPECT_FALSE(result.recheck->passed);
  EXPECT_SAYS(result.reason, "it left 24 of 24 elements of kv unwritten");
  EXPECT_SAYS(result.reason, "a plain call wrote them");
  const LateFaults late_faults;
  const Cell later = cell_of("modifies_input_later");
  ASSERT_EQ(open(session, later).status, Status::kPassed);
  late_faults.come();
  session.measure(later.id());
  const Result input = session.close(later.id());
  EXPECT_EQ(input.status, Status::kIncorrect);
  EXPECT_SAYS(input.reason, "it changed its input w_down");
}

TEST(Session, EveryOperandSetIsChecked) {
  Session session(small_cpu(), nullptr);
  EXPECT_EQ(outcome(session, cell_of("wrong_in_one_set")).status, Status::kPassed)
      << "hot runs have one set";
  const Result wrong = outcome(session, cold_cell_of("wrong_in_one_set"));
  EXPECT_EQ(wrong.status, Status::kIncorrect);
  EXPECT_EQ(wrong.recheck->wrong_elements, 1);
  const Result differs = outcome(session, cold_cell_of("differs_by_set"));
  EXPECT_EQ(differs.status, Status::kIncorrect);
  EXPECT_SAYS(differs.reason, "different bits");
}

TEST(Session, ATrespassInAnySetIsFound) {
  Session session(small_cpu(), nullptr);
  const Result one = outcome(session, cold_cell_of("trespasses_in_one_set"));
  EXPECT_EQ(one.status, Status::kIncorrect);
  EXPECT_SAYS(one.reason, "guard band after");
  for (const std::string variant : {"writes_before_kv", "writes_after_kv"}) {
    EXPECT_EQ(outcome(session, cold_cell_of(variant)).status, Status::kIncorrect) << variant;
  }
}

// All share tensors, so whatever a wrong one leaves behind must not fall on the others.
TEST(Session, AFaultCostsOnlyItsOwnCell) {
  for (const std::string fault :
       {"writes_nothing", "one_element_wrong", "writes_nan", "swaps_k_and_v", "writes_before_kv",
        "writes_after_kv", "modifies_input", "modifies_input_later", "right_once_only", "no_memory",
        "no_memory_in_launch"}) {
    Session session(small_cpu(), nullptr);
    const LateFaults late_faults;
    const Cell hot = cell_of("right");
    const Cell cold = cold_cell_of("right");
    const Cell bad = cell_of(fault);
    ASSERT_EQ(open(session, hot).status, Status::kPassed);
    const bool is_open = open(session, bad).status == Status::kPassed;
    EXPECT_EQ(open(session, cold).status, Status::kPassed) << fault;
    late_faults.come();
    session.measure(hot.id());
    if (is_open) {
      session.measure(bad.id());
    }
    session.measure(cold.id());
    EXPECT_EQ(session.close(hot.id()).status, Status::kPassed) << fault;
    if (is_open) {
      EXPECT_EQ(session.close(bad.id()).status, Status::kIncorrect) << fault;
    }
    const Result last = session.close(cold.id());
    EXPECT_EQ(last.status, Status::kPassed) << fault << ": " << last.reason;
    EXPECT_EQ(outcome(session, cell_of("right")).status, Status::kPassed) << fault;
  }
}

TEST(Session, ACellThatCannotRunIsSkippedWithItsReason) {
  Session session(small_cpu(), nullptr);
  const Result never = open(session, cell_of("cannot_run"));
  EXPECT_EQ(never.status, Status::kSkipped);
  EXPECT_EQ(never.reason, "it never can");
  Cell half = cell_of("right");
  half.precision = Precision::kFp16;
  EXPECT_EQ(open(session, half).reason, "knows only fp32");
  for (const std::string variant : {"no_memory", "no_memory_in_launch"}) {
    const Result result = open(session, cell_of(variant));
    EXPECT_EQ(result.status, Status::kSkipped) << variant;
    EXPECT_SAYS(result.reason, "memory");
  }
}

TEST(Session, FailuresComeOutAsTheyAre) {
  Session session(small_cpu(), nullptr);
  EXPECT_THROW(open(session, cell_of("throws")), std::runtime_error);
  const LateFaults late_faults;
  const Cell later = cell_of("throws_later");
  ASSERT_EQ(open(session, later).status, Status::kPassed);
  late_faults.come();
  EXPECT_THROW(session.measure(later.id()), std::runtime_error);
  EXPECT_EQ(outcome(session, cell_of("right")).status, Status::kPassed);
}

TEST(Session, UnknownVariantsDevicesAndCellsAreRefused) {
  Session session(small_cpu(), nullptr);
  EXPECT_THROW(open(session, cell_of("unheard_of")), UsageError);
  EXPECT_THROW(open(session, cell_of("left_out")), UsageError);
  Cell elsewhere = cell_of("right");
  elsewhere.device = "GPU-7";
  EXPECT_THROW(open(session, elsewhere), NoDeviceError);
  EXPECT_THROW(session.measure("no such cell"), std::exception);
  EXPECT_THROW(session.close("no such cell"), std::exception);
}

TEST(Session, OtherTensorsCloseWhatWasOpen) {
  Session session(small_cpu(), nullptr);
  const Cell first = cell_of("right");
  ASSERT_EQ(open(session, first).status, Status::kPassed);
  Cell other = first;
  other.inputs.seed = 1;
  ASSERT_EQ(open(session, other).status, Status::kPassed);
  Cell third = first;
  third.problem.seq = 5;
  ASSERT_EQ(open(session, third).status, Status::kPassed);
  EXPECT_THROW(session.measure(first.id()), std::exception);
  EXPECT_EQ(outcome(session, first).status, Status::kPassed);
}

TEST(Session, ACellMayBeOpenedAgain) {
  Session session(small_cpu(), nullptr);
  const Cell cell = cell_of("right");
  ASSERT_EQ(open(session, cell).status, Status::kPassed);
  ASSERT_EQ(open(session, cell).status, Status::kPassed);
  session.measure(cell.id());
  EXPECT_EQ(session.close(cell.id()).status, Status::kPassed);
}

TEST(Session, ExactInputsDemandTheBits) {
  Session session(small_cpu(), nullptr);
  Cell cell = cell_of("right");
  cell.inputs.distribution = Distribution::kExact;
  const Result result = open(session, cell);
  ASSERT_EQ(result.status, Status::kPassed) << result.reason;
  EXPECT_TRUE(result.check->bit_exact);
}

TEST(Session, SavesOnlyARightOutput) {
  namespace fs = std::filesystem;
  const fs::path path =
      fs::temp_directory_path() / ("mla-bench-session-" + std::to_string(getpid()));
  Session session(small_cpu(), nullptr);
  session.open(cell_of("one_element_wrong"), {.warmup_s = 0}, path.string());
  EXPECT_FALSE(fs::exists(path));
  session.open(cell_of("right"), {.warmup_s = 0}, path.string());
  EXPECT_GT(fs::file_size(path), static_cast<std::uintmax_t>(kTinyBytes));
  fs::remove(path);
  EXPECT_THROW(session.open(cell_of("right"), {.warmup_s = 0}, "/proc/no/where"), UsageError);
}

// ---- what selftest plants
// ------------------------------------------------------------------------

TEST(SessionPlants, WorkMakesLaunchesLonger) {
  Session session(small_cpu(), nullptr);
  Cell cell = cell_of("is_slow");
  const Result honest = session.open(cell, {.warmup_s = 0}, std::nullopt);
  ASSERT_EQ(honest.status, Status::kPassed) << honest.reason;
  const double honest_ns = median(session.measure(cell.id()).samples_ns);
  cell.copy = 1;
  cell.planted = {.kind = PlantKind::kWork, .slow_down = 1};
  const Result result = session.open(cell, {.warmup_s = 0, .samples = 5}, std::nullopt);
  ASSERT_EQ(result.status, Status::kPassed) << result.reason;
  ASSERT_TRUE(result.planted_work);
  EXPECT_GE(result.planted_work->launches, 1);
  EXPECT_GT(result.planted_work->spin_ns, 0);
  const Round round = session.measure(cell.id());
  EXPECT_LE(round.samples_ns.size(), 5u);
  // Twice as long; a neighbour's load may double or halve either.
  const double factor = median(round.samples_ns) / honest_ns;
  EXPECT_GT(factor, 1.2);
  EXPECT_EQ(session.close(cell.id()).status, Status::kPassed);
}

TEST(SessionPlants, WrongAnswersAreCaught) {
  for (const PlantKind kind : {PlantKind::kWrongElement, PlantKind::kNothingWritten}) {
    Session session(small_cpu(), nullptr);
    Cell cell = cell_of("right");
    cell.planted.kind = kind;
    const Result result = session.open(cell, {.warmup_s = 0}, std::nullopt);
    EXPECT_EQ(result.status, Status::kIncorrect) << name_of(kind);
  }
  Session session(small_cpu(), nullptr);
  Cell cell = cell_of("right");
  cell.planted.kind = PlantKind::kFirstCallOnly;
  ASSERT_EQ(session.open(cell, {.warmup_s = 0}, std::nullopt).status, Status::kPassed);
  const Result closed = session.close(cell.id());
  EXPECT_EQ(closed.status, Status::kIncorrect);
  EXPECT_NE(closed.reason.find("unwritten"), std::string::npos) << closed.reason;
}

TEST(SessionPlants, TimesOnlyLeavesOutWhatStandsBeside) {
  Session session(small_cpu(), nullptr);
  const Cell cell = cell_of("right");
  const Result result = session.open(cell, {.warmup_s = 0, .times_only = true}, std::nullopt);
  ASSERT_EQ(result.status, Status::kPassed);
  EXPECT_FALSE(result.floors);
  EXPECT_FALSE(result.api_latency_ns);
  EXPECT_TRUE(result.check && result.check->passed);

  Cell cold = cell;
  cold.l2 = L2State::kCold;
  for (const bool times_only : {true, false}) {
    ASSERT_EQ(session.open(cold, {.warmup_s = 0, .times_only = times_only}, std::nullopt).status,
              Status::kPassed);
    const Result closed = session.close(cold.id());
    EXPECT_EQ(closed.status, Status::kPassed) << closed.reason;
    EXPECT_EQ(closed.cold_proof.has_value(), !times_only);
  }
}

TEST(SessionAnchors, HaveTimesAndAHash) {
  Session session(small_cpu(), nullptr);
  EXPECT_THROW(session.anchors(), std::invalid_argument);
  ASSERT_EQ(session.open(cell_of("right"), {.warmup_s = 0}, std::nullopt).status, Status::kPassed);
  const std::optional<Anchors> anchors = session.anchors();
  ASSERT_TRUE(anchors);
  EXPECT_GT(anchors->copy_ns, 0);
  EXPECT_GT(anchors->fma_ns, 0);
  EXPECT_EQ(anchors->source.size(), 16u);
}

}  // namespace
}  // namespace mla_bench
