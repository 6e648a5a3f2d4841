// From a kernel and its launch shape to a Prepared: opt-in shared memory, the launch
// itself, and the reasons that every FMA variant shares for not running.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "mla_bench/cuda_check.hpp"
#include "mla_bench/variant.hpp"

namespace mla_bench::cuda {

__host__ __device__ constexpr std::int64_t ceil_div(std::int64_t value, std::int64_t by) {
  return (value + by - 1) / by;
}

__host__ __device__ constexpr std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return ceil_div(value, multiple) * multiple;
}

// The operator as a kernel sees it, in the words of Problem.
template <typename T>
struct Arguments {
  const T* hidden;  // (rows, model_dim)
  const T* w_down;  // (model_dim, rank)
  const T* w_up_k;  // (rank, columns)
  const T* w_up_v;  // (rank, columns)
  T* kv;            // (2, rows, columns)
  std::int64_t rows;
  std::int64_t model_dim;
  std::int64_t rank;
  std::int64_t columns;
};

template <typename T>
Arguments<T> arguments(const Problem& problem, const Operands& operands) {
  return {.hidden = static_cast<const T*>(operands.hidden),
          .w_down = static_cast<const T*>(operands.w_down),
          .w_up_k = static_cast<const T*>(operands.w_up_k),
          .w_up_v = static_cast<const T*>(operands.w_up_v),
          .kv = static_cast<T*>(operands.kv),
          .rows = problem.rows(),
          .model_dim = problem.model_dim,
          .rank = problem.rank,
          .columns = problem.columns()};
}

template <typename T>
using Kernel = void (*)(Arguments<T>);

// Grids have one dimension here: x holds 2^31 - 1 blocks, y and z only 65535.
struct LaunchShape {
  std::int64_t blocks = 1;
  int threads = 1;
  int cluster = 1;                // blocks
  std::int64_t shared_bytes = 0;  // dynamic, a block
};

inline constexpr std::int64_t kMaxBlocks = std::numeric_limits<std::int32_t>::max();

// The cluster's size is an attribute, which must outlive the launch: hence the object.
class LaunchConfig {
 public:
  LaunchConfig(const LaunchShape& shape, Stream stream) {
    config_.gridDim = dim3(static_cast<unsigned>(shape.blocks));
    config_.blockDim = dim3(static_cast<unsigned>(shape.threads));
    config_.dynamicSmemBytes = static_cast<std::size_t>(shape.shared_bytes);
    config_.stream = static_cast<cudaStream_t>(stream);
    cluster_.id = cudaLaunchAttributeClusterDimension;
    cluster_.val.clusterDim.x = static_cast<unsigned>(shape.cluster);
    cluster_.val.clusterDim.y = 1;
    cluster_.val.clusterDim.z = 1;
    config_.attrs = &cluster_;
    config_.numAttrs = shape.cluster > 1 ? 1 : 0;
  }
  LaunchConfig(const LaunchConfig&) = delete;
  LaunchConfig& operator=(const LaunchConfig&) = delete;

  const cudaLaunchConfig_t* get() const { return &config_; }

 private:
  cudaLaunchAttribute cluster_{};
  cudaLaunchConfig_t config_{};
};

// Without this a launch with more than 48 KiB of dynamic shared memory is an "invalid argument".
template <typename... Parameters>
void allow_shared_memory(void (*kernel)(Parameters...), std::int64_t bytes) {
  MLA_BENCH_CHECK(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                       cudaFuncAttributeMaxDynamicSharedMemorySize,
                                       static_cast<int>(bytes)));
}

template <typename... Parameters>
void launch_kernel(void (*kernel)(Parameters...), const LaunchShape& shape, Stream stream,
                   const Parameters&... parameters) {
  const LaunchConfig config(shape, stream);
  MLA_BENCH_CHECK(cudaLaunchKernelEx(config.get(), kernel, parameters...));
}

template <typename T>
Prepared prepare_kernel(Kernel<T> kernel, std::string choice, const LaunchShape& shape,
                        const Problem& problem) {
  allow_shared_memory(kernel, shape.shared_bytes);
  return {.choice = std::move(choice),
          .bind = [kernel, shape, problem](const Operands& operands) -> Launch {
            return [kernel, shape, args = arguments<T>(problem, operands)](Stream stream) {
              launch_kernel(kernel, shape, stream, args);
            };
          }};
}

inline Unit fma_unit(Precision) {
  return Unit::kFma;
}

// Of a variant that computes nothing twice.
inline double credited_flops(const Problem& problem) {
  return problem.flops();
}

inline std::int64_t no_workspace(const Problem&, Precision, const Device&) {
  return 0;
}

// The oldest architecture that anything of this directory is built for.
inline std::optional<std::string> why_not_so_old(const Device& device) {
  constexpr int kOldest = 80;
  if (device.sm < kOldest) {
    return "needs sm_" + std::to_string(kOldest) + " or newer, this device is sm_" +
           std::to_string(device.sm);
  }
  return std::nullopt;
}

// What keeps any plain FMA kernel of this directory from running.
inline std::optional<std::string> why_not_fma(Precision precision, const Device& device) {
  if (precision == Precision::kTf32) {
    return "multiplies with fp32 FMA, which has no TF32 form; use --precision fp32";
  }
  return why_not_so_old(device);
}

inline std::optional<std::string> why_not_blocks(double blocks) {
  if (blocks > static_cast<double>(kMaxBlocks)) {
    return "needs a grid of more than " + std::to_string(kMaxBlocks) + " blocks";
  }
  return std::nullopt;
}

}  // namespace mla_bench::cuda
