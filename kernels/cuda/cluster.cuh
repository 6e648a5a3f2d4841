// What a cluster of blocks shares: its barrier, and stores into each other's shared memory.
// Clusters exist from sm_90; before, a block is a cluster of one, and these are what that leaves of
// them.
#pragma once

#include "cuda/element.cuh"

namespace mla_bench::cuda {

// The first architecture with clusters, as 10 * major + minor.
inline constexpr int kFirstWithClusters = 90;

// On a kernel that is always launched with clusters of this many blocks: the compiler then leaves
// out what it would do were there none.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define MLA_BENCH_CLUSTER(blocks) __cluster_dims__(blocks, 1, 1)
#else
#define MLA_BENCH_CLUSTER(blocks)
#endif

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

__device__ inline unsigned shared_address(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

// The address, in the cluster's shared memory, of the place that `pointer` has in block `rank`.
__device__ inline unsigned address_in_block(int rank, const void* pointer) {
  unsigned there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;"
      : "=r"(there)
      : "r"(shared_address(pointer)), "r"(rank));
  return there;
}

// Stores to the place that `target` has in the shared memory of the cluster's block `rank`.
__device__ inline void store_to_rank(Quad<float>* target, int rank, const Quad<float>& quad) {
  asm volatile(
      "st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(address_in_block(rank, target)),
      "f"(quad.at[0]), "f"(quad.at[1]), "f"(quad.at[2]), "f"(quad.at[3])
      : "memory");
}

// Counts what the blocks of a cluster push into this one's shared memory, once. It lies in shared
// memory, at the same place in every block.
class PushBarrier {
 public:
  // By one thread, before a cluster_arrive_relaxed() behind whose wait the peers push.
  __device__ void init(int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(this)),
                 "r"(arrivals)
                 : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }

  // One of the arrivals: says how many bytes the peers will push.
  __device__ void expect(int bytes) {
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(this)),
        "r"(bytes)
        : "memory");
  }

  __device__ void arrive() {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(this)) : "memory");
  }

  // Stores to the place that `target` has in the cluster's block `rank`, and counts there.
  __device__ void push(int rank, Quad<float>* target, const Quad<float>& quad) {
    asm volatile(
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, "
        "[%5];" ::"r"(address_in_block(rank, target)),
        "f"(quad.at[0]), "f"(quad.at[1]), "f"(quad.at[2]), "f"(quad.at[3]),
        "r"(address_in_block(rank, this))
        : "memory");
  }

  // All arrivals and all bytes are there, and may be read. Acquired by the block alone, as CUTLASS
  // does: the bytes lie in its own shared memory, and an acquire by the cluster would also empty
  // the L1 cache of global data.
  __device__ void wait() {
    asm volatile(
        "{\n"
        ".reg .pred is_full;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 is_full, [%0], 0;\n"
        "@!is_full bra again;\n"
        "}\n" ::"r"(shared_address(this))
        : "memory");
  }

 private:
  std::uint64_t state_;
};

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

// Nothing is pushed: only its size is.
class PushBarrier {
  std::uint64_t state_;
};

#endif

}  // namespace mla_bench::cuda
