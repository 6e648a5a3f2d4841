// Verdicts of the gate: every kind of cell, and how often it errs on simulated processes.
#include "gate.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "document_reader.hpp"
#include "example_result.hpp"
#include "gate_report.hpp"
#include "json_access.hpp"

namespace mla_bench {
namespace {

ProcessFinding timed(double ns) {
  return {.status = Status::kPassed,
          .reason = "",
          .ns = ns,
          .rounds = 3,
          .unfit = false,
          .error_over_bound = 0.25,
          .frobenius_error = 1e-7};
}

ProcessFinding without_time(Status status, const std::string& reason) {
  return {.status = status, .reason = reason};
}

CellEvidence cell_of(const std::string& variant, const std::vector<ProcessFinding>& processes) {
  CellEvidence cell;
  cell.key.variant = variant;
  cell.key.place = {.backend = Backend::kCuda, .device = "GPU-1", .threads = 0};
  cell.device_name = "NVIDIA H200";
  cell.device = {{"device", "NVIDIA H200"}, {"UUID", "GPU-1"}, {"driver", "580"}};
  cell.build = {{"flags", "-O3"}};
  cell.processes = processes;
  return cell;
}

// Processes that lie 0.1 % around `ns`.
CellEvidence steady(const std::string& variant, double ns, int processes = 5) {
  std::vector<ProcessFinding> findings;
  for (int i = 0; i < processes; ++i) {
    findings.push_back(timed(ns * (1 + 0.001 * (i % 3 - 1))));
  }
  return cell_of(variant, findings);
}

JudgedCell verdict_on(const CellEvidence& baseline, const CellEvidence& candidate,
                      const GateRules& rules = {}) {
  const GateResult result = judge(std::vector{baseline}, std::vector{candidate}, rules);
  EXPECT_EQ(result.cells.size(), 1u);
  return result.cells.front();
}

ExitCode code_of(const std::vector<CellEvidence>& baseline,
                 const std::vector<CellEvidence>& candidate, bool strict = false) {
  return exit_code(judge(baseline, candidate, {}), strict);
}

TEST(Gate, TimesAreJudgedByTheThreshold) {
  const CellEvidence base = steady("tiled", 1000);
  const JudgedCell same = verdict_on(base, steady("tiled", 1000));
  EXPECT_EQ(same.verdict, Verdict::kPass);
  ASSERT_TRUE(same.change);
  EXPECT_NEAR(same.change->estimate, 1, 1e-9);
  EXPECT_GT(same.change->detectable, 0.03);
  EXPECT_LT(same.change->detectable, 0.035);
  EXPECT_EQ(verdict_on(base, steady("tiled", 1020)).verdict, Verdict::kPass);
  EXPECT_EQ(verdict_on(base, steady("tiled", 1050)).verdict, Verdict::kRegression);
  EXPECT_EQ(verdict_on(base, steady("tiled", 950)).verdict, Verdict::kImprovement);
  // 1.5 % is a regression for those who ask for 1 %.
  EXPECT_EQ(verdict_on(base, steady("tiled", 1015), {.threshold = 0.01}).verdict,
            Verdict::kRegression);
  EXPECT_EQ(verdict_on(base, steady("tiled", 1015), {.threshold = 0.03}).verdict, Verdict::kPass);
}

TEST(Gate, NoiseIsInconclusiveAndNeverAPass) {
  const CellEvidence noisy =
      cell_of("tiled", {timed(1000), timed(1100), timed(900), timed(1050), timed(960)});
  const JudgedCell judged = verdict_on(noisy, noisy);
  EXPECT_EQ(judged.verdict, Verdict::kInconclusive);
  EXPECT_GT(judged.change->detectable, 0.1);
  EXPECT_EQ(code_of({noisy}, {noisy}), ExitCode::kFine);
  EXPECT_EQ(code_of({noisy}, {noisy}, true), ExitCode::kInconclusive);
  EXPECT_FALSE(is_settled(judge(std::vector{noisy}, std::vector{noisy}, {})));
}

TEST(Gate, PairsCancelWhatDriftsOnBoth) {
  // 30 % of drift over the series, 0.1 % between the two of a pair.
  std::vector<ProcessFinding> base;
  std::vector<ProcessFinding> candidate;
  for (int i = 0; i < 5; ++i) {
    base.push_back(timed(1000 + 60 * i));
    candidate.push_back(timed((1000 + 60 * i) * (1 + 0.0005 * (i % 3))));
  }
  EXPECT_EQ(
      verdict_on(cell_of("tiled", base), cell_of("tiled", candidate), {.is_paired = true}).verdict,
      Verdict::kPass);
  EXPECT_EQ(verdict_on(cell_of("tiled", base), cell_of("tiled", candidate)).verdict,
            Verdict::kInconclusive);
  // A process that lost its time takes its partner with it.
  candidate[1] = without_time(Status::kUntrusted, "throttled");
  const JudgedCell judged =
      verdict_on(cell_of("tiled", base), cell_of("tiled", candidate), {.is_paired = true});
  EXPECT_EQ(judged.verdict, Verdict::kPass);
  EXPECT_EQ(judged.baseline_processes, 4);
  EXPECT_EQ(judged.candidate_processes, 4);
}

TEST(Gate, TheSpreadOfOneProcessIsNotKnown) {
  const JudgedCell one = verdict_on(steady("tiled", 1000, 1), steady("tiled", 1000, 1));
  EXPECT_EQ(one.verdict, Verdict::kIncomparable);
  EXPECT_NE(one.reason.find("several"), std::string::npos) << one.reason;
  // The other side tells it.
  EXPECT_EQ(verdict_on(steady("tiled", 1000, 1), steady("tiled", 1000)).verdict, Verdict::kPass);
  CellEvidence single = steady("tiled", 1000, 1);
  single.processes.front().rounds = 1;
  EXPECT_EQ(verdict_on(single, steady("tiled", 1000)).verdict, Verdict::kIncomparable);
  EXPECT_EQ(code_of({single}, {steady("tiled", 1000)}), ExitCode::kIncomparable);
}

TEST(Gate, EveryCellOfEitherSideHasAVerdict) {
  const CellEvidence a = steady("a", 1000);
  const CellEvidence b = steady("b", 1000);
  const CellEvidence skipped = cell_of("b", {without_time(Status::kSkipped, "no memory")});
  const CellEvidence wrong = cell_of(
      "b", {timed(1000), without_time(Status::kIncorrect, "k[0] is 1, not 2"), timed(1000)});
  const CellEvidence crashed = cell_of("b", {without_time(Status::kFailed, "signal 11")});
  const CellEvidence untrusted =
      cell_of("b", {without_time(Status::kUntrusted, "clock"), timed(1000)});
  struct Case {
    std::string name;
    std::vector<CellEvidence> baseline;
    std::vector<CellEvidence> candidate;
    Verdict last;
    ExitCode code;
  };
  for (const Case& tried : {
           Case{"missing", {a, b}, {a}, Verdict::kMissing, ExitCode::kIncomparable},
           Case{"new", {a}, {a, b}, Verdict::kNew, ExitCode::kFine},
           Case{"now skipped", {a, b}, {a, skipped}, Verdict::kMissing, ExitCode::kIncomparable},
           Case{"both skip", {a, skipped}, {a, skipped}, Verdict::kSkipped, ExitCode::kFine},
           Case{"once skipped", {a, skipped}, {a, b}, Verdict::kNew, ExitCode::kFine},
           Case{"wrong", {a, b}, {a, wrong}, Verdict::kIncorrect, ExitCode::kIncorrect},
           Case{"new and wrong", {a}, {a, wrong}, Verdict::kIncorrect, ExitCode::kIncorrect},
           Case{"crashed", {a, b}, {a, crashed}, Verdict::kIncorrect, ExitCode::kIncorrect},
           Case{"once crashed", {a, crashed}, {a, b}, Verdict::kNew, ExitCode::kFine},
           Case{"once wrong", {a, wrong}, {a, b}, Verdict::kNew, ExitCode::kFine},
           Case{"once crashed, alone", {crashed}, {b}, Verdict::kNew, ExitCode::kIncomparable},
           Case{"crashed as ever",
                {a, crashed},
                {a, crashed},
                Verdict::kIncorrect,
                ExitCode::kIncorrect},
           Case{"once untrusted",
                {a, untrusted},
                {a, b},
                Verdict::kIncomparable,
                ExitCode::kIncomparable},
           Case{"untrusted", {a, b}, {a, untrusted}, Verdict::kInconclusive, ExitCode::kFine},
           Case{"zero matches", {}, {b}, Verdict::kNew, ExitCode::kIncomparable},
           Case{"only skipped", {skipped}, {skipped}, Verdict::kSkipped, ExitCode::kIncomparable},
       }) {
    const GateResult result = judge(tried.baseline, tried.candidate, {});
    ASSERT_FALSE(result.cells.empty()) << tried.name;
    EXPECT_EQ(name_of(result.cells.back().verdict), name_of(tried.last)) << tried.name;
    EXPECT_FALSE(result.cells.back().reason.empty()) << tried.name;
    EXPECT_EQ(exit_code(result, false), tried.code) << tried.name;
  }
}

TEST(Gate, ThrottledProcessesMakeTheEnvironmentUnfit) {
  ProcessFinding hot = without_time(Status::kUntrusted, "thermal slowdown");
  hot.unfit = true;
  const CellEvidence throttled = cell_of("a", {hot, hot, timed(1000)});
  EXPECT_EQ(code_of({steady("a", 1000)}, {throttled}), ExitCode::kUnfit);
  // Whichever side it was; and what is incomparable besides comes first.
  EXPECT_EQ(code_of({throttled}, {steady("a", 1000)}), ExitCode::kUnfit);
  EXPECT_EQ(code_of({throttled, steady("b", 1000)}, {steady("a", 1000)}), ExitCode::kIncomparable);
  // A minority is left out.
  const CellEvidence mostly = cell_of("a", {hot, timed(1000), timed(1001), timed(1000)});
  EXPECT_EQ(code_of({steady("a", 1000)}, {mostly}), ExitCode::kFine);
}

TEST(Gate, OtherCircumstancesAreIncomparableUnlessAllowed) {
  const CellEvidence base = steady("a", 1000);
  CellEvidence other = base;
  other.device.back().second = "590";
  const JudgedCell refused = verdict_on(base, other);
  EXPECT_EQ(refused.verdict, Verdict::kIncomparable);
  EXPECT_EQ(refused.reason, "driver 590 instead of 580");
  const JudgedCell allowed = verdict_on(base, other, {.allow_environment = true});
  EXPECT_EQ(allowed.verdict, Verdict::kPass);
  EXPECT_EQ(allowed.reason, "allowed: driver 590 instead of 580");

  CellEvidence debug = base;
  debug.build.front().second = "-O0";
  EXPECT_EQ(verdict_on(base, debug).verdict, Verdict::kIncomparable);
  EXPECT_EQ(verdict_on(base, debug, {.compares_build = false}).verdict, Verdict::kPass);

  // Another GPU of the same kind: the same cell all the same.
  CellEvidence elsewhere = base;
  elsewhere.key.place.device = "GPU-2";
  elsewhere.device[1].second = "GPU-2";
  EXPECT_EQ(verdict_on(base, elsewhere).reason, "UUID GPU-2 instead of GPU-1");

  // The same file with other tensors in it; what a document does not tell is not held against it.
  CellEvidence file = base;
  file.key.work.inputs = {.file = "x.safetensors", .content = "0000000000000001"};
  CellEvidence edited = file;
  edited.key.work.inputs.content = "0000000000000002";
  EXPECT_EQ(verdict_on(file, file).verdict, Verdict::kPass);
  EXPECT_EQ(verdict_on(file, edited).verdict, Verdict::kIncomparable);
  EXPECT_EQ(verdict_on(file, edited).reason,
            "x.safetensors holds other values: content 0000000000000002 instead of "
            "0000000000000001");
  CellEvidence unknown = file;
  unknown.key.work.inputs.content = "";
  EXPECT_EQ(verdict_on(unknown, file).verdict, Verdict::kPass);
  EXPECT_EQ(verdict_on(file, unknown).verdict, Verdict::kPass);

  CellEvidence mixed = base;
  mixed.conflict = "driver 590 instead of 580";
  EXPECT_EQ(verdict_on(mixed, base).verdict, Verdict::kIncomparable);
}

TEST(Gate, AccuracyIsGatedLikeTime) {
  const CellEvidence base = steady("a", 1000);
  CellEvidence less = base;
  for (ProcessFinding& process : less.processes) {
    process.frobenius_error = 3e-7;
  }
  const JudgedCell judged = verdict_on(base, less);
  EXPECT_EQ(judged.verdict, Verdict::kRegression);
  EXPECT_NE(judged.reason.find("Frobenius error grew from 1e-07 to 3e-07"), std::string::npos)
      << judged.reason;
  EXPECT_EQ(verdict_on(base, less, {.error_factor = 4}).verdict, Verdict::kPass);
  EXPECT_EQ(verdict_on(less, base).verdict, Verdict::kPass);
}

TEST(Gate, WhatTheClockDidIsTold) {
  const auto at_clock = [](double ns, double mhz) {
    CellEvidence cell = steady("a", ns);
    for (ProcessFinding& process : cell.processes) {
      process.clock_mhz = mhz;
    }
    return cell;
  };
  const JudgedCell slower = verdict_on(at_clock(1000, 1980), at_clock(1100, 1800));
  EXPECT_EQ(slower.verdict, Verdict::kRegression);
  ASSERT_TRUE(slower.cycles);
  EXPECT_NEAR(*slower.cycles, 1, 1e-9);
  EXPECT_EQ(slower.reason, "in cycles +0.00 %, the clock moved by -9.09 %");
  EXPECT_EQ(verdict_on(at_clock(1000, 1980), at_clock(1000, 1980)).reason, "");
  EXPECT_FALSE(verdict_on(steady("a", 1000), at_clock(1000, 1980)).cycles);
}

TEST(Gate, AWitnessThatIsAskedOnceSpeaksForAllProcesses) {
  ProcessFinding doubted = without_time(Status::kUntrusted, "work on another stream");
  doubted.is_witnessed = true;
  doubted.is_doubted = true;
  const CellEvidence hiding =
      cell_of("a", {doubted, timed(1000), timed(1001), timed(1000), timed(999)});
  const JudgedCell judged = verdict_on(steady("a", 1000), hiding);
  EXPECT_EQ(judged.verdict, Verdict::kInconclusive);
  EXPECT_NE(judged.reason.find("another stream"), std::string::npos) << judged.reason;
  // It was something else that was not to be believed, in one process of five.
  doubted.is_doubted = false;
  EXPECT_EQ(verdict_on(steady("a", 1000),
                       cell_of("a", {doubted, timed(1000), timed(1001), timed(1000), timed(999)}))
                .verdict,
            Verdict::kPass);
}

// The proof that cold is cold is made in the first process alone, as the witness is asked there.
TEST(Gate, AColdProofThatFailedOnceSpeaksForAllProcesses) {
  const auto finding = [](Status status, const std::optional<ColdProof>& proof) {
    RecordedDocument recorded;
    Result result = example_result();
    result.status = status;
    result.referee = Referee{.missing = "CUPTI is not there"};
    result.cold_proof = proof;
    Device device;
    device.backend = result.cell.backend;
    device.uuid = result.cell.device;
    recorded.document.devices = {DocumentDevice{.device = device}};
    recorded.document.cells = {result};
    return evidence_of(std::vector{recorded}).front().processes.front();
  };
  const ColdProof failed{
      .sets = 300, .period_ns = 4000, .more_sets = 600, .more_sets_period_ns = 5000};
  ColdProof held = failed;
  held.more_sets_period_ns = 4010;
  const ProcessFinding doubted = finding(Status::kUntrusted, failed);
  EXPECT_TRUE(doubted.is_doubted);
  EXPECT_FALSE(finding(Status::kUntrusted, held).is_doubted) << "it was something else";
  EXPECT_TRUE(finding(Status::kPassed, held).is_witnessed);
  EXPECT_FALSE(finding(Status::kPassed, std::nullopt).is_witnessed);
  EXPECT_EQ(
      verdict_on(steady("a", 1000), cell_of("a", {doubted, timed(1000), timed(1001), timed(999)}))
          .verdict,
      Verdict::kInconclusive);
}

TEST(Gate, AKnownNoiseRaisesTheThreshold) {
  const CellEvidence base = steady("a", 1000);
  GateRules rules;
  EXPECT_EQ(verdict_on(base, steady("a", 1050), rules).threshold, rules.threshold);
  rules.noise = {{export_name(base.key), 0.02}};
  const JudgedCell judged = verdict_on(base, steady("a", 1050), rules);
  EXPECT_EQ(judged.verdict, Verdict::kInconclusive) << "slower by more than the gate lets through";
  EXPECT_NEAR(judged.threshold, std::expm1(0.06), 1e-12);
  EXPECT_NE(judged.reason.find("threshold is 6.18 %"), std::string::npos) << judged.reason;
  EXPECT_EQ(verdict_on(base, steady("a", 1080), rules).verdict, Verdict::kRegression);
  EXPECT_EQ(verdict_on(base, steady("a", 1010), rules).verdict, Verdict::kPass);
  const GateResult raised = judge(std::vector{base}, std::vector{steady("a", 1050)}, rules);
  EXPECT_EQ(exit_code(raised, true), ExitCode::kInconclusive);
  for (const GateFormat format : {GateFormat::kText, GateFormat::kMarkdown}) {
    EXPECT_NE(render(raised, {}, format).find("threshold 3 %, for noise up to 6.18 % in 1 cell"),
              std::string::npos);
  }
  // Less noise than the threshold needs changes nothing, nor does another cell's.
  rules.noise = {{export_name(base.key), 0.001}, {"another", 1}};
  EXPECT_EQ(verdict_on(base, steady("a", 1050), rules).verdict, Verdict::kRegression);
}

// Of a selftest on a machine where nothing can be told: the gate must say that it cannot.
TEST(Gate, NoNoiseLetsAnythingPass) {
  const CellEvidence base =
      cell_of("a", {timed(1000), timed(1300), timed(800), timed(1100), timed(900)});
  for (const double noise : {0.0, 0.02, 0.5, 2.0, 1e6}) {
    const JudgedCell judged =
        verdict_on(base, base, {.is_paired = false, .noise = {{export_name(base.key), noise}}});
    EXPECT_EQ(judged.verdict, Verdict::kInconclusive) << noise;
  }
}

TEST(Gate, WhatShiftsTheAnchorsTooIsNoChange) {
  const auto beside = [](CellEvidence cell, double anchors_ns, const std::string& source) {
    cell.anchors = source;
    for (ProcessFinding& process : cell.processes) {
      process.anchors_ns = anchors_ns;
    }
    return cell;
  };
  const CellEvidence base = beside(steady("a", 1000), 500, "abc");
  // A slower session: everything takes 6 % longer.
  const JudgedCell shifted = verdict_on(base, beside(steady("a", 1060), 530, "abc"));
  EXPECT_EQ(shifted.verdict, Verdict::kPass);
  EXPECT_NEAR(shifted.change->estimate, 1, 1e-9);
  ASSERT_TRUE(shifted.anchors);
  EXPECT_NEAR(*shifted.anchors, 1.06, 1e-9);
  EXPECT_EQ(shifted.reason, "the anchors moved by +6.00 %, which is taken out");
  // The clock alone fell: as many cycles.
  const auto at_clock = [](CellEvidence cell, double mhz) {
    for (ProcessFinding& process : cell.processes) {
      process.clock_mhz = mhz;
    }
    return cell;
  };
  const JudgedCell slowed = verdict_on(
      at_clock(base, 1980), at_clock(beside(steady("a", 1060), 530, "abc"), 1980 / 1.06));
  ASSERT_TRUE(slowed.cycles);
  EXPECT_NEAR(*slowed.cycles, 1, 1e-9);
  // A slower kernel in the same session, and one that a faster session hides.
  EXPECT_EQ(verdict_on(base, beside(steady("a", 1060), 500, "abc")).verdict, Verdict::kRegression);
  EXPECT_EQ(verdict_on(base, beside(steady("a", 1000), 470, "abc")).verdict, Verdict::kRegression);
  // Pairs share their session.
  EXPECT_EQ(verdict_on(base, beside(steady("a", 1060), 530, "abc"), {.is_paired = true}).verdict,
            Verdict::kRegression);
  // Where one process has none they say nothing.
  CellEvidence without = beside(steady("a", 1060), 530, "abc");
  without.processes.back().anchors_ns.reset();
  EXPECT_FALSE(verdict_on(base, without).anchors);
  EXPECT_EQ(verdict_on(base, without).verdict, Verdict::kRegression);
  // Other anchors.
  const CellEvidence other = beside(steady("a", 1000), 500, "def");
  const JudgedCell refused = verdict_on(base, other);
  EXPECT_EQ(refused.verdict, Verdict::kIncomparable);
  EXPECT_EQ(refused.reason, "anchors def instead of abc");
  EXPECT_FALSE(verdict_on(base, other, {.allow_environment = true}).anchors);
}

// Later processes measure only what an earlier look left open.
TEST(Gate, ACellIsJudgedOnThePairsThatHoldIt) {
  const auto with_gap = [](std::vector<double> times) {
    std::vector<ProcessFinding> findings;
    for (const double ns : times) {
      findings.push_back(ns > 0 ? timed(ns) : without_time(Status::kSkipped, "not in it"));
    }
    return cell_of("a", findings);
  };
  const JudgedCell judged =
      verdict_on(with_gap({1000, 1001, 999, 1000, 1000, 0, 0}),
                 with_gap({1000, 1000, 1000, 1001, 999, 0, 0}), {.is_paired = true});
  EXPECT_EQ(judged.verdict, Verdict::kPass);
  EXPECT_EQ(judged.baseline_processes, 5);
}

TEST(Gate, PrecedenceOfExitCodes) {
  const CellEvidence slow = steady("a", 1100);
  const CellEvidence wrong = cell_of("b", {without_time(Status::kIncorrect, "wrong")});
  const std::vector base{steady("a", 1000), steady("b", 1000)};
  EXPECT_EQ(code_of(base, {slow, steady("b", 1000)}, true), ExitCode::kRegression);
  EXPECT_EQ(code_of(base, {slow}), ExitCode::kIncomparable);
  EXPECT_EQ(code_of(base, {slow, wrong}), ExitCode::kIncorrect);
}

TEST(Gate, ARegressionMustRepeat) {
  const GateResult first =
      judge(std::vector{steady("a", 1000)}, std::vector{steady("a", 1100)}, {});
  const GateResult calm = judge(std::vector{steady("a", 1000)}, std::vector{steady("a", 1000)}, {});
  EXPECT_EQ(confirmed(first, first).cells.front().verdict, Verdict::kRegression);
  EXPECT_EQ(confirmed(first, calm).cells.front().verdict, Verdict::kInconclusive);
  EXPECT_NE(confirmed(first, calm).cells.front().reason.find("pass, +0.00 %"), std::string::npos);
  EXPECT_EQ(confirmed(calm, first).cells.front().verdict, Verdict::kPass);
}

// ---- documents ----------------------------------------------------------------------------------

RecordedDocument run_of(double ns, const std::string& flags = "-O3") {
  RecordedDocument run{.path = "a.json", .version = "0.1.0", .commit = "c", .flags = flags};
  run.document.started_at = "2026-11-29T16:03:00Z";
  Device device;
  device.backend = Backend::kCuda;
  device.uuid = "GPU-1";
  device.name = "NVIDIA H200";
  run.document.devices.push_back({.device = device});
  Result result = example_result();
  result.rounds.clear();
  for (const double factor : {1.0, 1.01}) {
    Round round;
    round.long_launches = 1;
    round.samples_ns = {factor * ns};
    result.rounds.push_back(round);
  }
  result.summary = summarize(result.rounds);
  run.document.cells = {result};
  return run;
}

TEST(GateEvidence, AProcessIsOneValueHoweverManyRounds) {
  const std::vector<CellEvidence> cells = evidence_of(std::vector{run_of(1000), run_of(2000)});
  ASSERT_EQ(cells.size(), 1u);
  ASSERT_EQ(cells[0].processes.size(), 2u);
  EXPECT_DOUBLE_EQ(cells[0].processes[0].ns, 1005);
  EXPECT_DOUBLE_EQ(cells[0].processes[1].ns, 2010);
  EXPECT_EQ(cells[0].processes[0].rounds, 2);
  EXPECT_EQ(cells[0].conflict, "");
}

TEST(GateEvidence, MergedRunsAreTheSameEvidence) {
  const std::vector runs{run_of(1000), run_of(2000), run_of(1500)};
  Document whole = merge_runs(runs);
  whole.started_at = "2026-11-29T16:03:00Z";
  const RecordedDocument merged = document_from_text(to_text(whole), "base.json", Detail::kAll);
  ASSERT_EQ(merged.document.cells.size(), 1u);
  EXPECT_EQ(merged.document.cells[0].rounds.size(), 6u);
  const std::vector<CellEvidence> one = evidence_of(std::vector{merged});
  const std::vector<CellEvidence> three = evidence_of(runs);
  ASSERT_EQ(one[0].processes.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_DOUBLE_EQ(one[0].processes[i].ns, three[0].processes[i].ns);
  }
  EXPECT_THROW(merge_runs({}), std::invalid_argument);
}

// What let the gate pass is what it keeps: a process that was not believed is in no baseline.
TEST(GateEvidence, MergedRunsAreJudgedAsTheRunsWere) {
  for (std::size_t bad = 0; bad < 4; ++bad) {
    std::vector runs{run_of(1000), run_of(1001), run_of(999), run_of(1000)};
    runs[bad] = run_of(3000);
    runs[bad].document.cells[0].status = Status::kUntrusted;
    runs[bad].document.cells[0].reason = "1 other process on the GPU";
    Document whole = merge_runs(runs);
    whole.started_at = "2026-11-29T16:03:00Z";
    const std::vector<CellEvidence> baseline =
        evidence_of(std::vector{document_from_text(to_text(whole), "base.json", Detail::kAll)});
    const JudgedCell judged =
        verdict_on(baseline[0], evidence_of(runs)[0], {.compares_build = false});
    EXPECT_EQ(name_of(judged.verdict), name_of(Verdict::kPass)) << bad << ": " << judged.reason;
    EXPECT_EQ(judged.baseline_processes, 3) << bad;
    EXPECT_EQ(whole.cells[0].rounds.size(), 6u) << bad;
  }
  // A cell that never passed stays what it was.
  std::vector skipped{run_of(1000), run_of(1000)};
  for (RecordedDocument& run : skipped) {
    run.document.cells[0].status = Status::kSkipped;
    run.document.cells[0].rounds.clear();
    run.document.cells[0].summary.reset();
  }
  EXPECT_EQ(merge_runs(skipped).cells[0].status, Status::kSkipped);
}

TEST(GateEvidence, AnchorsAreThoseOfTheProcess) {
  RecordedDocument run = run_of(1000);
  run.document.cells[0].rounds.back().anchors =
      Anchors{.copy_ns = 400, .fma_ns = 900, .source = "abc"};
  RecordedDocument other = run;
  other.document.cells[0].rounds.back().anchors->source = "def";
  const std::vector<CellEvidence> cells = evidence_of(std::vector{run, run_of(1000)});
  EXPECT_EQ(cells[0].anchors, "abc");
  ASSERT_TRUE(cells[0].processes[0].anchors_ns);
  EXPECT_NEAR(*cells[0].processes[0].anchors_ns, 600, 1e-9);
  EXPECT_FALSE(cells[0].processes[1].anchors_ns);
  EXPECT_EQ(cells[0].conflict, "");
  EXPECT_EQ(evidence_of(std::vector{run, other})[0].conflict, "anchors def instead of abc");
  // A merged baseline keeps them apart.
  Document whole = merge_runs(std::vector{run, run_of(1000), run});
  whole.started_at = "2026-11-29T16:03:00Z";
  const std::vector<CellEvidence> merged =
      evidence_of(std::vector{document_from_text(to_text(whole), "base.json", Detail::kAll)});
  ASSERT_EQ(merged[0].processes.size(), 3u);
  EXPECT_TRUE(merged[0].processes[0].anchors_ns);
  EXPECT_FALSE(merged[0].processes[1].anchors_ns);
  EXPECT_TRUE(merged[0].processes[2].anchors_ns);
}

TEST(GateEvidence, ADocumentThatDoesNotTellTheContentIsOfTheOneThatOthersTell) {
  const auto with_content = [](const std::string& content) {
    RecordedDocument run = run_of(1000);
    run.document.cells[0].cell.inputs = {.file = "x.safetensors", .content = content};
    return run;
  };
  const RecordedDocument old = with_content("");
  const RecordedDocument one = with_content("0000000000000001");
  const RecordedDocument two = with_content("0000000000000002");
  const std::vector<CellEvidence> cells = evidence_of(std::vector{old, one, old});
  ASSERT_EQ(cells.size(), 1u);
  EXPECT_EQ(cells[0].processes.size(), 3u);
  EXPECT_EQ(cells[0].key.work.inputs.content, "0000000000000001");
  EXPECT_EQ(evidence_of(std::vector{old, one, two}).size(), 3u) << "it may be of either";
}

TEST(GateEvidence, WhatDocumentsLackOrDisagreeOn) {
  RecordedDocument empty = run_of(1000);
  empty.document.cells.clear();
  const std::vector<CellEvidence> cells =
      evidence_of(std::vector{empty, run_of(1000), run_of(1000, "-O0")});
  ASSERT_EQ(cells[0].processes.size(), 3u);
  EXPECT_EQ(cells[0].processes[0].status, Status::kSkipped);
  EXPECT_EQ(cells[0].conflict, "flags -O0 instead of -O3");

  RecordedDocument negative = run_of(1000);
  for (Round& round : negative.document.cells[0].rounds) {
    round.samples_ns = {-1};
  }
  EXPECT_EQ(evidence_of(std::vector{negative})[0].processes[0].status, Status::kUntrusted);
}

TEST(GateReport, EveryFormatHoldsEveryVerdict) {
  const GateResult result =
      judge(std::vector{steady("a", 1000), steady("b<c", 1000), steady("gone", 1)},
            std::vector{steady("a", 1100), steady("b<c", 1000)}, {});
  const GateHeading heading{.baseline = "base.json", .candidate = "new.json", .strict = false};
  for (const GateFormat format : kGateFormats) {
    const std::string text = render(result, heading, format);
    for (const char* part : {"regression", "pass", "missing", "base.json", "new.json"}) {
      EXPECT_NE(text.find(part), std::string::npos) << name_of(format) << ": " << part;
    }
  }
  const Json json = parse_json(render(result, heading, GateFormat::kJson), "the report");
  EXPECT_EQ(json["exit_code"], 5);
  EXPECT_NEAR(json["cells"][0]["change"]["ratio"].get<double>(), 1.1, 1e-9);
  const std::string junit = render(result, heading, GateFormat::kJunit);
  EXPECT_NE(junit.find("tests=\"3\" failures=\"1\" errors=\"1\" skipped=\"0\""), std::string::npos);
}

TEST(GateReport, ACpuIsToldWithItsThreads) {
  std::vector<CellEvidence> cells;
  for (const int threads : {1, 2}) {
    cells.push_back(steady("a", 1000));
    cells.back().key.place = {.backend = Backend::kCpu, .device = "AMD EPYC", .threads = threads};
    cells.back().device_name = "AMD EPYC";
  }
  const std::string text = render(judge(cells, cells, {}), {}, GateFormat::kText);
  EXPECT_NE(text.find("a        AMD EPYC, 1 thread "), std::string::npos) << text;
  EXPECT_NE(text.find("a        AMD EPYC, 2 threads "), std::string::npos) << text;
}

TEST(GateReport, AProcessThatFailedIsInTheCodeAndInEveryFormat) {
  GateResult result = judge(std::vector{steady("a", 1000)}, std::vector{steady("a", 1000)}, {});
  const GateHeading heading{.baseline = "old", .candidate = "new", .strict = false};
  result.failure = {.why = "'old' was ended by signal 11", .code = ExitCode::kIncomparable};
  EXPECT_EQ(exit_code(result, false), ExitCode::kIncomparable);
  for (const GateFormat format : kGateFormats) {
    EXPECT_NE(render(result, heading, format).find("signal 11"), std::string::npos)
        << name_of(format);
  }
  const Json json = parse_json(render(result, heading, GateFormat::kJson), "the report");
  EXPECT_EQ(json["exit_code"], 5);
  EXPECT_EQ(json["notes"].size(), 1u);
  const std::string junit = render(result, heading, GateFormat::kJunit);
  EXPECT_NE(junit.find("tests=\"2\" failures=\"0\" errors=\"1\""), std::string::npos) << junit;

  // Of two codes the one that the table of design puts first; what a GPU that is not there leaves
  // missing is no finding.
  const GateResult missing = judge(std::vector{steady("a", 1000)}, {}, {});
  for (const auto& [failed, code] : {std::pair{ExitCode::kUsage, ExitCode::kUsage},
                                     std::pair{ExitCode::kNothingRan, ExitCode::kNothingRan},
                                     std::pair{ExitCode::kIncorrect, ExitCode::kIncorrect}}) {
    result = missing;
    result.failure = {.why = "", .code = failed};
    EXPECT_EQ(exit_code(result, false), code);
  }
  result = judge(std::vector{steady("a", 1000)},
                 std::vector{cell_of("a", {without_time(Status::kIncorrect, "wrong")})}, {});
  result.failure = {.why = "", .code = ExitCode::kNothingRan};
  EXPECT_EQ(exit_code(result, false), ExitCode::kIncorrect);
}

// ---- error rates --------------------------------------------------------------------------------

// Processes of one cell, drawn anew for every trial: the run drifts, and each process has noise of
// its own.
class Simulation {
 public:
  Simulation(double drift, double noise) : drift_(drift), noise_(noise) {}

