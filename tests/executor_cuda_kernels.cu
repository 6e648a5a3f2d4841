#include "executor_cuda_kernels.hpp"

#include "mla_bench/cuda_check.hpp"

namespace mla_bench::test {
namespace {

__device__ std::uint64_t now_ns() {
  std::uint64_t ns = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  return ns;
}

// One thread: kernels of one stream follow each other, so no two of them append at once.
__global__ void append_kernel(Log* log, int id, std::uint64_t ns) {
  const std::uint64_t start = now_ns();
  const std::uint64_t place = log->count;
  if (place < Log::kCapacity) {
    log->start_ns[place] = start;
    log->id[place] = id;
  }
  log->count = place + 1;
  while (now_ns() - start < ns) {
  }
}

__global__ void idle_kernel() {}

}  // namespace

Launch append(Log* log, int id, std::int64_t ns) {
  return [=](Stream stream) {
    append_kernel<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>(log, id,
                                                                  static_cast<std::uint64_t>(ns));
    MLA_BENCH_CHECK(cudaGetLastError());
  };
}

Launch append_twice(Log* log, int id, std::byte* scratch) {
  return [=](Stream stream) {
    MLA_BENCH_CHECK(cudaMemsetAsync(scratch, 0, 4, static_cast<cudaStream_t>(stream)));
    append(log, id)(stream);
    append(log, id)(stream);
  };
}

Launch append_on_default_stream(Log* log, int id) {
  return [=](Stream) { append(log, id)(nullptr); };
}

Launch refused() {
  return [](Stream stream) {
    constexpr int kTooManyThreads = 4096;
    idle_kernel<<<1, kTooManyThreads, 0, static_cast<cudaStream_t>(stream)>>>();
  };
}

}  // namespace mla_bench::test
