// The answer in fp64 on the GPU, by the plainest tiled product that is fast enough, and every
// element of an output compared with it on the spot.
//
//   1. latent (rows, R) = hidden @ w_down             as pairs: the value, and its magnitude, the
//   same
//   2. kv (2, rows, columns) = latent @ w_up_k, w_up_v  product with every operand's absolute value
//
// Each block takes tiles of 64 x 64 in turn, each of its threads 4 x 4 elements of a tile, which
// stay in registers: the answer itself is never stored but for the sampled rows.
#include <algorithm>
#include <stdexcept>
#include <utility>

#include "check_cuda.hpp"
#include "compare_element.hpp"
#include "mla_bench/cuda_check.hpp"
#include "mla_bench/float16.hpp"

namespace mla_bench {
namespace {

constexpr int kTile = 64;   // rows and columns of a block's tile
constexpr int kDepth = 16;  // of a step along the inner dimension
constexpr int kSide = 16;   // threads along a tile's rows, and along its columns
constexpr int kThreads = kSide * kSide;
constexpr int kPerThread = kTile / kSide;  // rows and columns of a thread, kSide apart
constexpr int kBlocksPerMultiprocessor = 2;

static_assert(kTile * kDepth % kThreads == 0, "every thread must load equally many elements");

// A value of the fp64 answer and what its rounding errors scale with.
struct Pair {
  double value = 0;
  double magnitude = 0;
};

// Elements of the left operand of a product, (rows, depth) in the stored type.
template <typename T>
struct StoredRows {
  const T* data;

  __device__ Pair operator()(std::int64_t index) const {
    const double value = to_float(data[index]);
    return {value, absolute_value(value)};
  }
};

// The same, where they are pairs already.
struct PairRows {
  const Pair* data;

  __device__ Pair operator()(std::int64_t index) const { return data[index]; }
};

// One product of the two: left (rows, depth) times right (depth, columns).
struct Extent {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t depth = 0;