  // The verdict of a series of pairs that is looked at as gate --against does it.
  Verdict series(double change, double threshold) { return looks(change, threshold, 5).verdict; }

  // Whether such a series calls a regression, and the second one too.
  bool confirmed_series(double change, double threshold) {
    const JudgedCell first = looks(change, threshold, 5);
    return first.verdict == Verdict::kRegression &&
           looks(change, threshold, static_cast<int>(first.baseline_processes)).verdict ==
               Verdict::kRegression;
  }

  // The median of what honest series call detectable.
  double usual_detectable(double threshold) {
    std::vector<double> told;
    for (int i = 0; i < 200; ++i) {
      told.push_back(looks(0, threshold, 5).change->detectable);
    }
    std::sort(told.begin(), told.end());
    return told[told.size() / 2];
  }

  // Five processes against five of another time.
  JudgedCell side_by_side(double change, double threshold) {
    std::vector<ProcessFinding> base;
    std::vector<ProcessFinding> candidate;
    for (int i = 0; i < 5; ++i) {
      base.push_back(timed(1000 * std::exp(noise_ * normal_(engine_))));
      candidate.push_back(timed(1000 * (1 + change) * std::exp(noise_ * normal_(engine_))));
    }
    return verdict_on(cell_of("a", base), cell_of("a", candidate), {.threshold = threshold});
  }

