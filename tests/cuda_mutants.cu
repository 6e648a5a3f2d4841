// The mutants on a GPU: a thread an element of the latent, then a thread an element of kv, sums in
// fp32; and three whose faults need shared memory, in one kernel of a block for every two rows.
#include <cuda_runtime_api.h>

#include <memory>
#include <type_traits>
#include <utility>

#include "mla_bench/cuda_check.hpp"
#include "mutants.hpp"

namespace mla_bench {
namespace {

constexpr int kThreads = 256;

// ---- kernels ------------------------------------------------------------------------------------

__global__ void empty_kernel() {}

// Long enough that whoever checks too early finds nothing.
__global__ void wait_kernel(std::int64_t cycles) {
  const std::int64_t start = clock64();
  while (clock64() - start < cycles) {
  }
}

template <typename T>
__global__ void store_kernel(T* to, float value) {
  *to = from_float<T>(value);
}

__global__ void flip_last_bit_kernel(unsigned char* byte) {
  *byte ^= 1;
}

// One word too far; what is allocated is larger than what was asked for, so nothing else is hit.
__global__ void overrun_kernel(int* word) {
  word[1] = 1;
}

__global__ void read_kernel(const volatile int* word) {
  static_cast<void>(*word);
}

__global__ void copy_kernel(const std::byte* from, std::byte* to, std::int64_t bytes) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < bytes) {
    to[i] = from[i];
  }
}

__device__ float added(float sum, float a, float b, Rounding sums) {
  return sums == Rounding::kNone ? fmaf(a, b, sum) : rounded(sum + rounded(a * b, sums), sums);
}

// latent (rows, rank) = hidden @ w_down, a thread an element.
template <typename T>
__global__ void latent_kernel(Problem problem, Operands operands, Recipe recipe, float* latent) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= problem.latent_count()) {
    return;
  }
  const T* const hidden =
      static_cast<const T*>(operands.hidden) + i / problem.rank * problem.model_dim;
  const T* const w_down = static_cast<const T*>(operands.w_down) + i % problem.rank;
  float sum = recipe.defect == Defect::kKeepsSums ? latent[i] : 0;
  for (std::int64_t d = 0; d < depth_of(problem, recipe.defect); ++d) {
    sum = added(sum, rounded(to_float(hidden[d]), recipe.operands),
                rounded(to_float(w_down[d * problem.rank]), recipe.operands), recipe.sums);
  }
  latent[i] = rounded(sum, recipe.latent);
}

// kv = latent @ w_up, a thread an element.
template <typename T>
__global__ void kv_kernel(Problem problem, Operands operands, Recipe recipe, const float* latent,
                          std::int64_t launch, T* kv) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= problem.kv_count()) {
    return;
  }
  const std::int64_t row_of_both = i / problem.columns();
  const Place place{.half = row_of_both / problem.rows(),
                    .row = row_of_both % problem.rows(),
                    .column = i % problem.columns()};
  const std::int64_t to = written_to(problem, place, recipe.defect);
  if (to < 0) {
    return;
  }
  const bool is_v = half_of_weights(place, recipe.defect) == 1;
  const T* const w_up =
      static_cast<const T*>(is_v ? operands.w_up_v : operands.w_up_k) + place.column;
  float sum = 0;
  for (std::int64_t r = 0; r < rank_of(problem, recipe.defect); ++r) {
    sum = added(sum, latent[place.row * problem.rank + r],
                rounded(to_float(w_up[r * problem.columns()]), recipe.operands), recipe.sums);
  }
  const float before = recipe.defect == Defect::kAddsToOutput ? to_float(kv[to]) : 0;
  kv[to] = from_float<T>(before + altered(problem, place, recipe, sum, launch));
}

