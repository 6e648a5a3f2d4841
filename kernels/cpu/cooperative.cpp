// Fused: each core takes a panel of rows, makes the panel's latent once into a buffer of its own,
// and makes k and v from it.
//
//               Dm                      R                      H*D            H*D
//          +-----------+             +------+               +-------+      +-------+
//   panel  |  hidden   | @ w_down =  |latent| @ w_up_k, v = |   k   |      |   v   |
//          +-----------+             +------+               +-------+      +-------+
//
//   both products by 256 terms of the sum at a time, in register tiles of 4 x 24 (AVX2, or
//   6 x 16 where a strip of 24 columns would not fit L1), 8 x 48 (AVX-512) or 6 x 8 (elsewhere):
//
//                 tile columns
//             +-----------------+
//         256 | strip of weights|  stays in L1 while all rows of the panel pass by it
//       256   +-----------------+
//     +------+-----------------+
//     | rows |  sums in regs   |
//     +------+-----------------+
//
// Needs nothing: ragged edges take smaller tiles and strips filled up with zeros. Limited by the
// multiply-adders; below some 100 rows a core by copying the weights into strips, and below
// threads x 6 rows by idle cores. Improves on `tiled`: the latent is made once, sums live in
// registers, and the instruction set is the processor's, not the baseline's.
#include <omp.h>

#include <algorithm>
#include <memory>
#include <new>
#include <type_traits>

#include "cpu/operands.hpp"
#include "cpu/register_tile.hpp"

namespace mla_bench::cpu {
namespace {

// Terms of a sum that are taken at a time: a strip of weights this deep fills at most three
// quarters of a small L1 cache (32 KiB), or half where it is of deep_vectors.
constexpr std::int64_t kDepth = 256;
// Terms up to which strips may be of the widest tile where they lie: its edges are not those of
// cache lines, so that a deep one fills L1 with its neighbours' columns.
constexpr std::int64_t kWideInPlaceDepth = 160;
// Columns that are copied together, in strips of deep_vectors: rows of weights are read in runs of
// some cache lines.
constexpr std::int64_t kStrips = 4;
// Rows of weights to fetch ahead while copying: they lie too far apart for the hardware to guess.
constexpr std::int64_t kPrefetchRows = 12;
// Most rows of a panel: enough to hide the copying of weights behind the products, and few enough
// that the panel's latent and its block of hidden stay in L2 or near it. A multiple of all tiles.
constexpr std::int64_t kPanelRows = 264;
// Weights that the register tile reads where they lie: half of a small L2 cache (256 KiB). Beyond,
// rows far apart would chase each other out of the cache.
constexpr std::int64_t kInPlaceFloats = 32 * 1024;

constexpr std::int64_t kCacheLine = 64;
constexpr std::int64_t kLineFloats = kCacheLine / std::int64_t{sizeof(float)};
constexpr auto kAlignment = static_cast<std::align_val_t>(kCacheLine);

// How a problem is cut, and where a thread's buffers lie in its workspace, in floats.
struct Plan {
  Problem problem;
  InstructionSet set;
  int threads = 1;
  std::int64_t panel_rows = 0;
  std::int64_t block_columns = 0;  // of kStrips deep strips
  std::int64_t latent_stride = 0;  // rank in whole vectors, which tiles always write
  std::int64_t hidden = 0;         // (panel_rows, kDepth), for a block of hidden as fp32
  std::int64_t strips = 0;         // (kDepth, block_columns), for weights
  std::int64_t output = 0;         // (panel_rows, block_columns), for k or v as fp32
  std::int64_t thread_floats = 0;  // of all; the latent (panel_rows, latent_stride) lies at 0
};

Plan make_plan(const Problem& problem, int threads) {
  Plan plan{.problem = problem, .set = usable_instruction_sets().front()};
  const std::int64_t rows = problem.rows();

  // Equal panels of whole tiles, as many for each thread.
  const std::int64_t panels = threads * ceil_divide(rows, threads * kPanelRows);
  plan.panel_rows = round_up(ceil_divide(rows, panels), plan.set.rows);
  plan.threads =
      static_cast<int>(std::min<std::int64_t>(threads, ceil_divide(rows, plan.panel_rows)));

  plan.block_columns = kStrips * plan.set.deep_vectors * plan.set.lanes;
  plan.latent_stride = round_up(problem.rank, plan.set.lanes);
  plan.hidden = round_up(plan.panel_rows * plan.latent_stride, kLineFloats);
  plan.strips = plan.hidden + plan.panel_rows * kDepth;
  plan.output = plan.strips + kDepth * plan.block_columns;
  plan.thread_floats = round_up(plan.output + plan.panel_rows * plan.block_columns, kLineFloats);
  return plan;
}

// A row-major matrix, or a part of one: its first element, and the distance of two rows.
template <typename T>
struct Matrix {
  T* first;
  std::int64_t stride;