  JudgedCell looks(double change, double threshold, int first_look) {
    GateRules rules{.threshold = threshold, .is_confirmed = true, .is_paired = true};
    std::vector<ProcessFinding> base;
    std::vector<ProcessFinding> candidate;
    double level = 0;
    for (int pairs = 1;; ++pairs) {
      level += drift_ * normal_(engine_);
      base.push_back(timed(1000 * std::exp(level + noise_ * normal_(engine_))));
      candidate.push_back(timed(1000 * (1 + change) * std::exp(level + noise_ * normal_(engine_))));
      if (pairs >= first_look && (pairs - first_look) % 4 == 0) {
        const JudgedCell judged = verdict_on(cell_of("a", base), cell_of("a", candidate), rules);
        if (judged.verdict != Verdict::kInconclusive || pairs == 21) {
          return judged;
        }
      }
    }
  }

  int count(Verdict verdict, int trials, double change, double threshold) {
    int counted = 0;
    for (int i = 0; i < trials; ++i) {
      counted += series(change, threshold) == verdict ? 1 : 0;
    }
    return counted;
  }

 private:
  double drift_;
  double noise_;
  std::mt19937_64 engine_{20261129};
  std::normal_distribution<double> normal_;
};

TEST(GateErrorRates, NoFalseAlarmAtTheNoiseOfAGpu) {
  Simulation gpu(0.001, 0.0006);  // results/h200/repeat/
  EXPECT_EQ(gpu.count(Verdict::kPass, 1000, 0, 0.01), 1000);
  Simulation restless(0.01, 0.006);
  EXPECT_EQ(restless.count(Verdict::kRegression, 1000, 0, 0.03), 0);
}

TEST(GateErrorRates, TheThresholdAndTwoPointsAreFound) {
  Simulation gpu(0.001, 0.0006);
  EXPECT_EQ(gpu.count(Verdict::kRegression, 299, 0.03, 0.01), 299);
  EXPECT_EQ(gpu.count(Verdict::kRegression, 299, 0.05, 0.03), 299);
  Simulation restless(0.005, 0.003);
  EXPECT_EQ(restless.count(Verdict::kRegression, 299, 0.05, 0.03), 299);
}

// What stands as "finds from" is found 19 times of 20, by both series, whatever the noise. 600
// trials: 0.92 is more than three standard deviations below.
TEST(GateErrorRates, WhatIsCalledDetectableIsFound) {
  constexpr int kTrials = 600;
  for (const double noise : {0.0006, 0.0035, 0.0085, 0.02}) {
    Simulation simulation(2 * noise, noise);
    const double slow_down = simulation.usual_detectable(0.03);
    int found = 0;
    for (int i = 0; i < kTrials; ++i) {
      found += simulation.confirmed_series(slow_down, 0.03) ? 1 : 0;
    }
    EXPECT_GE(found, 0.92 * kTrials) << noise << ", " << slow_down;
  }
}

TEST(GateErrorRates, WhatIsCalledDetectableBetweenDocumentsIsFound) {
  constexpr int kTrials = 600;
  for (const double noise : {0.0006, 0.006, 0.02}) {
    Simulation simulation(0, noise);
    std::vector<double> told;
    for (int i = 0; i < 200; ++i) {
      told.push_back(simulation.side_by_side(0, 0.03).change->detectable);
    }
    std::sort(told.begin(), told.end());
    const double slow_down = told[told.size() / 2];
    int found = 0;
    for (int i = 0; i < kTrials; ++i) {
      found += simulation.side_by_side(slow_down, 0.03).verdict == Verdict::kRegression ? 1 : 0;
    }
    EXPECT_GE(found, 0.92 * kTrials) << noise << ", " << slow_down;
  }
}

// Where the noise is far above the threshold nothing but alpha holds a false verdict back: 1 % of
// a series, on either side. Both bounds are four standard deviations above it.
TEST(GateErrorRates, AlphaHoldsWhereNoiseIsLarge) {
  constexpr int kTrials = 4000;
  constexpr int kMost = 40 + 25;
  Simulation loud(0.02, 0.05);
  EXPECT_LE(loud.count(Verdict::kRegression, kTrials, 0, 0.01), kMost);
  // A slow-down at the threshold must not pass either.
  EXPECT_LE(loud.count(Verdict::kPass, kTrials, 0.01, 0.01), kMost);
}

// ---- recorded processes -------------------------------------------------------------------------

// The two cells of 20 real processes on an H200, drawn anew for every trial.
class Recorded : public testing::Test {
 protected:
  static std::vector<CellEvidence> evidence() {
    std::vector<std::string> paths;
    for (const auto& entry :
         std::filesystem::directory_iterator(MLA_BENCH_RESULTS "/h200/repeat")) {
      paths.push_back(entry.path().string());
    }
    std::sort(paths.begin(), paths.end());
    return evidence_of(read_documents(paths, Detail::kAll));
  }