  constexpr std::int64_t row_tiles() const { return (rows + kTile - 1) / kTile; }
  constexpr std::int64_t column_tiles() const { return (columns + kTile - 1) / kTile; }
  constexpr std::int64_t tiles() const { return row_tiles() * column_tiles(); }
};

// First row and column of a tile.
struct Corner {
  std::int64_t row;
  std::int64_t column;
};

__device__ Corner corner_of(std::int64_t tile, const Extent& extent) {
  return {tile / extent.column_tiles() * kTile, tile % extent.column_tiles() * kTile};
}

// Elements of this thread: row threadIdx.y + i * kSide and column threadIdx.x + j * kSide of the
// tile.
struct Sums {
  Pair at[kPerThread][kPerThread];
};

// The tile's part of left @ right. Elements outside of either operand count as zero.
template <typename Left, typename T>
__device__ Sums product_tile(const Left& left, const T* right, const Extent& extent,
                             const Corner& corner) {
  // The row's padding spreads a column over the banks while it is stored.
  __shared__ double left_value[kDepth][kTile + 1];
  __shared__ double left_magnitude[kDepth][kTile + 1];
  __shared__ double right_value[kDepth][kTile];
  const int thread = static_cast<int>(threadIdx.y * kSide + threadIdx.x);
  Sums sums;
  for (std::int64_t begin = 0; begin < extent.depth; begin += kDepth) {
    for (int element = thread; element < kTile * kDepth; element += kThreads) {
      const int r = element / kDepth;
      const int d = element % kDepth;
      const std::int64_t row = corner.row + r;
      const bool inside = row < extent.rows && begin + d < extent.depth;
      const Pair pair = inside ? left(row * extent.depth + begin + d) : Pair{};
      left_value[d][r] = pair.value;
      left_magnitude[d][r] = pair.magnitude;
    }
    for (int element = thread; element < kTile * kDepth; element += kThreads) {
      const int d = element / kTile;
      const int c = element % kTile;
      const std::int64_t column = corner.column + c;
      const bool inside = column < extent.columns && begin + d < extent.depth;
      right_value[d][c] = inside ? to_float(right[(begin + d) * extent.columns + column]) : 0.0f;
    }
    __syncthreads();  // both parts are stored before any thread reads them

    for (int d = 0; d < kDepth; ++d) {
      double weights[kPerThread];
#pragma unroll
      for (int j = 0; j < kPerThread; ++j) {
        weights[j] = right_value[d][threadIdx.x + j * kSide];
      }
#pragma unroll
      for (int i = 0; i < kPerThread; ++i) {
        const double value = left_value[d][threadIdx.y + i * kSide];
        const double magnitude = left_magnitude[d][threadIdx.y + i * kSide];
#pragma unroll
        for (int j = 0; j < kPerThread; ++j) {
          Pair& sum = sums.at[i][j];
          sum.value = fma(value, weights[j], sum.value);
          sum.magnitude = fma(magnitude, fabs(weights[j]), sum.magnitude);
        }
      }
    }
    __syncthreads();  // all reads are done before the parts are refilled
  }
  return sums;
}

template <typename T>
__global__ void __launch_bounds__(kThreads, kBlocksPerMultiprocessor)
    latent_kernel(const T* hidden, const T* w_down, Extent extent, Pair* latent) {
  for (std::int64_t tile = blockIdx.x; tile < extent.tiles(); tile += gridDim.x) {
    const Corner corner = corner_of(tile, extent);
    const Sums sums = product_tile(StoredRows<T>{hidden}, w_down, extent, corner);
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
#pragma unroll
      for (int j = 0; j < kPerThread; ++j) {
        const std::int64_t row = corner.row + threadIdx.y + i * kSide;
        const std::int64_t column = corner.column + threadIdx.x + j * kSide;
        if (row < extent.rows && column < extent.columns) {
          latent[row * extent.columns + column] = sums.at[i][j];
        }
      }
    }
  }
}

// What the second product is compared with, for rows first_row .. first_row + extent.rows - 1.
template <typename T>
struct Compared {
  const Pair* latent;      // (extent.rows, R)
  const T* w_up_k;         // (R, columns)
  const T* w_up_v;         // (R, columns)
  const T* kv;             // (2, total_rows, columns)
  const double* absolute;  // (2, columns)
  const int* sample_slot;  // (total_rows): the row's place in the sample, or -1
  Pair* sampled;           // (sample rows, 2, columns)
  Extent extent;           // of k, and the same of v
  std::int64_t first_row;
  std::int64_t total_rows;
  ElementRule rule;
};

// Not inlined: its 16 copies in each kernel would take longer to compile than all the rest.
template <typename T>
__device__ __noinline__ Comparison with_element(const Comparison& comparison, std::int64_t index,
                                                T stored, const Expected& expected,
                                                const ElementRule& rule) {
  return merge(comparison, compare_element(index, stored, expected, rule));
}

// Every thread merges the comparisons of its elements, in an order that the grid alone decides.
template <typename T>
__global__ void __launch_bounds__(kThreads, kBlocksPerMultiprocessor)
    compare_kernel(Compared<T> compared, Comparison* partials) {
  const Extent& extent = compared.extent;
  Comparison comparison;
  for (std::int64_t tile = blockIdx.x; tile < 2 * extent.tiles(); tile += gridDim.x) {
    const bool is_v = tile >= extent.tiles();
    const Corner corner = corner_of(is_v ? tile - extent.tiles() : tile, extent);
    const Sums sums = product_tile(PairRows{compared.latent},
                                   is_v ? compared.w_up_v : compared.w_up_k, extent, corner);
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
#pragma unroll
      for (int j = 0; j < kPerThread; ++j) {
        const std::int64_t row = corner.row + threadIdx.y + i * kSide;
        const std::int64_t column = corner.column + threadIdx.x + j * kSide;
        if (row >= extent.rows || column >= extent.columns) {
          continue;
        }
        const Pair sum = sums.at[i][j];
        const std::int64_t total_row = compared.first_row + row;
        const std::int64_t index =
            ((is_v ? compared.total_rows : 0) + total_row) * extent.columns + column;
        const Expected expected{sum.value, sum.magnitude,
                                compared.absolute[(is_v ? extent.columns : 0) + column]};
        comparison = with_element(comparison, index, compared.kv[index], expected, compared.rule);
        const int slot = compared.sample_slot[total_row];
        if (slot >= 0) {
          const std::int64_t sample_row = 2 * static_cast<std::int64_t>(slot) + (is_v ? 1 : 0);
          compared.sampled[sample_row * extent.columns + column] = sum;
        }
      }
    }
  }
  partials[blockIdx.x * kThreads + threadIdx.y * kSide + threadIdx.x] = comparison;
}