// Two rows a block, one after the other, their latents in shared memory; rank and columns may be
// any.
__global__ void shared_kernel(Problem problem, Operands operands, Recipe recipe) {
  extern __shared__ float latent[];  // (rank)
  __shared__ volatile float witness;
  const auto* hidden = static_cast<const float*>(operands.hidden);
  const auto* w_down = static_cast<const float*>(operands.w_down);
  auto* kv = static_cast<float*>(operands.kv);
  for (int r = static_cast<int>(threadIdx.x); r < problem.rank; r += kThreads) {
    latent[r] = 0;
  }
  if (threadIdx.x == 0) {
    witness = 1;
  }
  __syncthreads();  // cleared before any sum is added
  if (recipe.defect == Defect::kSilentRace && threadIdx.x == 0) {
    witness = 1;  // once more, while other warps read it
  }
  const float factor = witness;
  for (std::int64_t row = 2 * std::int64_t{blockIdx.x};
       row < 2 * std::int64_t{blockIdx.x} + 2 && row < problem.rows(); ++row) {
    if (recipe.defect == Defect::kMissingBarrier) {
      // The later warps are late, as they may be on any day.
      constexpr std::int64_t kLate = 20000;
      const std::int64_t start = clock64();
      while (threadIdx.x >= warpSize && clock64() - start < kLate) {
      }
    }
    for (std::int64_t r = threadIdx.x; r < problem.rank; r += kThreads) {
      float sum = recipe.defect == Defect::kUnclearedShared ? latent[r] : 0;
      for (std::int64_t d = 0; d < problem.model_dim; ++d) {
        sum = fmaf(hidden[row * problem.model_dim + d], w_down[d * problem.rank + r], sum);
      }
      latent[r] = sum;
    }
    if (recipe.defect != Defect::kMissingBarrier) {
      __syncthreads();  // all sums are made before they are read
    }
    for (std::int64_t i = threadIdx.x; i < 2 * problem.columns(); i += kThreads) {
      const bool is_v = i >= problem.columns();
      const std::int64_t column = is_v ? i - problem.columns() : i;
      const auto* w_up = static_cast<const float*>(is_v ? operands.w_up_v : operands.w_up_k);
      float sum = 0;
      for (std::int64_t r = 0; r < problem.rank; ++r) {
        sum = fmaf(latent[r], w_up[r * problem.columns() + column], sum);
      }
      kv[((is_v ? problem.rows() : 0) + row) * problem.columns() + column] = factor * sum;
    }
    __syncthreads();  // all reads are done before the next row's sums
  }
}

unsigned int blocks_for(std::int64_t count) {
  return static_cast<unsigned int>((count + kThreads - 1) / kThreads);
}

bool needs_shared_memory(Defect defect) {
  return defect == Defect::kMissingBarrier || defect == Defect::kUnclearedShared ||
         defect == Defect::kSilentRace;
}

// ---- one prepared cell --------------------------------------------------------------------------

class State {
 public:
  State(const Problem& problem, std::int64_t kv_bytes) : kv_bytes_(kv_bytes) {
    MLA_BENCH_CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    const auto latent_bytes = static_cast<std::size_t>(problem.latent_count()) * sizeof(float);
    MLA_BENCH_CHECK(cudaMalloc(&latent_, latent_bytes));
    MLA_BENCH_CHECK(cudaMemset(latent_, 0, latent_bytes));
    MLA_BENCH_CHECK(cudaMalloc(&kept_, static_cast<std::size_t>(kv_bytes)));
    MLA_BENCH_CHECK(cudaMalloc(&word_, sizeof(int)));
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    cudaStreamSynchronize(stream_);
    cudaStreamDestroy(stream_);
    cudaFree(latent_);
    cudaFree(kept_);
    cudaFree(word_);
  }

  cudaStream_t hidden_stream() const { return stream_; }
  float* latent() const { return static_cast<float*>(latent_); }
  int* word() const { return static_cast<int*>(word_); }  // nobody writes it

