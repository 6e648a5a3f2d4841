// Copies from global to shared memory that nobody waits for until they are needed, 16 bytes each.
#pragma once

#include <vector_types.h>

namespace mla_bench::cuda {

// What one access moves.
using Piece = uint4;

// One access for certain: nvcc may take a store of a Piece apart into its words.
__device__ inline void store_piece(void* to, const Piece& piece) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(piece.x), "r"(piece.y),
               "r"(piece.z), "r"(piece.w)
               : "memory");
}

// Starts the copy of a piece, or of zeros.
__device__ inline void copy_async(void* to, const void* from, bool is_valid) {
  const auto shared = static_cast<unsigned>(__cvta_generic_to_shared(to));
  const int bytes = is_valid ? static_cast<int>(sizeof(Piece)) : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(from), "r"(bytes)
               : "memory");
}

// The same of 4, 8 or 16 bytes, always.
template <int Bytes>
__device__ void copy_async(void* to, const void* from) {
  const auto shared = static_cast<unsigned>(__cvta_generic_to_shared(to));
  if constexpr (Bytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared), "l"(from) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(shared), "l"(from), "n"(Bytes)
                 : "memory");
  }
}

// What this thread has started since the last call is a group.
__device__ inline void close_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

// All but the last `Open` groups of this thread are there; for other threads, after a barrier.
template <int Open>
__device__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Open) : "memory");
}

}  // namespace mla_bench::cuda
