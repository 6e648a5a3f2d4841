// Every CPU variant on random problems, and the shrinking itself.
#include "random_problems.hpp"

#include <gtest/gtest.h>

namespace mla_bench {
namespace {

TEST(RandomProblems, EveryCpuVariantIsRight) {
  constexpr std::int64_t kProblems = 520;  // of all variants together
  const std::int64_t count = number_in("MLA_BENCH_RANDOM_COUNT").value_or(kProblems);
  std::int64_t variants = 0;
  for (const Listed& listed : registry()) {
    variants += listed.backend == Backend::kCpu && listed.variant != nullptr ? 1 : 0;
  }
  ASSERT_GT(variants, 0);
  const RandomOutcome outcome =
      run_random_problems(find_cpu_device(), (count + variants - 1) / variants);
  std::int64_t ran = 0;
  for (const auto& [variant, problems] : outcome.problems) {
    ran += problems;
  }
  for (const std::string& failure : outcome.failures) {
    ADD_FAILURE() << failure << "\n  MLA_BENCH_RANDOM_SEED=" << outcome.seed << " draws it again";
  }
  EXPECT_TRUE(ran >= count || !outcome.failures.empty());
}

TEST(RandomProblems, AreTheSameFromTheSameSeed) {
  Dice dice(7);
  Dice again(7);
  Dice other(8);
  bool differs = false;
  for (int i = 0; i < 100; ++i) {
    const Problem problem = random_problem(dice);
    EXPECT_EQ(problem, random_problem(again));
    differs = differs || !(problem == random_problem(other));
    EXPECT_LE(problem.flops(), kMostRandomFlops);
    EXPECT_GE(std::min({problem.batch, problem.seq, problem.model_dim, problem.rank,
                        problem.kv_heads, problem.head_dim}),
              1);
  }
  EXPECT_TRUE(differs);
}

TEST(RandomProblems, ShrinkToTheSmallestThatFails) {
  const auto fails = [](const Problem& p) -> std::optional<std::string> {
    return p.rows() % 16 != 0 && p.model_dim > 64 && p.head_dim % 2 == 1
               ? std::optional<std::string>("planted")
               : std::nullopt;
  };
  const Problem start{
      .batch = 3, .seq = 77, .model_dim = 500, .rank = 33, .kv_heads = 5, .head_dim = 31};
  ASSERT_TRUE(fails(start));
  EXPECT_EQ(
      shrunk(start, fails),
      (Problem{.batch = 1, .seq = 1, .model_dim = 65, .rank = 1, .kv_heads = 1, .head_dim = 1}));
}

// A kernel that is wrong on ragged rows alone is found, and found small.
void run_ragged(const Problem& problem, const Operands& operands) {
  const Listed* right = nullptr;
  for (const Listed& listed : registry()) {
    right = listed.name == "tiled" && listed.backend == Backend::kCpu ? &listed : right;
  }
  Device device = find_cpu_device();
  device.threads = 1;
  right->variant->prepare(problem, Precision::kFp32, device).bind(operands)(nullptr);
  if (problem.rows() % 8 != 0) {
    static_cast<float*>(operands.kv)[problem.kv_count() - 1] += 1;
  }
}

TEST(RandomProblems, FindAPlantedFault) {
  Variant planted;
  for (const Listed& listed : registry()) {
    if (listed.name == "tiled" && listed.backend == Backend::kCpu) {
      planted = *listed.variant;
    }
  }
  planted.prepare = [](const Problem& problem, Precision, const Device&) -> Prepared {
    return {.choice = "planted", .bind = [problem](const Operands& operands) -> Launch {
              return [=](Stream) { run_ragged(problem, operands); };
            }};
  };
  RandomCase drawn{.variant = &planted};
  const auto fails = [&drawn](const Problem& problem) {
    RandomCase other = drawn;
    other.problem = problem;
    return failure_of(other, find_cpu_device());
  };
  EXPECT_EQ(
      fails(Problem{.batch = 1, .seq = 8, .model_dim = 9, .rank = 5, .kv_heads = 1, .head_dim = 7}),
      std::nullopt);
  drawn.problem = {
      .batch = 1, .seq = 61, .model_dim = 90, .rank = 50, .kv_heads = 3, .head_dim = 7};
  ASSERT_TRUE(fails(drawn.problem));
  const Problem smallest = shrunk(drawn.problem, fails);
  EXPECT_EQ(
      smallest,
      (Problem{.batch = 1, .seq = 1, .model_dim = 1, .rank = 1, .kv_heads = 1, .head_dim = 1}));
}

}  // namespace
}  // namespace mla_bench