  T* at(std::int64_t row, std::int64_t column) const { return first + row * stride + column; }
  Matrix from(std::int64_t row, std::int64_t column) const { return {at(row, column), stride}; }
  operator Matrix<const T>() const { return {first, stride}; }
};

// Converts `columns` elements to fp32 and fills up with zeros to `width`. In groups of a fixed
// size, which become vectors without a loop's preparations.
template <typename T>
void convert(const T* source, std::int64_t columns, float* target, std::int64_t width) {
  constexpr std::int64_t kGroup = 8;
  std::int64_t j = 0;
  for (; j + kGroup <= columns; j += kGroup) {
    for (std::int64_t i = 0; i < kGroup; ++i) {
      target[j + i] = to_float(source[j + i]);
    }
  }
  for (; j < columns; ++j) {
    target[j] = to_float(source[j]);
  }
  std::fill(target + j, target + width, 0.0f);
}

// (rows, columns) of `source` as fp32: where they lie if they are, else copied to `buffer`.
template <typename T>
Matrix<const float> as_float(Matrix<const T> source, std::int64_t rows, std::int64_t columns,
                             float* buffer) {
  if constexpr (std::is_same_v<T, float>) {
    return source;
  } else {
    for (std::int64_t i = 0; i < rows; ++i) {
      convert(source.at(i, 0), columns, buffer + i * columns, columns);
    }
    return {buffer, columns};
  }
}

// Weights as the register tile takes them: in strips of up to `most_vectors`, which are parts of
// the rows where they lie, or else copies, each contiguous and after the other.
struct Strips {
  const float* first;
  std::int64_t depth;
  std::int64_t stride;  // of the rows where they lie; 0 for copies
  std::int64_t most_vectors;

