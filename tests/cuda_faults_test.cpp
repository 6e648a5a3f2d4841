// The whole program on a GPU, from outside, with variants that hide work from the clock:
// mla-bench-gpu-faulty is src/main.cpp with cuda_fault_registry.cu in the place of the real
// variants.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "json.hpp"
#include "mutant_runs.hpp"

namespace mla_bench {
namespace {

namespace fs = std::filesystem;

// One run for all tests: each variant's cell, as the document holds it.
class CudaFaults : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const fs::path path =
        fs::temp_directory_path() / ("mla-bench-cuda-faults-" + std::to_string(getpid()) + ".json");
    const std::string command =
        "'" MLA_BENCH_GPU_FAULTY
        "'"
        " --device cuda:0 --variant right,moves_all,moves_half,moves_latent,adds_kernel --rounds 2 "
        "--warmup 0.05 --quiet --json '" +
        path.string() + "'";
    const int status = std::system(command.c_str());
    exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    std::ifstream file(path, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const Json document = parse_json(text, path.string());
    for (const Json& cell : document.at("cells")) {
      const Result result = result_from_json(cell);
      results_.emplace(result.cell.variant, result);
    }
    fs::remove(path);
  }

  static void TearDownTestSuite() { results_.clear(); }

  static const Result& result_of(const char* variant) { return results_.at(variant); }

  static void expect_counts(const char* variant, std::int64_t captured, std::int64_t called,
                            std::int64_t escaped) {
    const Result& result = result_of(variant);
    ASSERT_TRUE(result.referee) << result.reason;
    ASSERT_TRUE(result.referee->counts);
    const KernelCounts& counts = *result.referee->counts;
    EXPECT_EQ(counts.captured, captured);
    EXPECT_EQ(counts.called, called);
    EXPECT_EQ(counts.escaped, escaped);
  }

  // A machine without CUPTI cannot count; what it says instead is in the document.
  static bool can_count() {
    const std::optional<Referee>& referee = result_of("right").referee;
    return referee && referee->counts && referee->counts->missing.empty();
  }

  static inline int exit_code_ = -1;
  static inline std::map<std::string, Result> results_;
};

#define EXPECT_SAYS(message, part) \
  EXPECT_NE((message).find(part), std::string::npos) << "it says: " << (message)

TEST_F(CudaFaults, NoneIsFoundInALaunchThatHidesNothing) {
  const Result& right = result_of("right");
  EXPECT_TRUE(right.status == Status::kPassed || right.status == Status::kUntrusted)
      << right.reason;
  EXPECT_EQ(right.reason.find("stream"), std::string::npos) << right.reason;
  if (can_count()) {
    expect_counts("right", 2, 2, 0);
  }
}

TEST_F(CudaFaults, WorkMovedToAStreamOfItsOwnIsNoAnswer) {
  const Result& all = result_of("moves_all");
  EXPECT_EQ(all.status, Status::kIncorrect);
  EXPECT_FALSE(all.summary) << "no time is shown";
  EXPECT_SAYS(all.reason, "the timed launches: it left 98304 of 98304 elements of kv unwritten");
  EXPECT_SAYS(all.reason, "a stream other than the one given");
  EXPECT_EQ(exit_code_, 3);
}

TEST_F(CudaFaults, HalfOfTheWorkIsNoAnswer) {
  const Result& half = result_of("moves_half");
  EXPECT_EQ(half.status, Status::kIncorrect);
  EXPECT_FALSE(half.summary) << "no time is shown";
  EXPECT_SAYS(half.reason, "the timed launches: it left 49152 of 98304 elements of kv unwritten");
  EXPECT_SAYS(half.reason, "a stream other than the one given");
}

// kv would be right even so: what the hidden half wrote once stays right as long as the inputs do,
// and so the inputs do not.
TEST_F(CudaFaults, HalfOfTheWorkIsFoundEvenWhereItsResultsStay) {
  const Result& latent = result_of("moves_latent");
  EXPECT_EQ(latent.status, Status::kIncorrect);
  EXPECT_FALSE(latent.summary) << "no time is shown";
  EXPECT_SAYS(latent.reason, "this is the answer to the inputs of before");
}

TEST_F(CudaFaults, AHiddenSecondKernelIsFound) {
  if (!can_count()) {
    GTEST_SKIP() << "CUPTI cannot be had here";
  }
  const Result& added = result_of("adds_kernel");
  EXPECT_EQ(added.status, Status::kUntrusted);
  expect_counts("adds_kernel", 2, 3, 1);
  EXPECT_SAYS(added.reason, "one call ran 3 kernels, the graph that is timed holds 2 of them");
  EXPECT_SAYS(added.reason, "a stream other than the one it was given");
}

// ---- the mutants --------------------------------------------------------------------------------

MutantRig gpu_rig() {
  return {.program = MLA_BENCH_GPU_FAULTY,
          .device = "cuda:0",
          .batch = "4",
          .seq = 96,
          .model_dim = 256,
          .more = "--warmup 0.02 --rounds 1"};
}

TEST(CudaMutants, AreAllCaught) {
  const std::vector<Caught> all =
      catch_mutants(gpu_rig(), Backend::kCuda, [](const MutantRun& run, bool has_right) {
        EXPECT_EQ(run.exit_code, 3);
        if (has_right) {
          const Result& right = run.cells.at("right");
          EXPECT_TRUE(right.status == Status::kPassed || right.status == Status::kUntrusted)
              << right.reason;
        }
      });
  expect_all_caught(all, Backend::kCuda, mutant_table_path(MLA_BENCH_MUTANT_TABLE));
}

// So that the script for compute-sanitizer shows what no run shows.
TEST(CudaMutants, TheSilentOnesAreSilent) {
  for (const Mutant& mutant : kSilentMutants) {
    const std::string name(mutant.name);
    const MutantRun run = run_mutants(gpu_rig(), options_of(gpu_rig(), mutant, name));
    const Result& result = run.cells.at(name);
    EXPECT_TRUE(result.status == Status::kPassed || result.status == Status::kUntrusted)
        << name << ": " << result.reason;
  }
}

}  // namespace
}  // namespace mla_bench
