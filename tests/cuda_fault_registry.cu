// Stands in for the generated registry: one CUDA variant that is right; some that hide work from
// the clock on a stream of their own, fp32 only, whose output is right as long as nobody looks at
// what the timed launches alone do; some whose kernels take the GPU's context down or never end;
// and the mutants.
#include <cuda_runtime_api.h>

#include <array>
#include <memory>
#include <vector>

#include "mla_bench/cuda_check.hpp"
#include "mla_bench/variant.hpp"
#include "mutants.hpp"

namespace mla_bench {
namespace {

enum class Fault {
  kNone,
  kMovesAll,     // all of the work elsewhere, an empty kernel on the stream given
  kMovesHalf,    // k on the stream given, v elsewhere
  kMovesLatent,  // the latent elsewhere into memory that stays, so that even a later kv is right
  kAddsKernel,   // all of the work on the stream given, and a second kernel elsewhere
  kStrays,       // a write to an address that is nobody's, which ends the CUDA context
  kStraysLater,  // the same after some thousand launches, in a graph that was right before
  kSpins,        // a kernel that never ends
};

constexpr int kThreads = 256;

// ---- kernels ------------------------------------------------------------------------------------

__global__ void empty_kernel() {}

__global__ void copy_kernel(const float* from, float* to, std::int64_t count) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) {
    to[i] = from[i];
  }
}

// latent (rows, rank) = hidden @ w_down, a thread an element.
__global__ void down_kernel(Problem problem, Operands operands, float* latent) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= problem.rows() * problem.rank) {
    return;
  }
  const float* hidden =
      static_cast<const float*>(operands.hidden) + i / problem.rank * problem.model_dim;
  const float* w_down = static_cast<const float*>(operands.w_down) + i % problem.rank;
  float sum = 0;
  for (std::int64_t d = 0; d < problem.model_dim; ++d) {
    sum += hidden[d] * w_down[d * problem.rank];
  }
  latent[i] = sum;
}

// Elements `first` to `first + count` of kv = latent @ w_up, a thread an element.
__global__ void up_kernel(Problem problem, Operands operands, const float* latent,
                          std::int64_t first, std::int64_t count) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count) {
    return;
  }
  const std::int64_t place = first + i;
  const std::int64_t column = place % problem.columns();
  const std::int64_t row = place / problem.columns() % problem.rows();
  const bool is_v = place / problem.columns() >= problem.rows();
  const auto* w_up = static_cast<const float*>(is_v ? operands.w_up_v : operands.w_up_k) + column;
  float sum = 0;
  for (std::int64_t r = 0; r < problem.rank; ++r) {
    sum += latent[row * problem.rank + r] * w_up[r * problem.columns()];
  }
  static_cast<float*>(operands.kv)[place] = sum;
}

// Counts the launches, and from number `right` on writes where nothing is.
__global__ void stray_kernel(unsigned int* launches, unsigned int right, int* nowhere) {
  if (atomicAdd(launches, 1) >= right) {
    *nowhere = 1;
  }
}

// Until somebody writes there, which nobody does.
__global__ void spin_kernel(const volatile unsigned int* never_written) {
  while (*never_written == 0) {
  }
}

unsigned int blocks_for(std::int64_t count) {
  return static_cast<unsigned int>((count + kThreads - 1) / kThreads);
}

// ---- the stream that the clock does not see -----------------------------------------------------

// What one prepared cell keeps.
class Hidden {
 public:
  explicit Hidden(const Problem& problem) {
    MLA_BENCH_CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    MLA_BENCH_CHECK(cudaMalloc(&latent_, latent_bytes(problem)));
    MLA_BENCH_CHECK(cudaMalloc(&copy_, latent_bytes(problem)));
    MLA_BENCH_CHECK(cudaMalloc(&launches_, sizeof(unsigned int)));
    MLA_BENCH_CHECK(cudaMemset(launches_, 0, sizeof(unsigned int)));
  }
  Hidden(const Hidden&) = delete;
  Hidden& operator=(const Hidden&) = delete;
  ~Hidden() {
    cudaStreamDestroy(stream_);
    cudaFree(latent_);
    cudaFree(copy_);
    cudaFree(launches_);
  }

  cudaStream_t stream() const { return stream_; }
  float* latent() const { return static_cast<float*>(latent_); }
  float* copy() const { return static_cast<float*>(copy_); }
  unsigned int* launches() const { return static_cast<unsigned int*>(launches_); }  // zero at first

  // A plain call waits, so that whoever checks it finds the work done; a capture could not.
  void join(cudaStream_t given) const {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    MLA_BENCH_CHECK(cudaStreamIsCapturing(given, &status));
    if (status == cudaStreamCaptureStatusNone) {
      MLA_BENCH_CHECK(cudaStreamSynchronize(stream_));
    }
  }