  void keep(const void* kv, cudaStream_t stream) const {
    MLA_BENCH_CHECK(cudaMemcpyAsync(kept_, kv, kv_bytes_, cudaMemcpyDeviceToDevice, stream));
  }
  // By a kernel: a launch of copies alone has no shape that its floor could have.
  void give(void* kv, cudaStream_t stream) const {
    const auto blocks = static_cast<unsigned int>((kv_bytes_ + kThreads - 1) / kThreads);
    copy_kernel<<<blocks, kThreads, 0, stream>>>(static_cast<const std::byte*>(kept_),
                                                 static_cast<std::byte*>(kv), kv_bytes_);
  }

  std::int64_t launches = 0;

 private:
  std::int64_t kv_bytes_;
  cudaStream_t stream_ = nullptr;
  void* latent_ = nullptr;
  void* kept_ = nullptr;
  void* word_ = nullptr;
};

bool is_capturing(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  MLA_BENCH_CHECK(cudaStreamIsCapturing(stream, &status));
  return status != cudaStreamCaptureStatusNone;
}

template <typename T>
void compute(const Problem& problem, const Operands& operands, const Recipe& recipe,
             const State& state, bool with_latent, cudaStream_t stream) {
  if (needs_shared_memory(recipe.defect)) {
    if constexpr (std::is_same_v<T, float>) {
      const auto blocks = static_cast<unsigned int>((problem.rows() + 1) / 2);
      shared_kernel<<<blocks, kThreads, static_cast<std::size_t>(problem.rank) * sizeof(float),
                      stream>>>(problem, operands, recipe);
    }
    return;
  }
  if (with_latent) {
    latent_kernel<T><<<blocks_for(problem.latent_count()), kThreads, 0, stream>>>(
        problem, operands, recipe, state.latent());
  }
  kv_kernel<T><<<blocks_for(problem.kv_count()), kThreads, 0, stream>>>(
      problem, operands, recipe, state.latent(), state.launches, static_cast<T*>(operands.kv));
}

template <typename T>
void launch(const Problem& problem, const Operands& operands, const Recipe& recipe, State& state,
            cudaStream_t given) {
  T* const kv = static_cast<T*>(operands.kv);
  const bool is_first = ++state.launches == 1;
  cudaStream_t stream = given;
  switch (recipe.defect) {
    case Defect::kWritesNothing:
      empty_kernel<<<1, 1, 0, given>>>();
      return;
    case Defect::kSkipsLater:
    case Defect::kSkipsWhenReplayed:
      if (recipe.defect == Defect::kSkipsLater ? !is_first : is_capturing(given)) {
        empty_kernel<<<1, 1, 0, given>>>();
        return;
      }
      break;
    case Defect::kStealsOutput:
      state.give(kv, given);
      MLA_BENCH_CHECK(cudaGetLastError());
      return;
    case Defect::kKeepsResult:
      if (!is_first) {
        state.give(kv, given);
        MLA_BENCH_CHECK(cudaGetLastError());
        return;
      }
      break;
    case Defect::kWritesLate:
    case Defect::kMovesStream:
      empty_kernel<<<1, 1, 0, given>>>();
      stream = state.hidden_stream();
      break;
    default:
      break;
  }
  if (recipe.defect == Defect::kWritesLate) {
    constexpr std::int64_t kTenthOfASecond = 150'000'000;  // clocks, about
    wait_kernel<<<1, 1, 0, stream>>>(kTenthOfASecond);
  }
  compute<T>(problem, operands, recipe, state, recipe.defect != Defect::kKeepsLatent || is_first,
             stream);
  switch (recipe.defect) {
    case Defect::kKeepsResult:
      state.keep(kv, given);
      break;
    case Defect::kSilentOverrun:
      overrun_kernel<<<1, 1, 0, given>>>(state.word());
      break;
    case Defect::kSilentUninitialised:
      read_kernel<<<1, 1, 0, given>>>(state.word());
      break;
    case Defect::kWritesBefore:
      store_kernel<<<1, 1, 0, given>>>(kv - 1, 0);
      break;
    case Defect::kWritesAfter:
      store_kernel<<<1, 1, 0, given>>>(kv + problem.kv_count(), 0);
      break;
    case Defect::kChangesHidden:
      flip_last_bit_kernel<<<1, 1, 0, given>>>(
          static_cast<unsigned char*>(const_cast<void*>(operands.hidden)));
      break;
    case Defect::kChangesWeight:
      flip_last_bit_kernel<<<1, 1, 0, given>>>(
          static_cast<unsigned char*>(const_cast<void*>(operands.w_up_v)));
      break;
    case Defect::kMovesStream:
      // A plain call waits, so that whoever checks it finds the work done; a capture could not.
      if (!is_capturing(given)) {
        MLA_BENCH_CHECK(cudaStreamSynchronize(stream));
      }
      break;
    default:
      break;
  }
  MLA_BENCH_CHECK(cudaGetLastError());
}

