// Device memory that a Prepared owns: workspaces, and operands to search an algorithm with.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include "mla_bench/cuda_check.hpp"

namespace mla_bench::cuda {

// Shared, because launches are copied about and each keeps what it uses.
using DeviceMemory = std::shared_ptr<std::byte>;

// `bytes` of the current device, aligned to 256. Throws std::bad_alloc where there are not so many.
inline DeviceMemory device_memory(std::int64_t bytes) {
  void* data = nullptr;
  const cudaError_t error = cudaMalloc(&data, static_cast<std::size_t>(bytes));
  if (error == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());
    throw std::bad_alloc();
  }
  MLA_BENCH_CHECK(error);
  return {static_cast<std::byte*>(data), [](std::byte* owned) {
            if (cudaFree(owned) != cudaSuccess) {
              static_cast<void>(cudaGetLastError());
            }
          }};
}

}  // namespace mla_bench::cuda
