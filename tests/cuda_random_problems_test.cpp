// Every CUDA variant on random problems. Skipped without a GPU (gpu_main.cpp).
#include <gtest/gtest.h>

#include "random_problems.hpp"

namespace mla_bench {
namespace {

TEST(CudaRandomProblems, EveryVariantIsRight) {
  constexpr std::int64_t kProblemsOfAVariant = 200;
  const std::int64_t count = number_in("MLA_BENCH_RANDOM_COUNT").value_or(kProblemsOfAVariant);
  const RandomOutcome outcome = run_random_problems(find_cuda_devices().devices.front(), count);
  for (const std::string& failure : outcome.failures) {
    ADD_FAILURE() << failure << "\n  MLA_BENCH_RANDOM_SEED=" << outcome.seed << " draws it again";
  }
  std::int64_t ran = 0;
  for (const auto& [variant, problems] : outcome.problems) {
    ran += problems;
  }
  EXPECT_GE(ran, count);
}

}  // namespace
}  // namespace mla_bench
