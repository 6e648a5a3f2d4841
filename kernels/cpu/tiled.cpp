// Output tiles of 16 x 64, made from blocks of hidden, of the weights and of the latent that stay
// in the L1 cache; the latent of a row tile is recomputed for every column tile.
//
//         Dm               R                     H*D
//      +-------+        +-----+               +--------+
//   16 |hidden | @ Dm 64|w_down|  = 16 latent | @ 64 R |w_up    |  added to 16 x 64 of k or v
//      +-------+        +-----+               +--------+
//      in blocks of 64 along Dm, for 64 latent columns at a time
//
// Needs nothing: ragged blocks are filled up with zeros. Limited by the recomputed latent, once for
// every 64 columns of k and of v, and by what the compiler makes of plain loops for the baseline
// instruction set. Improves on `naive`: no value is fetched from beyond L1 once for each product,
// the innermost loop runs along memory, and the latent is computed columns / 64 times instead of
// columns.
#include <algorithm>

#include "cpu/operands.hpp"

namespace mla_bench::cpu {
namespace {

constexpr std::int64_t kRows = 16;
constexpr std::int64_t kBlock = 64;  // along Dm, along R, and columns of k or v

// Fixed extents let the compiler unroll and vectorise: (16, 64) and (64, 64), 28 KiB for the four
// that are in use at a time.
using RowBlock = std::array<std::array<float, kBlock>, kRows>;
using WeightBlock = std::array<std::array<float, kBlock>, kBlock>;

// Part of a row-major matrix: what is left of it from (row, column) on, at most a block.
template <typename T>
struct Corner {
  Corner(const T* matrix, std::int64_t matrix_rows, std::int64_t matrix_columns, std::int64_t row,
         std::int64_t column)
      : first(matrix + row * matrix_columns + column),
        stride(matrix_columns),
        rows(matrix_rows - row),
        columns(std::min(kBlock, matrix_columns - column)) {}

  const T* first;
  std::int64_t stride;
  std::int64_t rows;
  std::int64_t columns;
};

// Beyond the matrix's edge the block holds zeros, which add nothing.
template <typename T, typename Block>
void load(const Corner<T>& from, Block& block) {
  const auto block_rows = static_cast<std::int64_t>(block.size());
  const std::int64_t rows = std::min(block_rows, from.rows);
  for (std::int64_t i = 0; i < rows; ++i) {
    const T* source = from.first + i * from.stride;
    for (std::int64_t j = 0; j < from.columns; ++j) {
      block[i][j] = to_float(source[j]);
    }
    std::fill(block[i].begin() + from.columns, block[i].end(), 0.0f);
  }
  for (std::int64_t i = rows; i < block_rows; ++i) {
    block[i].fill(0.0f);
  }
}

// sum (16, 64) += left (16, 64) @ right (64, 64), each sum in the order of its terms.
void multiply_add(const RowBlock& left, const WeightBlock& right, RowBlock& sum) {
  for (std::int64_t i = 0; i < kRows; ++i) {
    for (std::int64_t k = 0; k < kBlock; ++k) {
      for (std::int64_t j = 0; j < kBlock; ++j) {
        sum[i][j] += left[i][k] * right[k][j];
      }
    }
  }
}

// One tile of k or v, from `row` and `column` on.
template <typename T>
RowBlock make_tile(const Problem& problem, const TypedOperands<T>& operands, const T* w_up,
                   std::int64_t row, std::int64_t column) {
  RowBlock out{};
  RowBlock hidden;
  WeightBlock weights;
  for (std::int64_t r = 0; r < problem.rank; r += kBlock) {
    RowBlock latent{};
    for (std::int64_t d = 0; d < problem.model_dim; d += kBlock) {
      load(Corner(operands.hidden, problem.rows(), problem.model_dim, row, d), hidden);
      load(Corner(operands.w_down, problem.model_dim, problem.rank, d, r), weights);
      multiply_add(hidden, weights, latent);
    }
    load(Corner(w_up, problem.rank, problem.columns(), r, column), weights);
    multiply_add(latent, weights, out);
  }
  return out;
}

template <typename T>
void run(const Problem& problem, int threads, const TypedOperands<T>& operands) {
  const std::int64_t rows = problem.rows();
  const std::int64_t columns = problem.columns();
#pragma omp parallel for collapse(3) num_threads(threads) schedule(static)
  for (std::int64_t row = 0; row < rows; row += kRows) {
    for (int half = 0; half < kHalves; ++half) {
      for (std::int64_t column = 0; column < columns; column += kBlock) {
        const RowBlock tile = make_tile(problem, operands, operands.w_up[half], row, column);
        T* out = operands.kv + (half * rows + row) * columns + column;
        for (std::int64_t i = 0; i < std::min(kRows, rows - row); ++i) {
          for (std::int64_t j = 0; j < std::min(kBlock, columns - column); ++j) {
            out[i * columns + j] = from_float<T>(tile[i][j]);
          }
        }
      }
    }
  }
}

// Whole blocks, zeros beyond the edges included.
double executed_flops(const Problem& problem) {
  const auto blocks = [](std::int64_t count) {
    return static_cast<double>(ceil_divide(count, kBlock));
  };
  const double tiles =
      static_cast<double>(ceil_divide(problem.rows(), kRows)) * kHalves * blocks(problem.columns());
  const double products = blocks(problem.rank) * (blocks(problem.model_dim) + 1);
  return tiles * products * 2.0 * kRows * kBlock * kBlock;
}

Prepared prepare(const Problem& problem, Precision precision, const Device& device) {
  const int threads = device.threads;
  return {.choice = std::to_string(kRows) + " x " + std::to_string(kBlock) + " tiles, " +
                    counted(threads, "thread"),
          .bind = bind_typed(precision, [problem, threads](const auto& operands) {
            run(problem, threads, operands);
          })};
}

}  // namespace

extern const Variant tiled;
const Variant tiled{.name = "tiled",
                    .summary = "cache blocks, the latent recomputed for every column tile",
                    .backend = Backend::kCpu,
                    .unit = fma_unit,
                    .executed_flops = executed_flops,
                    .workspace_bytes = no_workspace,
                    .why_not = why_not_tf32,
                    .prepare = prepare};

}  // namespace mla_bench::cpu
