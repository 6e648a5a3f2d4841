// Whether stretches of a GPU's memory hold the same bytes, found there: the operand sets of a cold
// ring are hundreds of megabytes, which would take longer to fetch than to time.
#pragma once

#include <span>

#include "executor.hpp"

namespace mla_bench {

// Sets the `int` at `differ`, in device memory, to 1 where the two of any pair differ and to 0
// where none do. Enqueues on `stream`, whose device is current, and does not wait. Throws
// CudaError.
void compare_bytes(Stream stream, std::span<const BytePair> pairs, int* differ);

}  // namespace mla_bench
