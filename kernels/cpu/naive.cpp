// Every element of k and v on its own, straight from the definition, the latent recomputed each
// time.
//
//   kv[half][row][column] = sum over r of (sum over d of hidden[row][d] * w_down[d][r])
//                                         * w_up[half][r][column]
//
//   hidden row  ----> latent value r ----> one element         2 * columns times for every row
//   w_down column r       w_up[r][column]
//
// Needs nothing. Limited by the latency of one chain of additions and by walking w_down down its
// columns; its work is about columns times the operator's. First rung: it improves on nothing.
#include "cpu/operands.hpp"

namespace mla_bench::cpu {
namespace {

template <typename T>
float element(const Problem& problem, const T* hidden_row, const T* w_down, const T* w_up_column) {
  float sum = 0;
  for (std::int64_t r = 0; r < problem.rank; ++r) {
    float latent = 0;
    for (std::int64_t d = 0; d < problem.model_dim; ++d) {
      latent += to_float(hidden_row[d]) * to_float(w_down[d * problem.rank + r]);
    }
    sum += latent * to_float(w_up_column[r * problem.columns()]);
  }
  return sum;
}

template <typename T>
void run(const Problem& problem, int threads, const TypedOperands<T>& operands) {
  const std::int64_t rows = problem.rows();
  const std::int64_t columns = problem.columns();
#pragma omp parallel for num_threads(threads) schedule(static)
  for (std::int64_t row = 0; row < rows; ++row) {
    const T* hidden_row = operands.hidden + row * problem.model_dim;
    for (int half = 0; half < kHalves; ++half) {
      T* out = operands.kv + (half * rows + row) * columns;
      for (std::int64_t column = 0; column < columns; ++column) {
        out[column] = from_float<T>(
            element(problem, hidden_row, operands.w_down, operands.w_up[half] + column));
      }
    }
  }
}

// For every element of kv: the row of latent, then its product with one column.
double executed_flops(const Problem& problem) {
  const double depth = static_cast<double>(problem.model_dim) + 1;
  return 2.0 * static_cast<double>(problem.kv_count()) * static_cast<double>(problem.rank) * depth;
}

Prepared prepare(const Problem& problem, Precision precision, const Device& device) {
  const int threads = device.threads;
  return {.choice = "one element at a time, " + counted(threads, "thread"),
          .bind = bind_typed(precision, [problem, threads](const auto& operands) {
            run(problem, threads, operands);
          })};
}

}  // namespace

extern const Variant naive;
const Variant naive{.name = "naive",
                    .summary = "one element at a time, the latent recomputed for each",
                    .backend = Backend::kCpu,
                    .unit = fma_unit,
                    .executed_flops = executed_flops,
                    .workspace_bytes = no_workspace,
                    .why_not = why_not_tf32,
                    .prepare = prepare};

}  // namespace mla_bench::cpu
