// What a cluster of blocks shares: its barrier, and stores into each other's shared memory.
// Clusters exist from sm_90; before, a block is a cluster of one, and these are what that leaves of
// them.
#pragma once

#include "cuda/element.cuh"

namespace mla_bench::cuda {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

__device__ inline int cluster_size() {
  int size;
  asm("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(size));
  return size;
}

__device__ inline int rank_in_cluster() {
  int rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// Orders nothing: says only that this thread has come so far.
__device__ inline void cluster_arrive_relaxed() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}

// What this thread has stored will be seen by those who wait.
__device__ inline void cluster_arrive() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

__device__ inline void cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// Stores to the place that `target` has in the shared memory of the cluster's block `rank`.
__device__ inline void store_to_rank(Quad<float>* target, int rank, const Quad<float>& quad) {
  const unsigned here = static_cast<unsigned>(__cvta_generic_to_shared(target));
  unsigned there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(rank));
  asm volatile("st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(there), "f"(quad.at[0]),
               "f"(quad.at[1]), "f"(quad.at[2]), "f"(quad.at[3])
               : "memory");
}

#else

__device__ inline int cluster_size() {
  return 1;
}
__device__ inline int rank_in_cluster() {
  return 0;
}
__device__ inline void cluster_arrive_relaxed() {}
__device__ inline void cluster_arrive() {}
__device__ inline void cluster_wait() {
  __syncthreads();
}
__device__ inline void store_to_rank(Quad<float>* target, int, const Quad<float>& quad) {
  *target = quad;
}

#endif

}  // namespace mla_bench::cuda
