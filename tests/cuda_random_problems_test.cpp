// Every CUDA variant on random problems. Skipped without a GPU (gpu_main.cpp).
#include <gtest/gtest.h>

#include "random_problems.hpp"

namespace mla_bench {
namespace {

TEST(CudaRandomProblems, EveryVariantIsRight) {
  constexpr std::int64_t kProblemsOfAVariant = 200;
  const std::int64_t count = number_in("MLA_BENCH_RANDOM_COUNT").value_or(kProblemsOfAVariant);
  const Device device = find_cuda_devices().devices.front();
  const RandomOutcome outcome = run_random_problems(device, count);
  for (const std::string& failure : outcome.failures) {
    ADD_FAILURE() << failure << "\n  MLA_BENCH_RANDOM_SEED=" << outcome.seed << " draws it again";
  }
  for (const Listed& listed : registry()) {
    if (listed.backend == Backend::kCuda && listed.variant != nullptr &&
        !listed.variant->why_not(Problem{}, Precision::kFp32, device)) {
      const auto ran = outcome.problems.find(std::string(listed.name));
      ASSERT_NE(ran, outcome.problems.end()) << listed.name;
      EXPECT_GE(ran->second, count) << listed.name;
    }
  }
}

}  // namespace
}  // namespace mla_bench
