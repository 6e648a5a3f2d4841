// The whole program on a GPU that is taken away from it, in part or for good: a kernel that ends
// the CUDA context, one that never ends, memory that others hold, libraries that are missing.
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "json.hpp"
#include "mla_bench/cuda_check.hpp"

namespace mla_bench {
namespace {

namespace fs = std::filesystem;

#define EXPECT_SAYS(message, part) \
  EXPECT_NE((message).find(part), std::string::npos) << "it says: " << (message)

std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Outcome {
  int exit_code = -1;
  std::string errors;  // what it printed on stderr
  Json document;
  std::vector<Result> cells;
};

// `variables` are those of the environment, as a shell takes them.
Outcome run(const std::string& options, const std::string& variables = "") {
  const std::string path =
      (fs::temp_directory_path() / ("mla-bench-cuda-machine-" + std::to_string(getpid()))).string();
  const std::string command =
      variables + " '" + MLA_BENCH_GPU_FAULTY + "' --device cuda:0 --rounds 2 --warmup 0.05 " +
      options + " --json '" + path + ".json' >'" + path + ".out' 2>'" + path + ".err'";
  const int status = std::system(command.c_str());
  Outcome outcome{.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
                  .errors = contents(path + ".err"),
                  .document = parse_json(contents(path + ".json"), path + ".json"),
                  .cells = {}};
  for (const Json& cell : outcome.document.at("cells")) {
    outcome.cells.push_back(result_from_json(cell));
  }
  for (const char* ending : {".json", ".out", ".err"}) {
    fs::remove(path + ending);
  }
  return outcome;
}

// On a busy machine a right cell's time may not be trusted.
void expect_right(const Result& result) {
  EXPECT_TRUE(result.status == Status::kPassed || result.status == Status::kUntrusted)
      << result.cell.id() << ": " << result.reason;
  EXPECT_TRUE(result.summary) << result.cell.id();
  EXPECT_EQ(result.rounds.size(), 2u) << result.cell.id();
}

// One cell each, in one worker until it breaks. What is open in that worker is opened in the next
// one, and the second shape's cells come after all of it.
TEST(CudaMachine, ABrokenContextOrAnEndlessKernelCostsItsOwnCell) {
  const Outcome broken = run("--variant right,strays,strays_later,spins --seq 48,96 --timeout 15");
  EXPECT_EQ(broken.exit_code, 3) << broken.errors;
  EXPECT_TRUE(broken.document.at("finished_at").is_string());
  ASSERT_EQ(broken.cells.size(), 8u);
  for (const Result& result : broken.cells) {
    const std::string& variant = result.cell.variant;
    if (variant == "right") {
      expect_right(result);
      continue;
    }
    EXPECT_EQ(result.status, Status::kFailed) << variant;
    EXPECT_FALSE(result.summary) << variant << ": no time is shown";
    EXPECT_EQ(result.reason.find('\n'), std::string::npos) << result.reason;
    EXPECT_SAYS(result.reason, variant == "spins"
                                   ? "no answer for 15 s, so its process was killed (--timeout"
                                   : "cudaErrorIllegalAddress");
  }
}

// ---- memory -------------------------------------------------------------------------------------

constexpr std::size_t kMiB = std::size_t{1} << 20;

// All of the GPU's free memory but for so many bytes, held by this process, which is another one
// than the program's.
class HeldMemory {
 public:
  explicit HeldMemory(std::size_t left) {
    for (std::size_t chunk = 1024 * kMiB; chunk >= 2 * kMiB; chunk /= 2) {
      void* data = nullptr;
      while (free_bytes() >= left + chunk && cudaMalloc(&data, chunk) == cudaSuccess) {
      }
      static_cast<void>(cudaGetLastError());
    }
  }
  HeldMemory(const HeldMemory&) = delete;
  HeldMemory& operator=(const HeldMemory&) = delete;
  ~HeldMemory() { cudaDeviceReset(); }  // the context goes too

