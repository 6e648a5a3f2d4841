#include "reference.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <numeric>
#include <utility>

#include "mla_bench/float16.hpp"
#include "philox.hpp"

namespace mla_bench {
namespace {

// The product is made tile by tile: kTileRows x kTileColumns of the result in registers, from
// panels of kBlockDepth x kBlockColumns of the right factor and kBlockRows x kBlockDepth of the
// left one, converted to fp64 as they are needed (128 KiB each: both fit a core's L2 cache, and no
// whole tensor is ever held in fp64).
constexpr std::int64_t kTileRows = 4;
constexpr std::int64_t kTileColumns = 4;
constexpr std::int64_t kBlockRows = 64;
constexpr std::int64_t kBlockColumns = 64;
constexpr std::int64_t kBlockDepth = 256;

// Columns of one product, whose absolute values are multiplied alongside (see Reference).
struct Product {
  std::vector<double> value;
  std::vector<double> magnitude;
};

// A block of either factor in fp64, zero beyond the tensor's edge: `outer` is the dimension that
// tiles run along, in groups of `Tile`, so that a tile's operands lie together.
template <std::int64_t Outer, std::int64_t Tile>
struct Block {
  std::array<double, static_cast<std::size_t>(Outer* kBlockDepth)> data;

  double* tile(std::int64_t outer) { return data.data() + outer * kBlockDepth; }
  const double* tile(std::int64_t outer) const { return data.data() + outer * kBlockDepth; }

  // element(outer, depth) for all of `outers` x `depths`.
  template <typename Element>
  void load(std::int64_t outers, std::int64_t depths, Element element) {
    for (std::int64_t first = 0; first < outers; first += Tile) {
      double* const out = tile(first);
      for (std::int64_t depth = 0; depth < depths; ++depth) {
        for (std::int64_t i = 0; i < Tile; ++i) {
          out[depth * Tile + i] = first + i < outers ? element(first + i, depth) : 0;
        }
      }
    }
  }