  // Of the next strip, where so many are left: rather two alike than a wide one and a single
  // vector, which makes too few chains.
  std::int64_t next_vectors(std::int64_t left) const {
    return left == most_vectors + 1 ? ceil_divide(left, 2) : std::min(left, most_vectors);
  }
  std::int64_t offset(std::int64_t column) const { return stride != 0 ? column : column * depth; }
  std::int64_t stride_of(std::int64_t columns) const { return stride != 0 ? stride : columns; }
};

// (depth, columns) of `weights`, at most a block: where they lie if that serves, else copied to
// `buffer`, row by row over all strips.
template <typename T>
Strips make_strips(const InstructionSet& set, Matrix<const T> weights, std::int64_t depth,
                   std::int64_t columns, float* buffer) {
  if constexpr (std::is_same_v<T, float>) {
    if (columns % set.lanes == 0 && depth * weights.stride <= kInPlaceFloats) {
      return {.first = weights.first,
              .depth = depth,
              .stride = weights.stride,
              .most_vectors = depth <= kWideInPlaceDepth ? set.vectors : set.deep_vectors};
    }
  }
  const Strips strips{.first = buffer, .depth = depth, .stride = 0, .most_vectors = set.vectors};
  const std::int64_t all_vectors = ceil_divide(columns, set.lanes);
  for (std::int64_t k = 0; k < depth; ++k) {
    const T* ahead = weights.at(std::min(k + kPrefetchRows, depth - 1), 0);
    for (std::int64_t j = 0; j < columns; j += kCacheLine / std::int64_t{sizeof(T)}) {
      __builtin_prefetch(ahead + j);
    }
    for (std::int64_t vector = 0; vector < all_vectors;) {
      const std::int64_t vectors = strips.next_vectors(all_vectors - vector);
      const std::int64_t column = vector * set.lanes;
      const std::int64_t width = vectors * set.lanes;
      convert(weights.at(k, column), std::min(width, columns - column),
              buffer + strips.offset(column) + k * width, width);
      vector += vectors;
    }
  }
  return strips;
}

// c (rows, columns) = a (rows, depth) @ b (depth, columns), or += where `accumulate`. Writes whole
// vectors of c.
void multiply(const InstructionSet& set, std::int64_t rows, std::int64_t columns,
              Matrix<const float> a, const Strips& b, Matrix<float> c, bool accumulate) {
  const std::int64_t all_vectors = ceil_divide(columns, set.lanes);
  for (std::int64_t vector = 0; vector < all_vectors;) {
    const std::int64_t vectors = b.next_vectors(all_vectors - vector);
    const std::int64_t column = vector * set.lanes;
    const auto pass_by = [&](std::int64_t row, std::int64_t count, std::int64_t height) {
      const TileFunction tiles = set.function(height, vectors);
      tiles({.rows = count,
             .depth = b.depth,
             .a = a.at(row, 0),
             .a_stride = a.stride,
             .b = b.first + b.offset(column),
             .b_stride = b.stride_of(vectors * set.lanes),
             .c = c.at(row, column),
             .c_stride = c.stride,
             .accumulate = accumulate});
    };
    const std::int64_t tile_rows = set.rows_of(vectors);
    const std::int64_t rest = rows % tile_rows;
    pass_by(0, rows - rest, tile_rows);
    if (rest > 0) {
      pass_by(rows - rest, rest, rest);
    }
    vector += vectors;
  }
}

// latent (rows, rank) = hidden (rows, model_dim) @ w_down.
template <typename T>
void make_latent(const Plan& plan, std::int64_t rows, Matrix<const T> hidden,
                 Matrix<const T> w_down, float* workspace, Matrix<float> latent) {
  for (std::int64_t d = 0; d < plan.problem.model_dim; d += kDepth) {
    const std::int64_t depth = std::min(kDepth, plan.problem.model_dim - d);
    const Matrix<const float> block =
        as_float(hidden.from(0, d), rows, depth, workspace + plan.hidden);
    for (std::int64_t r = 0; r < plan.problem.rank; r += plan.block_columns) {
      const std::int64_t columns = std::min(plan.block_columns, plan.problem.rank - r);
      const Strips strips =
          make_strips(plan.set, w_down.from(d, r), depth, columns, workspace + plan.strips);
      multiply(plan.set, rows, columns, block, strips, latent.from(0, r), d > 0);
    }
  }
}

// out (rows, columns of k) = latent (rows, rank) @ w_up.
template <typename T>
void make_output(const Plan& plan, std::int64_t rows, Matrix<const float> latent,
                 Matrix<const T> w_up, float* workspace, Matrix<T> out) {
  const std::int64_t rank = plan.problem.rank;
  for (std::int64_t column = 0; column < plan.problem.columns(); column += plan.block_columns) {
    const std::int64_t columns = std::min(plan.block_columns, plan.problem.columns() - column);
    const auto sum_into = [&](Matrix<float> sums) {
      for (std::int64_t r = 0; r < rank; r += kDepth) {
        const std::int64_t depth = std::min(kDepth, rank - r);
        const Strips strips =
            make_strips(plan.set, w_up.from(r, column), depth, columns, workspace + plan.strips);
        multiply(plan.set, rows, columns, latent.from(0, r), strips, sums, r > 0);
      }
    };
    if constexpr (std::is_same_v<T, float>) {
      if (columns % plan.set.lanes == 0) {
        sum_into(out.from(0, column));
        continue;
      }
    }
    const Matrix<float> sums{workspace + plan.output, plan.block_columns};
    sum_into(sums);
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < columns; ++j) {
        *out.at(i, column + j) = from_float<T>(*sums.at(i, j));
      }
    }
  }
}

