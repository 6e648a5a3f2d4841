// The check of a whole output on the GPU that holds it, for problems too large for the CPU's fp64.
#pragma once

#include "check.hpp"
#include "executor.hpp"

namespace mla_bench {

// Executor::check_on_device for CUDA: `stream` is the executor's, its device is current. Needs at
// most about half a GiB of device memory beyond what the sampled rows take. Throws CudaError,
// OutOfMemoryError, or std::invalid_argument for a sample without rows.
Check check_on_cuda(Executor& executor, Stream stream, const Operands& operands,
                    const Reference& sample, const CheckContext& context);

}  // namespace mla_bench