  void make_absolute(std::int64_t outers, std::int64_t depths) {
    const std::int64_t padded = (outers + Tile - 1) / Tile * Tile;
    for (std::int64_t first = 0; first < padded; first += Tile) {
      double* const out = tile(first);
      std::transform(out, out + depths * Tile, out, [](double x) { return std::abs(x); });
    }
  }
};

using LeftBlock = Block<kBlockRows, kTileRows>;
using RightBlock = Block<kBlockColumns, kTileColumns>;
using ResultBlock = std::array<double, kBlockRows * kBlockColumns>;

// result[rows, columns] += left[rows, depths] * right[depths, columns], depth by depth.
void multiply(const LeftBlock& left, const RightBlock& right, std::int64_t rows,
              std::int64_t columns, std::int64_t depths, ResultBlock& result) {
  for (std::int64_t column = 0; column < columns; column += kTileColumns) {
    for (std::int64_t row = 0; row < rows; row += kTileRows) {
      const double* a = left.tile(row);
      const double* b = right.tile(column);
      double sums[kTileRows][kTileColumns] = {};
      for (std::int64_t depth = 0; depth < depths; ++depth) {
        for (std::int64_t i = 0; i < kTileRows; ++i) {
          for (std::int64_t j = 0; j < kTileColumns; ++j) {
            sums[i][j] += a[i] * b[j];
          }
        }
        a += kTileRows;
        b += kTileColumns;
      }
      for (std::int64_t i = 0; i < kTileRows; ++i) {
        for (std::int64_t j = 0; j < kTileColumns; ++j) {
          result[(row + i) * kBlockColumns + column + j] += sums[i][j];
        }
      }
    }
  }
}

// left (rows, depth) times right (depth, columns), and the same of magnitudes. `left_value` and
// `left_magnitude` give the left factor, `right` the right one, all by (row, column). The order of
// every sum depends on the shape alone, not on the threads.
template <typename LeftValue, typename LeftMagnitude, typename Right>
Product multiplied(std::int64_t rows, std::int64_t depth, std::int64_t columns,
                   LeftValue left_value, LeftMagnitude left_magnitude, Right right) {
  Product product{.value = std::vector<double>(static_cast<std::size_t>(rows * columns)),
                  .magnitude = std::vector<double>(static_cast<std::size_t>(rows * columns))};
#pragma omp parallel
  {
    // Too large for a thread's stack.
    const auto left_block = std::make_unique<LeftBlock>();
    const auto right_block = std::make_unique<RightBlock>();
    const auto value = std::make_unique<ResultBlock>();
    const auto magnitude = std::make_unique<ResultBlock>();
#pragma omp for collapse(2) schedule(dynamic)
    for (std::int64_t row = 0; row < rows; row += kBlockRows) {
      for (std::int64_t column = 0; column < columns; column += kBlockColumns) {
        const std::int64_t block_rows = std::min(kBlockRows, rows - row);
        const std::int64_t block_columns = std::min(kBlockColumns, columns - column);
        value->fill(0);
        magnitude->fill(0);
        for (std::int64_t first = 0; first < depth; first += kBlockDepth) {
          const std::int64_t depths = std::min(kBlockDepth, depth - first);
          left_block->load(block_rows, depths, [&](std::int64_t i, std::int64_t k) {
            return left_value(row + i, first + k);
          });
          right_block->load(block_columns, depths, [&](std::int64_t j, std::int64_t k) {
            return right(first + k, column + j);
          });
          multiply(*left_block, *right_block, block_rows, block_columns, depths, *value);
          left_block->load(block_rows, depths, [&](std::int64_t i, std::int64_t k) {
            return left_magnitude(row + i, first + k);
          });
          right_block->make_absolute(block_columns, depths);
          multiply(*left_block, *right_block, block_rows, block_columns, depths, *magnitude);
        }
        for (std::int64_t i = 0; i < block_rows; ++i) {
          const std::int64_t from = i * kBlockColumns;
          const std::int64_t to = (row + i) * columns + column;
          std::copy_n(value->begin() + from, block_columns, product.value.begin() + to);
          std::copy_n(magnitude->begin() + from, block_columns, product.magnitude.begin() + to);
        }
      }
    }
  }
  return product;
}

template <typename T>
const T* elements(const std::vector<std::byte>& tensor) {
  return reinterpret_cast<const T*>(tensor.data());
}

template <typename T>
Reference reference_of(const Inputs& inputs, std::span<const std::int64_t> rows) {
  const Problem& problem = inputs.problem;
  const auto count = static_cast<std::int64_t>(rows.size());
  const std::int64_t model_dim = problem.model_dim;
  const std::int64_t rank = problem.rank;
  const std::int64_t columns = problem.columns();
  const T* const hidden = elements<T>(inputs.hidden);
  const T* const w_down = elements<T>(inputs.w_down);
  const T* const w_up_k = elements<T>(inputs.w_up_k);
  const T* const w_up_v = elements<T>(inputs.w_up_v);

  const auto hidden_at = [&](std::int64_t i, std::int64_t k) {
    return static_cast<double>(to_float(hidden[rows[i] * model_dim + k]));
  };
  const Product latent = multiplied(
      count, model_dim, rank, hidden_at,
      [&](std::int64_t i, std::int64_t k) { return std::abs(hidden_at(i, k)); },
      [&](std::int64_t k, std::int64_t j) {
        return static_cast<double>(to_float(w_down[k * rank + j]));
      });

  // Both up-projections as one: the columns of k, then those of v.
  Product kv = multiplied(
      count, rank, 2 * columns,
      [&](std::int64_t i, std::int64_t k) { return latent.value[i * rank + k]; },
      [&](std::int64_t i, std::int64_t k) { return latent.magnitude[i * rank + k]; },
      [&](std::int64_t k, std::int64_t j) {
        const std::int64_t row = k * columns;
        const T element = j < columns ? w_up_k[row + j] : w_up_v[row + j - columns];
        return static_cast<double>(to_float(element));
      });
  return {.rows = {rows.begin(), rows.end()},
          .value = std::move(kv.value),
          .magnitude = std::move(kv.magnitude)};
}

// A (rows, columns) tensor times several vectors, each vector's product a row of the result
// (vectors, rows). `Absolute` multiplies the absolute values of the tensor's elements.
template <typename T, bool Absolute>
std::vector<double> times_vectors(const std::vector<std::byte>& tensor, std::int64_t rows,
                                  std::int64_t columns, std::span<const double> vectors) {
  const T* const data = elements<T>(tensor);
  const auto count = static_cast<std::int64_t>(vectors.size()) / columns;
  std::vector<double> result(static_cast<std::size_t>(count * rows));
#pragma omp parallel for schedule(static)
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t v = 0; v < count; ++v) {
      const T* const a = data + row * columns;
      const double* const b = vectors.data() + v * columns;
      // Four sums hide the addition's latency.
      constexpr std::int64_t kSums = 4;
      std::array<double, kSums> sums{};
      for (std::int64_t i = 0; i < columns; ++i) {
        const double value = to_float(a[i]);
        sums[i % kSums] += (Absolute ? std::abs(value) : value) * b[i];
      }
      result[v * rows + row] = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    }
  }
  return result;
}

