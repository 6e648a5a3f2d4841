// The frozen launches of a GPU: see anchors.hpp before you change a byte of this file.
#include <cuda_runtime.h>

#include "anchors.hpp"
#include "mla_bench/cuda_check.hpp"

namespace mla_bench::cuda_anchors {
namespace {

constexpr int kThreads = 256;
constexpr int kBlocksPerSm = 8;
constexpr int kSteps = 4096;
constexpr int kChains = 8;

__global__ void __launch_bounds__(kThreads)
    anchor_copy_kernel(int4* __restrict__ to, const int4* __restrict__ from, std::int64_t vectors) {
  const std::int64_t threads = static_cast<std::int64_t>(gridDim.x) * kThreads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < vectors;
       i += threads) {
    to[i] = from[i];
  }
}

__global__ void __launch_bounds__(kThreads) anchor_fma_kernel(float factor, float* sink) {
  float chain[kChains];
  for (int i = 0; i < kChains; ++i) {
    chain[i] = factor + static_cast<float>(threadIdx.x + i);
  }
#pragma unroll 8
  for (int step = 0; step < kSteps; ++step) {
#pragma unroll
    for (int i = 0; i < kChains; ++i) {
      chain[i] = fmaf(chain[i], factor, 0.5f);
    }
  }
  float sum = 0;
  for (int i = 0; i < kChains; ++i) {
    sum += chain[i];
  }
  if (sum == 0.25f) {  // never, but the compiler cannot know
    *sink = sum;
  }
}

}  // namespace

Launch copy_launch(std::byte* to, const std::byte* from, const Device& device) {
  const auto blocks = static_cast<unsigned>(kBlocksPerSm * device.multiprocessors);
  constexpr auto kVector = static_cast<std::int64_t>(sizeof(int4));
  return [=](Stream stream) {
    anchor_copy_kernel<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
        reinterpret_cast<int4*>(to), reinterpret_cast<const int4*>(from), kBytes / kVector);
    MLA_BENCH_CHECK(cudaGetLastError());
  };
}

Launch fma_launch(const Device& device) {
  const auto blocks = static_cast<unsigned>(kBlocksPerSm * device.multiprocessors);
  return [blocks](Stream stream) {
    anchor_fma_kernel<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(0.999f, nullptr);
    MLA_BENCH_CHECK(cudaGetLastError());
  };
}

std::string_view source() {
  return MLA_BENCH_ANCHOR_SOURCE;
}

}  // namespace mla_bench::cuda_anchors