  // Verdicts of `trials` series of pairs, five at first and up to ten, on processes in random
  // order, those of the candidate slower by `change`.
  std::map<Verdict, int> verdicts(int trials, double change, double threshold) {
    std::map<Verdict, int> counts;
    for (int trial = 0; trial < trials; ++trial) {
      for (const CellEvidence& cell : cells_) {
        std::vector<ProcessFinding> order = cell.processes;
        for (std::size_t i = order.size(); i > 1; --i) {  // std::shuffle differs by library
          std::swap(order[i - 1], order[engine_() % i]);
        }
        ++counts[series(cell, order, change, threshold)];
      }
    }
    return counts;
  }

  static Verdict series(const CellEvidence& cell, const std::vector<ProcessFinding>& order,
                        double change, double threshold) {
    CellEvidence base = cell;
    CellEvidence candidate = cell;
    for (const std::size_t pairs : {std::size_t{5}, order.size() / 2}) {
      base.processes.clear();
      candidate.processes.clear();
      for (std::size_t i = 0; i < pairs; ++i) {
        base.processes.push_back(order[2 * i]);
        candidate.processes.push_back(order[2 * i + 1]);
        candidate.processes.back().ns *= 1 + change;
      }
      const Verdict verdict =
          verdict_on(base, candidate, {.threshold = threshold, .is_paired = true}).verdict;
      if (verdict != Verdict::kInconclusive) {
        return verdict;
      }
    }
    return Verdict::kInconclusive;
  }