template <typename T>
void run_panel(const Plan& plan, const TypedOperands<T>& operands, std::int64_t first_row,
               float* workspace) {
  const Problem& problem = plan.problem;
  const std::int64_t rows = std::min(plan.panel_rows, problem.rows() - first_row);
  const std::int64_t columns = problem.columns();
  const Matrix<const T> hidden{operands.hidden, problem.model_dim};
  const Matrix<float> latent{workspace, plan.latent_stride};
  make_latent(plan, rows, hidden.from(first_row, 0), {operands.w_down, problem.rank}, workspace,
              latent);
  for (int half = 0; half < kHalves; ++half) {
    const Matrix<T> out{operands.kv + (half * problem.rows() + first_row) * columns, columns};
    make_output<T>(plan, rows, latent, {operands.w_up[half], columns}, workspace, out);
  }
}

// A panel's sums do not depend on where panels begin, so any thread count gives the same bits.
template <typename T>
void run(const Plan& plan, float* workspace, const TypedOperands<T>& operands) {
#pragma omp parallel num_threads(plan.threads)
  {
    float* const own = workspace + omp_get_thread_num() * plan.thread_floats;
#pragma omp for schedule(static) nowait
    for (std::int64_t row = 0; row < plan.problem.rows(); row += plan.panel_rows) {
      run_panel(plan, operands, row, own);
    }
  }
}

// Columns are made in whole vectors, zeros included.
double executed_flops(const Problem& problem) {
  const std::int64_t lanes = usable_instruction_sets().front().lanes;
  const auto rank = static_cast<double>(problem.rank);
  const auto down =
      static_cast<double>(problem.model_dim) * static_cast<double>(round_up(problem.rank, lanes));
  const auto up = kHalves * rank * static_cast<double>(round_up(problem.columns(), lanes));
  return 2.0 * static_cast<double>(problem.rows()) * (down + up);
}

std::int64_t bytes_of_workspace(const Plan& plan) {
  return plan.threads * plan.thread_floats * std::int64_t{sizeof(float)};
}

std::int64_t workspace_bytes(const Problem& problem, Precision, const Device& device) {
  return bytes_of_workspace(make_plan(problem, device.threads));
}

Prepared prepare(const Problem& problem, Precision precision, const Device& device) {
  const Plan plan = make_plan(problem, device.threads);
  const auto bytes = static_cast<std::size_t>(bytes_of_workspace(plan));
  // Not touched here: each thread's part comes to lie near the thread that first writes it.
  const std::shared_ptr<float> workspace(
      static_cast<float*>(::operator new(bytes, kAlignment)),
      [](float* memory) { ::operator delete(memory, kAlignment); });
  return {.choice = std::string(plan.set.name) + ", register tiles of " +
                    std::to_string(plan.set.sums) + " vectors, " + std::to_string(plan.panel_rows) +
                    "-row panels, " + counted(plan.threads, "thread"),
          .bind = bind_typed(precision, [plan, workspace](const auto& operands) {
            run(plan, workspace.get(), operands);
          })};
}

}  // namespace

extern const Variant cooperative;
const Variant cooperative{
    .name = "cooperative",
    .summary = "each core makes the latent of a panel of rows once, and k and v from it",
    .backend = Backend::kCpu,
    .unit = fma_unit,
    .executed_flops = executed_flops,
    .workspace_bytes = workspace_bytes,
    .why_not = why_not_tf32,
    .prepare = prepare};

}  // namespace mla_bench::cpu
