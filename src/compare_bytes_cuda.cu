#include <algorithm>
#include <cstdint>

#include "compare_bytes_cuda.hpp"
#include "mla_bench/cuda_check.hpp"

namespace mla_bench {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMostBlocks = 1024;

// By words of 16 bytes where both begin at one, and the rest by bytes.
__global__ void __launch_bounds__(kThreads)
    compare_kernel(const std::byte* a, const std::byte* b, std::int64_t words, std::int64_t bytes,
                   int* differ) {
  const std::int64_t first = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const std::int64_t stride = std::int64_t{gridDim.x} * kThreads;
  bool differs = false;
  for (std::int64_t i = first; i < words; i += stride) {
    const uint4 left = reinterpret_cast<const uint4*>(a)[i];
    const uint4 right = reinterpret_cast<const uint4*>(b)[i];
    differs |= left.x != right.x || left.y != right.y || left.z != right.z || left.w != right.w;
  }
  for (std::int64_t i = words * static_cast<std::int64_t>(sizeof(uint4)) + first; i < bytes;
       i += stride) {
    differs |= a[i] != b[i];
  }
  if (differs) {
    *differ = 1;  // whoever writes it writes the same
  }
}

bool begins_at_word(const std::byte* data) {
  return reinterpret_cast<std::uintptr_t>(data) % sizeof(uint4) == 0;
}

}  // namespace

void compare_bytes(Stream stream, std::span<const BytePair> pairs, int* differ) {
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  MLA_BENCH_CHECK(cudaMemsetAsync(differ, 0, sizeof *differ, cuda_stream));
  for (const BytePair& pair : pairs) {
    if (pair.bytes == 0) {
      continue;
    }
    const bool by_words = begins_at_word(pair.a) && begins_at_word(pair.b);
    const std::int64_t words = by_words ? pair.bytes / static_cast<std::int64_t>(sizeof(uint4)) : 0;
    const std::int64_t items = std::max<std::int64_t>(words, by_words ? 1 : pair.bytes);
    const std::int64_t blocks =
        std::clamp<std::int64_t>((items + kThreads - 1) / kThreads, 1, kMostBlocks);
    compare_kernel<<<static_cast<unsigned int>(blocks), kThreads, 0, cuda_stream>>>(
        pair.a, pair.b, words, pair.bytes, differ);
    MLA_BENCH_CHECK(cudaGetLastError());
  }
}

}  // namespace mla_bench