// Device memory that holds `count` elements of T.
template <typename T>
class DeviceArray {
 public:
  DeviceArray(Executor& executor, std::int64_t count)
      : executor_(executor),
        count_(count),
        memory_(executor.allocate(count * static_cast<std::int64_t>(sizeof(T)))) {}
  DeviceArray(Executor& executor, const std::vector<T>& values)
      : DeviceArray(executor, static_cast<std::int64_t>(values.size())) {
    executor_.upload(memory_.get(), std::as_bytes(std::span(values)));
  }

  T* data() const { return reinterpret_cast<T*>(memory_.get()); }

  std::vector<T> download() const {
    std::vector<T> values(static_cast<std::size_t>(count_));
    executor_.download(std::as_writable_bytes(std::span(values)), memory_.get());
    return values;
  }

 private:
  Executor& executor_;
  std::int64_t count_;
  Memory memory_;
};

struct DeviceAnswer {
  Comparison comparison;
  std::vector<Pair> sampled;  // (sample rows, 2, columns)
};

template <typename T>
DeviceAnswer compare_all(Executor& executor, cudaStream_t stream, const Operands& operands,
                         const std::vector<std::int64_t>& sample_rows, const Problem& problem,
                         const ErrorBound& bound) {
  // The latent's pairs are the only large buffer: rows go in chunks that keep it to this size.
  constexpr std::int64_t kLatentBytes = std::int64_t{256} << 20;
  const std::int64_t pair_bytes = static_cast<std::int64_t>(sizeof(Pair));
  const std::int64_t fitting_tiles = kLatentBytes / (pair_bytes * problem.rank * kTile);
  const std::int64_t chunk =
      std::min(problem.rows(), std::max<std::int64_t>(fitting_tiles, 1) * kTile);
  const int blocks = kBlocksPerMultiprocessor * executor.device().multiprocessors;

  std::vector<int> slots(static_cast<std::size_t>(problem.rows()), -1);
  for (std::size_t i = 0; i < sample_rows.size(); ++i) {
    slots.at(static_cast<std::size_t>(sample_rows[i])) = static_cast<int>(i);
  }
  const DeviceArray<int> sample_slot(executor, slots);
  const DeviceArray<double> absolute(executor, bound.absolute);
  const DeviceArray<Pair> latent(executor, chunk * problem.rank);
  const DeviceArray<Pair> sampled(
      executor, static_cast<std::int64_t>(sample_rows.size()) * 2 * problem.columns());
  const DeviceArray<Comparison> partials(executor, std::int64_t{blocks} * kThreads);

  DeviceAnswer answer;
  for (std::int64_t first = 0; first < problem.rows(); first += chunk) {
    const std::int64_t rows = std::min(chunk, problem.rows() - first);
    const dim3 threads(kSide, kSide);
    latent_kernel<<<blocks, threads, 0, stream>>>(
        static_cast<const T*>(operands.hidden) + first * problem.model_dim,
        static_cast<const T*>(operands.w_down),
        Extent{.rows = rows, .columns = problem.rank, .depth = problem.model_dim}, latent.data());
    MLA_BENCH_CHECK(cudaGetLastError());
    const Compared<T> compared{
        .latent = latent.data(),
        .w_up_k = static_cast<const T*>(operands.w_up_k),
        .w_up_v = static_cast<const T*>(operands.w_up_v),
        .kv = static_cast<const T*>(operands.kv),
        .absolute = absolute.data(),
        .sample_slot = sample_slot.data(),
        .sampled = sampled.data(),
        .extent = {.rows = rows, .columns = problem.columns(), .depth = problem.rank},
        .first_row = first,
        .total_rows = problem.rows(),
        .rule = element_rule(bound)};
    compare_kernel<<<blocks, threads, 0, stream>>>(compared, partials.data());
    MLA_BENCH_CHECK(cudaGetLastError());
    for (const Comparison& partial : partials.download()) {
      answer.comparison = merge(answer.comparison, partial);
    }
  }
  answer.sampled = sampled.download();
  return answer;
}

