// naive: one thread computes one element of k or v from global memory alone, and for that
// recomputes its row's whole latent.
//
//            hidden (T, Dm)      w_down (Dm, R)       w_up (R, HD)
//            [ ........... ]     [ . . . . . ]        [ . . x . . ]
//     row -> [ xxxxxxxxxxx ]  @  [ x x x x x ]   @    [ . . x . . ]   = one x of kv, one thread
//            [ ........... ]     [ x x x x x ]        [ . . x . . ]
//                                                           ^ column
//
// Needs: nothing. Limits: R times too many operations, 2 * HD times over for every row, and two
// loads from the first-level cache for every multiplication. The rung that the others are measured
// against.

#include "cuda/element.cuh"
#include "cuda/launch.cuh"

namespace mla_bench::cuda {
namespace {

constexpr int kThreads = 256;

// Neighbouring threads take neighbouring columns: loads of w_up and stores of kv are coalesced, and
// those of hidden and w_down are one address a warp.
template <typename T>
__global__ __launch_bounds__(kThreads) void naive_kernel(Arguments<T> args) {
  const std::int64_t element = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const std::int64_t half = args.rows * args.columns;
  if (element >= 2 * half) {
    return;
  }
  const std::int64_t in_half = element < half ? element : element - half;
  const std::int64_t row = in_half / args.columns;
  const std::int64_t column = in_half - row * args.columns;
  const T* const w_up = element < half ? args.w_up_k : args.w_up_v;
  const T* const hidden = args.hidden + row * args.model_dim;

  float sum = 0;
  for (std::int64_t rank = 0; rank < args.rank; ++rank) {
    float latent = 0;
#pragma unroll 4
    for (std::int64_t d = 0; d < args.model_dim; ++d) {
      latent = fmaf(widen(hidden[d]), widen(args.w_down[d * args.rank + rank]), latent);
    }
    sum = fmaf(latent, widen(w_up[rank * args.columns + column]), sum);
  }
  args.kv[element] = narrow<T>(sum);
}

double executed_flops(const Problem& problem) {
  return 2.0 * static_cast<double>(problem.kv_count()) * static_cast<double>(problem.rank) *
         (static_cast<double>(problem.model_dim) + 1.0);
}

std::optional<std::string> why_not(const Problem& problem, Precision precision,
                                   const Device& device) {
  if (auto reason = why_not_fma(precision, device)) {
    return reason;
  }
  return why_not_blocks(static_cast<double>(problem.kv_count()) / kThreads);
}

Prepared prepare(const Problem& problem, Precision precision, const Device&) {
  const LaunchShape shape{.blocks = ceil_div(problem.kv_count(), kThreads), .threads = kThreads};
  return with_element(stored_type(precision), [&]<typename T>(T) {
    return prepare_kernel<T>(naive_kernel<T>, "one thread an element", shape, problem);
  });
}

}  // namespace

extern const Variant naive;
constinit const Variant naive{
    .name = "naive",
    .summary = "one thread per element of k and v, the latent recomputed by every thread",
    .backend = Backend::kCuda,
    .unit = fma_unit,
    .executed_flops = executed_flops,
    .workspace_bytes = no_workspace,
    .why_not = why_not,
    .prepare = prepare,
};

}  // namespace mla_bench::cuda