Launch bound(const Problem& problem, Precision precision, const Operands& operands,
             const Recipe& recipe, const std::shared_ptr<State>& state) {
  const auto with = [=](auto element) -> Launch {
    return [=](Stream stream) {
      launch<decltype(element)>(problem, operands, recipe, *state,
                                static_cast<cudaStream_t>(stream));
    };
  };
  switch (stored_type(precision)) {
    case StoredType::kBf16:
      return with(Bf16{});
    case StoredType::kF16:
      return with(F16{});
    default:
      return with(0.0f);
  }
}

// ---- the list -----------------------------------------------------------------------------------

constexpr Mutant mutant_at(std::size_t index) {
  return index < kMutants.size() ? kMutants[index] : kSilentMutants[index - kMutants.size()];
}

template <std::size_t kIndex>
Prepared prepare(const Problem& problem, Precision precision, const Device&) {
  const Recipe recipe = mutant_at(kIndex).recipe;
  const auto state =
      std::make_shared<State>(problem, problem.kv_count() * size_of(stored_type(precision)));
  return {.choice = "planted", .bind = [=](const Operands& operands) -> Launch {
            if (recipe.defect == Defect::kStealsOutput) {
              state->keep(operands.kv, state->hidden_stream());
              MLA_BENCH_CHECK(cudaStreamSynchronize(state->hidden_stream()));
            }
            return bound(problem, precision, operands, recipe, state);
          }};
}

template <std::size_t kIndex>
Unit unit(Precision) {
  return mutant_at(kIndex).recipe.claims_tensor_cores ? Unit::kTensorCore : Unit::kFma;
}

double executed_flops(const Problem& problem) {
  return problem.flops();
}

std::int64_t workspace_bytes(const Problem& problem, Precision precision, const Device&) {
  return problem.latent_count() * static_cast<std::int64_t>(sizeof(float)) +
         problem.kv_count() * size_of(stored_type(precision));
}

template <std::size_t kIndex>
std::optional<std::string> why_not(const Problem&, Precision precision, const Device&) {
  return precision == mutant_at(kIndex).precision
             ? std::nullopt
             : std::optional<std::string>("is planted in another precision");
}

template <std::size_t kIndex>
constexpr Variant kVariant{.name = mutant_at(kIndex).name,
                           .summary = mutant_at(kIndex).fault,
                           .backend = Backend::kCuda,
                           .unit = unit<kIndex>,
                           .executed_flops = executed_flops,
                           .workspace_bytes = workspace_bytes,
                           .why_not = why_not<kIndex>,
                           .prepare = prepare<kIndex>};

template <std::size_t... kIndices>
std::vector<Listed> listed(std::index_sequence<kIndices...>) {
  std::vector<Listed> here;
  const auto add = [&here](const Mutant& mutant, const Variant& variant) {
    if (mutant.on_gpu) {
      here.push_back({mutant.name, Backend::kCuda, &variant, ""});
    }
  };
  (add(mutant_at(kIndices), kVariant<kIndices>), ...);
  return here;
}

}  // namespace

std::vector<Listed> cuda_mutants() {
  return listed(std::make_index_sequence<kMutants.size() + kSilentMutants.size()>());
}

}  // namespace mla_bench