DeviceAnswer compare_all(Executor& executor, cudaStream_t stream, const Operands& operands,
                         const std::vector<std::int64_t>& sample_rows,
                         const CheckContext& context) {
  const Problem& problem = context.inputs.problem;
  const ErrorBound bound = error_bound(context.inputs, context.precision, context.unit);
  switch (context.inputs.type) {
    case StoredType::kBf16:
      return compare_all<Bf16>(executor, stream, operands, sample_rows, problem, bound);
    case StoredType::kF16:
      return compare_all<F16>(executor, stream, operands, sample_rows, problem, bound);
    default:
      return compare_all<float>(executor, stream, operands, sample_rows, problem, bound);
  }
}

// Why the device's fp64 rows are not the CPU's; nothing where they agree. Each side makes model_dim
// roundings in the latent and rank more in the product, and a few in its loops' ends.
std::optional<std::string> disagreement(const std::vector<Pair>& sampled, const Reference& sample,
                                        const Problem& problem) {
  constexpr double kUnitRoundoff = 0x1p-53;
  constexpr double kFewRoundings = 8;
  constexpr double kSides = 2;
  const double relative = kSides * kUnitRoundoff *
                          (static_cast<double>(problem.model_dim + problem.rank) + kFewRoundings);
  const auto agree = [](double device, double cpu, double tolerance) {
    const bool both_not_finite = !is_finite(device) && !is_finite(cpu);
    return both_not_finite || absolute_value(device - cpu) <= tolerance;
  };
  for (std::size_t i = 0; i < sampled.size(); ++i) {
    const Pair& device = sampled[i];
    const double tolerance = relative * sample.magnitude[i];
    if (!agree(device.value, sample.value[i], tolerance) ||
        !agree(device.magnitude, sample.magnitude[i], tolerance)) {
      const std::int64_t row = static_cast<std::int64_t>(i) / (2 * problem.columns());
      const std::int64_t column = static_cast<std::int64_t>(i) % (2 * problem.columns());
      const bool is_v = column >= problem.columns();
      return "the device's fp64 check disagrees with the CPU's reference in row " +
             std::to_string(sample.rows[static_cast<std::size_t>(row)]) + ", column " +
             std::to_string(is_v ? column - problem.columns() : column) + " of " +
             (is_v ? "v" : "k") + ": value " + std::to_string(device.value) + " and magnitude " +
             std::to_string(device.magnitude) + " against " + std::to_string(sample.value[i]) +
             " and " + std::to_string(sample.magnitude[i]);
    }
  }
  return std::nullopt;
}

}  // namespace

Check check_on_cuda(Executor& executor, Stream stream, const Operands& operands,
                    const Reference& sample, const CheckContext& context) {
  if (sample.rows.empty()) {
    throw std::invalid_argument("the device's check needs at least one row of the CPU's reference");
  }
  const DeviceAnswer answer =
      compare_all(executor, static_cast<cudaStream_t>(stream), operands, sample.rows, context);
  Check check = conclude(answer.comparison, CheckMethod::kDevice, context);
  const std::optional<std::string> reason =
      disagreement(answer.sampled, sample, context.inputs.problem);
  if (reason) {
    check.passed = false;
    check.reason = *reason;
  }
  return check;
}

}  // namespace mla_bench