// hidden @ (w_down @ [w_up_k @ vectors[0], w_up_v @ vectors[1]]) as (T, 2).
template <typename T, bool Absolute>
std::vector<double> projected(const Inputs& inputs, std::span<const double> vectors) {
  const Problem& p = inputs.problem;
  const auto half = static_cast<std::size_t>(p.columns());
  std::vector<double> up =
      times_vectors<T, Absolute>(inputs.w_up_k, p.rank, p.columns(), vectors.first(half));
  const std::vector<double> up_v =
      times_vectors<T, Absolute>(inputs.w_up_v, p.rank, p.columns(), vectors.subspan(half));
  up.insert(up.end(), up_v.begin(), up_v.end());
  const std::vector<double> down =
      times_vectors<T, Absolute>(inputs.w_down, p.model_dim, p.rank, up);
  const std::vector<double> answer =
      times_vectors<T, Absolute>(inputs.hidden, p.rows(), p.model_dim, down);
  std::vector<double> by_row(answer.size());
  for (std::int64_t row = 0; row < p.rows(); ++row) {
    by_row[2 * row] = answer[row];
    by_row[2 * row + 1] = answer[p.rows() + row];
  }
  return by_row;
}

template <typename T>
Projection projection_of(const Inputs& inputs, std::vector<double> signs) {
  const std::vector<double> ones(signs.size(), 1);
  Projection projection{.signs = std::move(signs), .value = {}, .magnitude = {}};
  projection.value = projected<T, false>(inputs, projection.signs);
  projection.magnitude = projected<T, true>(inputs, ones);
  return projection;
}

}  // namespace

Reference reference_rows(const Inputs& inputs, std::span<const std::int64_t> rows) {
  switch (inputs.type) {
    case StoredType::kBf16:
      return reference_of<Bf16>(inputs, rows);
    case StoredType::kF16:
      return reference_of<F16>(inputs, rows);
    default:
      return reference_of<float>(inputs, rows);
  }
}

Projection project(const Inputs& inputs, std::uint64_t seed) {
  std::vector<double> signs(static_cast<std::size_t>(2 * inputs.problem.columns()));
  for (std::size_t i = 0; i < signs.size(); ++i) {
    signs[i] = draw(seed, Draw::kSigns, i)[0] & 1 ? 1 : -1;
  }
  switch (inputs.type) {
    case StoredType::kBf16:
      return projection_of<Bf16>(inputs, std::move(signs));
    case StoredType::kF16:
      return projection_of<F16>(inputs, std::move(signs));
    default:
      return projection_of<float>(inputs, std::move(signs));
  }
}

void negate(Reference& reference) {
  for (double& value : reference.value) {
    value = -value;
  }
}

void negate(Projection& projection) {
  for (double& value : projection.value) {
    value = -value;
  }
}

bool too_large_for_full_reference(const Problem& problem) {
  return 2 * problem.flops() > kMaxReferenceFlops ||
         2.0 * sizeof(double) *
                 (static_cast<double>(problem.kv_count()) +
                  static_cast<double>(problem.latent_count())) >
             kMaxReferenceBytes;
}

std::vector<std::int64_t> all_rows(const Problem& problem) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(problem.rows()));
  std::iota(rows.begin(), rows.end(), std::int64_t{0});
  return rows;
}

std::vector<std::int64_t> sample_rows(const Problem& problem, std::uint64_t seed) {
  const std::int64_t count = problem.rows();
  if (count <= kSampleRows) {
    return all_rows(problem);
  }
  // One row from each of kSampleRows - 2 equal parts of what lies between first and last.
  std::vector<std::int64_t> rows{0};
  constexpr std::int64_t kParts = kSampleRows - 2;
  for (std::int64_t part = 0; part < kParts; ++part) {
    const std::int64_t begin = 1 + (count - 2) * part / kParts;
    const std::int64_t end = 1 + (count - 2) * (part + 1) / kParts;
    const PhiloxBlock words = draw(seed, Draw::kRows, static_cast<std::uint64_t>(part));
    rows.push_back(begin + below(static_cast<std::uint32_t>(end - begin), words[0]));
  }
  rows.push_back(count - 1);
  return rows;
}

}  // namespace mla_bench
