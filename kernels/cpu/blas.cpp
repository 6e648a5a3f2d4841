// The rival: three matrix products by OpenBLAS, k and v written straight into their halves of kv.
//
//   hidden (T, Dm) --sgemm--> latent (T, R) --sgemm--> kv[0] = k (T, H*D)
//                             in memory     --sgemm--> kv[1] = v (T, H*D)
//
// Needs OpenBLAS, fp32, and dimensions that fit its integers. Limited by three calls that each pack
// their operands and wake the library's own threads, and by the latent's way through memory.
// Not a rung of the ladder: what the other variants are measured against.
#include <cblas.h>

#include <algorithm>
#include <limits>
#include <memory>

#include "cpu/operands.hpp"

namespace mla_bench::cpu {
namespace {

std::optional<std::string> why_not(const Problem& problem, Precision precision, const Device&) {
  if (precision != Precision::kFp32) {
    return "OpenBLAS multiplies fp32 here: use --precision fp32, not " +
           std::string(name_of(precision));
  }
  const std::int64_t largest =
      std::max({problem.rows(), problem.model_dim, problem.rank, problem.columns()});
  if (largest > std::numeric_limits<blasint>::max()) {
    return "a dimension of " + std::to_string(largest) +
           " is beyond this OpenBLAS's integers: at most " +
           std::to_string(std::numeric_limits<blasint>::max());
  }
  return std::nullopt;
}

// c (rows, columns) = a (rows, depth) @ b (depth, columns), all row-major and contiguous.
void multiply(std::int64_t rows, std::int64_t columns, std::int64_t depth, const float* a,
              const float* b, float* c) {
  const auto m = static_cast<blasint>(rows);
  const auto n = static_cast<blasint>(columns);
  const auto k = static_cast<blasint>(depth);
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, n, k, 1.0f, a, k, b, n, 0.0f, c, n);
}

void run(const Problem& problem, float* latent, const TypedOperands<float>& operands) {
  const std::int64_t rows = problem.rows();
  const std::int64_t columns = problem.columns();
  multiply(rows, problem.rank, problem.model_dim, operands.hidden, operands.w_down, latent);
  for (int half = 0; half < kHalves; ++half) {
    multiply(rows, columns, problem.rank, latent, operands.w_up[half],
             operands.kv + half * rows * columns);
  }
}

std::int64_t workspace_bytes(const Problem& problem, Precision precision, const Device&) {
  return problem.latent_count() * size_of(stored_type(precision));
}

Prepared prepare(const Problem& problem, Precision, const Device& device) {
  openblas_set_num_threads(device.threads);
  const std::shared_ptr<float[]> latent(
      new float[static_cast<std::size_t>(problem.latent_count())]);
  return {.choice = "OpenBLAS " + std::string(openblas_get_corename()) + " kernels, " +
                    counted(openblas_get_num_threads(), "thread"),
          .bind = [problem, latent](const Operands& operands) -> Launch {
            return [problem, latent, bound = typed<float>(operands)](Stream) {
              run(problem, latent.get(), bound);
            };
          }};
}

}  // namespace

extern const Variant blas;
const Variant blas{.name = "blas",
                   .summary = "OpenBLAS: down, then k and v straight into kv",
                   .backend = Backend::kCpu,
                   .unit = fma_unit,
                   .executed_flops = [](const Problem& problem) { return problem.flops(); },
                   .workspace_bytes = workspace_bytes,
                   .why_not = why_not,
                   .prepare = prepare};

}  // namespace mla_bench::cpu
