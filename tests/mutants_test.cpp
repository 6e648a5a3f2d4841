// The mutants on a CPU: the tool must catch every one, each with the message that a user needs.
#include <gtest/gtest.h>

#include <set>

#include "mutant_runs.hpp"

namespace mla_bench {
namespace {

// Small, for plain loops; large enough that the statistics of the check hold.
MutantRig cpu_rig() {
  return {.program = MLA_BENCH_FAULTY,
          .device = "cpu",
          .batch = "2",
          .seq = 24,
          .model_dim = 256,
          .more = "--threads 1 --warmup 0 --rounds 1"};
}

TEST(Mutants, AreManyAndOfDifferentNames) {
  std::set<std::string_view> names;
  for (const Mutant& mutant : kMutants) {
    EXPECT_TRUE(names.insert(mutant.name).second) << mutant.name;
    EXPECT_TRUE(mutant.on_cpu || mutant.on_gpu) << mutant.name;
    EXPECT_NE(mutant.status, "passed") << mutant.name;
  }
  EXPECT_GE(names.size(), 24u);
}

TEST(Mutants, AreAllCaughtOnTheCpu) {
  const std::vector<Caught> all =
      catch_mutants(cpu_rig(), Backend::kCpu, [](const MutantRun& run, bool has_right) {
        EXPECT_EQ(run.exit_code, 3);
        if (has_right) {
          EXPECT_EQ(run.cells.at("right").status, Status::kPassed) << run.cells.at("right").reason;
        }
      });
  expect_all_caught(all, Backend::kCpu, mutant_table_path(MLA_BENCH_MUTANT_TABLE));
}

// The judge itself: a mutant that gets away must fail the test above.
TEST(Mutants, ThatGetAwayAreNotCalledCaught) {
  const MutantRun run = run_mutants(
      cpu_rig(), options_of(cpu_rig(), Mutant{}, "right,one_element,skips_later,writes_after"));
  const Result& right = run.cells.at("right");
  ASSERT_EQ(right.status, Status::kPassed) << right.reason;
  for (const Mutant& mutant : kMutants) {
    EXPECT_EQ(caught_by(mutant, right), "") << mutant.name;
  }
  for (const char* name : {"one_element", "skips_later", "writes_after"}) {
    const auto* mutant = std::find_if(kMutants.begin(), kMutants.end(),
                                      [&](const Mutant& m) { return m.name == name; });
    Result result = run.cells.at(name);
    EXPECT_NE(caught_by(*mutant, result), "") << result.reason;
    Result other = result;
    other.reason = "something else";
    EXPECT_EQ(caught_by(*mutant, other), "") << "a message that does not help";
    other = result;
    other.status = Status::kFailed;
    EXPECT_EQ(caught_by(*mutant, other), "") << "another status";
    other = result;
    other.summary = right.summary;
    EXPECT_EQ(caught_by(*mutant, other), "") << "a time beside a wrong answer";
  }
}

}  // namespace
}  // namespace mla_bench
