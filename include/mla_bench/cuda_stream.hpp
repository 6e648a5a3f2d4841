// The one stream on which a process works on a device. Only for translation units that see CUDA.
//
// One, because a process in which graphs have run on a second stream, however long ago and whether
// or not that stream still exists, takes 0.18 us longer for every launch on either: seen on an H200
// with driver 580, with empty kernels as with any. cudaGraphUpload() and
// cudaCtxResetPersistingL2Cache(), which work on streams of the driver's own, do the same.
#pragma once

#include <cuda_runtime_api.h>

#include <map>
#include <mutex>

#include "mla_bench/cuda_check.hpp"

namespace mla_bench {

// Of the current device; made at the first call and kept as long as the process. It has no implicit
// order with the default stream. Throws CudaError.
inline cudaStream_t process_stream() {
  static std::mutex mutex;
  static std::map<int, cudaStream_t> streams;
  int device = 0;
  MLA_BENCH_CHECK(cudaGetDevice(&device));
  const std::lock_guard lock(mutex);
  cudaStream_t& stream = streams[device];
  if (stream == nullptr) {
    MLA_BENCH_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  }
  return stream;
}

}  // namespace mla_bench