 private:
  static std::size_t latent_bytes(const Problem& problem) {
    return static_cast<std::size_t>(problem.rows() * problem.rank) * sizeof(float);
  }

  cudaStream_t stream_ = nullptr;
  void* latent_ = nullptr;
  void* copy_ = nullptr;
  void* launches_ = nullptr;
};

void launch(Fault fault, const Problem& problem, const Operands& operands, const Hidden& hidden,
            cudaStream_t given) {
  const std::int64_t latents = problem.rows() * problem.rank;
  const std::int64_t half = problem.kv_count() / 2;
  const auto down = [&](cudaStream_t stream) {
    down_kernel<<<blocks_for(latents), kThreads, 0, stream>>>(problem, operands, hidden.latent());
  };
  const auto up = [&](std::int64_t first, std::int64_t count, cudaStream_t stream) {
    up_kernel<<<blocks_for(count), kThreads, 0, stream>>>(problem, operands, hidden.latent(), first,
                                                          count);
  };
  switch (fault) {
    case Fault::kNone:
      down(given);
      up(0, 2 * half, given);
      break;
    case Fault::kMovesAll:
      down(hidden.stream());
      up(0, 2 * half, hidden.stream());
      empty_kernel<<<1, 1, 0, given>>>();
      break;
    case Fault::kMovesHalf:
      down(given);
      up(0, half, given);
      down(hidden.stream());
      up(half, half, hidden.stream());
      break;
    case Fault::kMovesLatent:
      down(hidden.stream());
      hidden.join(given);
      up(0, 2 * half, given);
      break;
    case Fault::kAddsKernel:
      down(given);
      up(0, 2 * half, given);
      copy_kernel<<<blocks_for(latents), kThreads, 0, hidden.stream()>>>(hidden.latent(),
                                                                         hidden.copy(), latents);
      break;
    case Fault::kStrays:
    case Fault::kStraysLater: {
      constexpr unsigned int kSomeThousand = 3000;  // more than are launched outside of graphs
      down(given);
      up(0, 2 * half, given);
      stray_kernel<<<1, 1, 0, given>>>(hidden.launches(),
                                       fault == Fault::kStrays ? 0 : kSomeThousand, nullptr);
      break;
    }
    case Fault::kSpins:
      spin_kernel<<<1, 1, 0, given>>>(hidden.launches());
      break;
  }
  MLA_BENCH_CHECK(cudaGetLastError());
  hidden.join(given);
}

// ---- the list -----------------------------------------------------------------------------------

template <Fault kFault>
Prepared prepare(const Problem& problem, Precision, const Device&) {
  const auto hidden = std::make_shared<const Hidden>(problem);
  return {.choice = "planted", .bind = [problem, hidden](const Operands& operands) -> Launch {
            return [problem, operands, hidden](Stream stream) {
              launch(kFault, problem, operands, *hidden, static_cast<cudaStream_t>(stream));
            };
          }};
}

Unit unit(Precision) {
  return Unit::kFma;
}

double executed_flops(const Problem& problem) {
  return problem.flops();
}

std::int64_t workspace_bytes(const Problem& problem, Precision, const Device&) {
  return 2 * problem.rows() * problem.rank * static_cast<std::int64_t>(sizeof(float));
}

std::optional<std::string> why_not(const Problem&, Precision precision, const Device&) {
  return precision == Precision::kFp32 ? std::nullopt
                                       : std::optional<std::string>("knows only fp32");
}

template <Fault kFault>
constexpr Variant kVariant{.name = "",
                           .summary = "",
                           .backend = Backend::kCuda,
                           .unit = unit,
                           .executed_flops = executed_flops,
                           .workspace_bytes = workspace_bytes,
                           .why_not = why_not,
                           .prepare = prepare<kFault>};

template <Fault kFault>
constexpr Listed listed(std::string_view name) {
  return {name, Backend::kCuda, &kVariant<kFault>, ""};
}

}  // namespace

std::span<const Listed> registry() {
  static constexpr std::array kListed{
      listed<Fault::kNone>("right"),
      listed<Fault::kMovesAll>("moves_all"),
      listed<Fault::kMovesHalf>("moves_half"),
      listed<Fault::kMovesLatent>("moves_latent"),
      listed<Fault::kAddsKernel>("adds_kernel"),
      listed<Fault::kStrays>("strays"),
      listed<Fault::kStraysLater>("strays_later"),
      listed<Fault::kSpins>("spins"),
  };
  static const std::vector<Listed> all = [] {
    std::vector<Listed> lines(kListed.begin(), kListed.end());
    const std::vector<Listed> mutants = cuda_mutants();
    lines.insert(lines.end(), mutants.begin(), mutants.end());
    return lines;
  }();
  return all;
}

}  // namespace mla_bench
