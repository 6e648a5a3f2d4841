// What selftest promises and how it reads the gate's verdicts, without a process.
#include "selftest.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "json_access.hpp"

namespace mla_bench {
namespace {

Planted work(double part) {
  return {.kind = PlantKind::kWork, .slow_down = part};
}

TEST(Planted, ReadsWhatItWrites) {
  for (const Planted& planted :
       {Planted{}, work(0.05), work(0.015), work(1e-3), Planted{.kind = PlantKind::kWrongElement},
        Planted{.kind = PlantKind::kNothingWritten}, Planted{.kind = PlantKind::kFirstCallOnly}}) {
    EXPECT_EQ(planted_from(text_of(planted)), planted) << text_of(planted);
  }
  for (const char* text : {"", "work", "work:", "work:0", "work:-1", "work:nan", "work:11",
                           "work:1e-3x", "nothing:1", "wrong"}) {
    EXPECT_FALSE(planted_from(text)) << text;
  }
}

TEST(Selftest, PromisesByTheThreshold) {
  EXPECT_EQ(promise_on({}, 0.03), Promise::kUnchanged);
  EXPECT_EQ(promise_on(work(0.015), 0.03), Promise::kNoRegression);
  EXPECT_EQ(promise_on(work(0.02), 0.03), Promise::kNone);
  EXPECT_EQ(promise_on(work(0.03), 0.03), Promise::kNone);
  EXPECT_EQ(promise_on(work(0.03 + 0.02), 0.03), Promise::kRegression);
  EXPECT_EQ(promise_on(work(0.01 + 0.02), 0.01), Promise::kRegression);
  EXPECT_EQ(promise_on({.kind = PlantKind::kFirstCallOnly}, 0.03), Promise::kIncorrect);
}

TEST(Selftest, AVerdictKeepsOrBreaksThePromise) {
  struct Case {
    Promise promise;
    Verdict verdict;
    Outcome outcome;
  };
  for (const Case& tried : {
           Case{Promise::kUnchanged, Verdict::kPass, Outcome::kKept},
           Case{Promise::kUnchanged, Verdict::kRegression, Outcome::kBroken},
           Case{Promise::kUnchanged, Verdict::kImprovement, Outcome::kBroken},
           Case{Promise::kUnchanged, Verdict::kInconclusive, Outcome::kUndecided},
           Case{Promise::kUnchanged, Verdict::kIncorrect, Outcome::kNotTried},
           Case{Promise::kUnchanged, Verdict::kSkipped, Outcome::kNotTried},
           Case{Promise::kNoRegression, Verdict::kPass, Outcome::kKept},
           Case{Promise::kNoRegression, Verdict::kRegression, Outcome::kBroken},
           Case{Promise::kNone, Verdict::kRegression, Outcome::kKept},
           Case{Promise::kNone, Verdict::kPass, Outcome::kKept},
           Case{Promise::kNone, Verdict::kInconclusive, Outcome::kKept},
           Case{Promise::kNone, Verdict::kImprovement, Outcome::kBroken},
           Case{Promise::kRegression, Verdict::kRegression, Outcome::kKept},
           Case{Promise::kRegression, Verdict::kPass, Outcome::kBroken},
           Case{Promise::kRegression, Verdict::kInconclusive, Outcome::kUndecided},
           Case{Promise::kIncorrect, Verdict::kIncorrect, Outcome::kKept},
           Case{Promise::kIncorrect, Verdict::kPass, Outcome::kBroken},
           Case{Promise::kIncorrect, Verdict::kRegression, Outcome::kBroken},
           Case{Promise::kIncorrect, Verdict::kSkipped, Outcome::kNotTried},
       }) {
    EXPECT_EQ(name_of(outcome_of(tried.verdict, tried.promise)), name_of(tried.outcome))
        << name_of(tried.promise) << ", " << name_of(tried.verdict);
  }
}

JudgedCell judged(int copy, Verdict verdict, double ratio = 1) {
  JudgedCell cell{.verdict = verdict, .reason = "so"};
  cell.key.variant = "tiled";
  cell.key.copy = copy;
  cell.key.place.device = "GPU-1";
  if (verdict != Verdict::kIncorrect && verdict != Verdict::kSkipped) {
    cell.change = Change{.estimate = ratio, .deviation = 0.001 * (copy + 1)};
  }
  return cell;
}

const std::map<int, Planted> kPlants{
    {0, {}}, {1, work(0.05)}, {2, {.kind = PlantKind::kWrongElement}}};

SelftestResult result_of(Verdict honest, Verdict slowed, Verdict wrong) {
  GateResult gate;
  gate.cells = {judged(0, honest), judged(1, slowed, 1.05), judged(2, wrong)};
  return selftest_of(gate, kPlants, {{id_of(gate.cells[1].key), 0.0502}});
}

TEST(Selftest, ExitCodes) {
  const auto code = [](Verdict honest, Verdict slowed, Verdict wrong) {
    return exit_code(result_of(honest, slowed, wrong));
  };
  using enum Verdict;
  EXPECT_EQ(code(kPass, kRegression, kIncorrect), ExitCode::kFine);
  EXPECT_EQ(code(kRegression, kRegression, kIncorrect), ExitCode::kRegression);
  EXPECT_EQ(code(kPass, kPass, kIncorrect), ExitCode::kRegression);
  EXPECT_EQ(code(kPass, kRegression, kPass), ExitCode::kRegression);
  EXPECT_EQ(code(kPass, kInconclusive, kIncorrect), ExitCode::kInconclusive);
  EXPECT_EQ(code(kIncorrect, kIncorrect, kIncorrect), ExitCode::kIncorrect);
  EXPECT_EQ(code(kSkipped, kSkipped, kSkipped), ExitCode::kNothingRan);
}

TEST(Selftest, AFailedProcessIsInTheCodeThatTheReportSays) {
  SelftestResult result = result_of(Verdict::kPass, Verdict::kPass, Verdict::kIncorrect);
  result.gate.failure = {.why = "the candidate was killed", .code = ExitCode::kIncorrect};
  EXPECT_EQ(exit_code(result), ExitCode::kIncorrect);
  const Json json = parse_json(json_report(result), "the report");
  EXPECT_EQ(json["exit_code"], 3);
  EXPECT_EQ(json["notes"][0], "the candidate was killed");
  EXPECT_NE(text_report(result).find("the candidate was killed"), std::string::npos);
  result = result_of(Verdict::kSkipped, Verdict::kSkipped, Verdict::kSkipped);
  result.gate.failure = {.why = "", .code = ExitCode::kIncomparable};
  EXPECT_EQ(exit_code(result), ExitCode::kIncomparable);
}

TEST(Selftest, NoiseIsThatOfTheHonestCopy) {
  const SelftestResult result =
      result_of(Verdict::kPass, Verdict::kRegression, Verdict::kIncorrect);
  ASSERT_EQ(result.noise.size(), 1u);
  EXPECT_EQ(result.noise[0].key.copy, 0);
  EXPECT_EQ(result.noise[0].deviation, 0.001);
}

TEST(Selftest, TheGateGetsTheNoiseOfASoundSelftestAlone) {
  const SelftestResult sound = result_of(Verdict::kPass, Verdict::kRegression, Verdict::kIncorrect);
  EXPECT_EQ(why_no_noise(sound, {}), "");
  EXPECT_EQ(why_no_noise(sound, {.rounds = 5, .samples = 31, .warmup_s = 1}), "");
  for (const SeriesOptions& less :
       {SeriesOptions{.rounds = 1}, SeriesOptions{.samples = 5}, SeriesOptions{.warmup_s = 0}}) {
    EXPECT_NE(why_no_noise(sound, less).find("less than the gate's own"), std::string::npos);
  }
  SelftestResult failed = sound;
  failed.gate.failure = {.why = "", .code = ExitCode::kIncomparable};
  for (const SelftestResult& unsound :
       {result_of(Verdict::kInconclusive, Verdict::kRegression, Verdict::kIncorrect),
        result_of(Verdict::kPass, Verdict::kInconclusive, Verdict::kIncorrect),
        result_of(Verdict::kPass, Verdict::kPass, Verdict::kIncorrect), failed}) {
    EXPECT_EQ(why_no_noise(unsound, {}), "not all came out as promised");
  }
}

TEST(Selftest, ReportsTellWhatBroke) {
  const SelftestResult result = result_of(Verdict::kPass, Verdict::kPass, Verdict::kIncorrect);
  const std::string text = text_report(result);
  for (const char* part : {"+5.00 % work", "one wrong element", "BROKEN", "+5.02 %", "0.10 %"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
  }
  EXPECT_NE(text.find("% at most; kept for the gate\n"), std::string::npos) << text;
  SelftestResult not_kept = result;
  not_kept.not_kept = "so";
  EXPECT_NE(text_report(not_kept).find("; not kept for the gate: so\n"), std::string::npos);
  const Json json = parse_json(json_report(result), "the report");
  EXPECT_EQ(json["exit_code"], 1);
  EXPECT_EQ(json["cells"][1]["finding"], "broken");
  EXPECT_EQ(json["cells"][1]["planted"], "work:0.05");
  EXPECT_EQ(json["cells"][1]["planted_part"], 0.0502);
}

}  // namespace
}  // namespace mla_bench