 private:
  static std::size_t free_bytes() {
    std::size_t free = 0;
    std::size_t total = 0;
    MLA_BENCH_CHECK(cudaMemGetInfo(&free, &total));
    return free;
  }
};

// The large problem's hidden and kv alone are the 2 GiB that are left.
TEST(CudaMachine, ACellThatFindsTheMemoryTakenIsSkipped) {
  const HeldMemory held(2048 * kMiB);
  const Outcome full = run("--variant right --batch 4 --seq 96,262144 --force");
  EXPECT_EQ(full.exit_code, 0) << full.errors;
  ASSERT_EQ(full.cells.size(), 2u);
  expect_right(full.cells[0]);
  EXPECT_EQ(full.cells[1].status, Status::kSkipped);
  EXPECT_SAYS(full.cells[1].reason, "cuda:0 has no room for ");
  EXPECT_SAYS(full.cells[1].reason, " are free");
}

TEST(CudaMachine, NoRoomForAContextIsSaid) {
  const HeldMemory held(0);
  const Outcome full = run("--variant right");
  EXPECT_EQ(full.exit_code, 77) << full.errors;
  ASSERT_EQ(full.cells.size(), 1u);
  EXPECT_EQ(full.cells[0].status, Status::kSkipped) << full.cells[0].reason;
  EXPECT_SAYS(full.cells[0].reason, "cuda:0 has no room for a context");
}

// ---- neighbours and libraries -------------------------------------------------------------------

// How many processes NVML counts on a GPU; 0 where it does not tell, as in some containers.
unsigned int told_processes(const std::string& uuid) {
  void* const library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return 0;
  }
  const auto init = reinterpret_cast<int (*)()>(dlsym(library, "nvmlInit_v2"));
  const auto by_uuid =
      reinterpret_cast<int (*)(const char*, void**)>(dlsym(library, "nvmlDeviceGetHandleByUUID"));
  const auto count_processes = reinterpret_cast<int (*)(void*, unsigned int*, void*)>(
      dlsym(library, "nvmlDeviceGetComputeRunningProcesses_v3"));
  void* device = nullptr;
  unsigned int count = 0;
  if (init && by_uuid && count_processes && init() == 0 && by_uuid(uuid.c_str(), &device) == 0) {
    count_processes(device, &count, nullptr);  // no room for any, but it counts them
  }
  return count;
}

TEST(CudaMachine, AnotherProcessOnTheGpuIsSaid) {
  constexpr std::size_t kAllOfIt = std::size_t{1} << 60;
  const HeldMemory context_alone(kAllOfIt);
  const Outcome shared = run("--variant right --strict");
  ASSERT_EQ(shared.cells.size(), 1u);
  const Result& result = shared.cells[0];
  if (told_processes(result.cell.device) == 0) {
    GTEST_SKIP() << "NVML tells of no process here, not even of this one";
  }
  EXPECT_EQ(result.status, Status::kUntrusted);
  EXPECT_SAYS(result.reason, "other process");  // and "1", where no third one is there
  EXPECT_EQ(shared.exit_code, 4);
}

TEST(CudaMachine, NeitherNvmlNorCuptiIsNeeded) {
  const Outcome bare =
      run("--variant right,adds_kernel", "LD_PRELOAD=" MLA_BENCH_UNFRIENDLY_LIBC
                                         " MLA_BENCH_TEST_REFUSED_LIBRARIES=libnvidia-ml,libcupti");
  EXPECT_EQ(bare.exit_code, 0) << bare.errors;
  for (const Result& result : bare.cells) {
    expect_right(result);  // a kernel beside the right ones: nobody can tell
    ASSERT_TRUE(result.referee && result.referee->counts);
    for (const std::string& missing : {result.referee->missing, result.referee->counts->missing}) {
      EXPECT_SAYS(missing, "libcupti is not on this machine");
    }
    for (const Round& round : result.rounds) {
      EXPECT_FALSE(round.before || round.after);
    }
  }
  for (const Json& device : bare.document.at("devices")) {
    EXPECT_FALSE(device.contains("setup"));
  }
  EXPECT_SAYS(
      bare.errors,
      "nobody looked for work on other streams in 2 cells: libcupti is not on this machine");
  EXPECT_SAYS(bare.errors, "nobody watched for throttling and other processes in 2 cells: ");
}

}  // namespace
}  // namespace mla_bench