  std::vector<CellEvidence> cells_ = evidence();
  std::mt19937_64 engine_{20261129};
};

TEST_F(Recorded, HoldsWhatTheTestsNeed) {
  ASSERT_EQ(cells_.size(), 2u);
  for (const CellEvidence& cell : cells_) {
    EXPECT_EQ(cell.processes.size(), 20u);
    EXPECT_EQ(cell.conflict, "");
  }
}

TEST_F(Recorded, TheSameProgramRaisesNoAlarm) {
  for (const double threshold : {0.03, 0.01}) {
    std::map<Verdict, int> counts = verdicts(500, 0, threshold);
    EXPECT_EQ(counts[Verdict::kRegression] + counts[Verdict::kImprovement], 0) << threshold;
    EXPECT_EQ(counts[Verdict::kPass], 1000) << threshold;
  }
}

TEST_F(Recorded, TwoPointsAboveTheThresholdAreFoundAndHalfOfItIsNot) {
  for (const double threshold : {0.03, 0.01}) {
    EXPECT_EQ(verdicts(299, threshold + 0.02, threshold)[Verdict::kRegression], 2 * 299);
    EXPECT_EQ(verdicts(299, threshold / 2, threshold)[Verdict::kRegression], 0);
  }
}

}  // namespace
}  // namespace mla_bench
