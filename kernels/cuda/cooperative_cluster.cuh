// cooperative for few rows, where latency is all: a cluster of four blocks makes twelve rows. It is
// compiled for one model dimension, rank and number of columns, so that no address is computed on
// the way.
//
//   hidden (12, Dm)   w_down (Dm, R)      latent (12, R)           w_up_k | w_up_v
//   [ each block ] @ [ 0| 1| 2| 3]   =   [ 0| 1| 2| 3]         @  [ 0 | 1 | 2 | 3 ]  = k | v
//   [ loads all  ]   columns a block     each block pushes its    columns a block
//                                        columns to the others
//
// Everything that a block needs is on its way to shared memory before it computes anything. The
// eight warps share the depth of the first product, and the rows and columns of the second, whose
// weights they take into registers while the latent crosses the cluster.
#pragma once

#include <cstdint>

#include "cuda/cluster.cuh"
#include "cuda/copy_async.cuh"
#include "cuda/launch.cuh"

namespace mla_bench::cuda {

template <int ModelDim, int Rank, int Columns>
struct CooperativeClusterPlan {
  static constexpr int kRows = 12;
  static constexpr int kBlocks = 4;
  static constexpr int kWarps = 8;
  static constexpr int kThreads = 32 * kWarps;

  // Down-projection. A warp's part of the depth goes in quads, in turn to its two halves of lanes;
  // a lane has three rows and three ranks of the sixteen squares that make the block's part of the
  // latent.
  static constexpr int kBlockRanks = Rank / kBlocks;
  static constexpr int kWarpDepth = ModelDim / kWarps;
  static constexpr int kLaneSteps = kWarpDepth / (2 * kQuad);
  static constexpr int kGroups = 4;  // of rows, and of ranks
  static constexpr int kLaneRows = kRows / kGroups;
  static constexpr int kLaneRanks = kBlockRanks / kGroups;
  static constexpr int kPartials = 2 * kWarps;
  static constexpr int kBlockSums = kRows * kBlockRanks;
  static constexpr int kBlockQuads = kBlockSums / kQuad;
  // Four neighbouring partial sums start eight banks from each other.
  static constexpr int kPartialPitch = (kBlockSums + 31) / 32 * 32 - 8;

  // Up-projection. A lane has one column of a warp's rows.
  static constexpr int kBlockColumns = 2 * Columns / kBlocks;
  static constexpr int kColumnWarps = kBlockColumns / 32;
  static constexpr int kWarpRows = kRows / (kWarps / kColumnWarps);

  // Eight elements more than a row: quads of four rows and two halves meet no bank twice.
  static constexpr int kHiddenPitch = ModelDim + 8;

  static_assert(kLaneRanks == 3 && kBlockRanks % kQuad == 0 &&
                kLaneSteps * 2 * kQuad == kWarpDepth);
  static_assert(kColumnWarps * 32 == kBlockColumns && Columns % kBlockColumns == 0);
  static_assert(kBlockQuads * kBlocks <= kThreads && kPartialPitch >= kBlockSums);
};

// What a block keeps in shared memory.
template <typename T, int ModelDim, int Rank, int Columns>
struct CooperativeClusterMemory {
  using Plan = CooperativeClusterPlan<ModelDim, Rank, Columns>;
  alignas(16) T hidden[Plan::kRows][Plan::kHiddenPitch];
  alignas(16) T w_down[ModelDim][Plan::kBlockRanks];
  alignas(16) T w_up[Rank][Plan::kBlockColumns];
  alignas(16) float partials[Plan::kPartials][Plan::kPartialPitch];
  alignas(16) float latent[Plan::kRows][Rank];
  PushBarrier latent_is_full;
};

// Starts the copies of `rows` rows of `Quads` quads by a block of `Threads` threads; from_row(row)
// is where one lies.
template <int Rows, int Quads, int Pitch, int Threads, typename T, typename FromRow>
__device__ void copy_quads(T* to, const FromRow& from_row) {
  constexpr int kCount = Rows * Quads;
#pragma unroll
  for (int i = 0; i < (kCount + Threads - 1) / Threads; ++i) {
    const unsigned at = threadIdx.x + i * Threads;
    if (kCount % Threads == 0 || at < kCount) {
      const int row = static_cast<int>(at / Quads);
      const int column = static_cast<int>(at % Quads) * kQuad;
      copy_async<kQuad* static_cast<int>(sizeof(T))>(to + row * Pitch + column,
                                                     from_row(row) + column);
    }
  }
}

template <typename T, int ModelDim, int Rank, int Columns>
__global__ void MLA_BENCH_CLUSTER((CooperativeClusterPlan<ModelDim, Rank, Columns>::kBlocks))
    __launch_bounds__(CooperativeClusterPlan<ModelDim, Rank, Columns>::kThreads, 1)
        cooperative_cluster_kernel(const __grid_constant__ Arguments<T> args) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  using Plan = CooperativeClusterPlan<ModelDim, Rank, Columns>;
  extern __shared__ float4 shared_memory[];
  auto& [hidden, w_down, w_up, partials, latent, latent_is_full] =
      *reinterpret_cast<CooperativeClusterMemory<T, ModelDim, Rank, Columns>*>(shared_memory);

  // Unsigned where a division by a power of two shall be one instruction.
  const int thread = static_cast<int>(threadIdx.x);
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int block = static_cast<int>(blockIdx.x % Plan::kBlocks);
  const int rows = static_cast<int>(args.rows);  // the host takes no more than fill the device
  const int first_row = static_cast<int>(blockIdx.x / Plan::kBlocks * Plan::kRows);
  const int first_column = block * Plan::kBlockColumns;  // of k, then of v
  const bool is_k = first_column < Columns;

  // Rows beyond the last are the last again, and are not stored.
  copy_quads<Plan::kRows, ModelDim / kQuad, Plan::kHiddenPitch, Plan::kThreads>(
      &hidden[0][0],
      [&](int row) { return args.hidden + min(first_row + row, rows - 1) * ModelDim; });
  copy_quads<ModelDim, Plan::kBlockRanks / kQuad, Plan::kBlockRanks, Plan::kThreads>(
      &w_down[0][0], [&](int k) { return args.w_down + k * Rank + block * Plan::kBlockRanks; });
  close_copies();
  const T* const own_columns = (is_k ? args.w_up_k : args.w_up_v) + first_column % Columns;
  copy_quads<Rank, Plan::kBlockColumns / kQuad, Plan::kBlockColumns, Plan::kThreads>(
      &w_up[0][0], [&](int r) { return own_columns + r * Columns; });
  close_copies();
  if (thread == 0) {
    latent_is_full.init(/*arrivals*/ 1 + Plan::kBlockQuads);
  }
  cluster_arrive_relaxed();
  wait_for_copies<1>();
  __syncthreads();  // hidden and w_down are there

  const int row_group = lane / 8;
  const int half = lane / 4 % 2;
  const int rank_group = lane % 4;
  float sums[Plan::kLaneRows][Plan::kLaneRanks] = {};
#pragma unroll
  for (int step = 0; step < Plan::kLaneSteps; ++step) {
    const int depth = warp * Plan::kWarpDepth + (2 * step + half) * kQuad;
    Quad<float> left[Plan::kLaneRows];
#pragma unroll
    for (int i = 0; i < Plan::kLaneRows; ++i) {
      left[i] = widen(load_packed(&hidden[row_group + Plan::kGroups * i][depth]));
    }
#pragma unroll
    for (int k = 0; k < kQuad; ++k) {
      // Ranks 2 g and 2 g + 1, and 8 + g: one access of two, and one.
      const T* const right = w_down[depth + k];
      const auto pair = *reinterpret_cast<const Pair<T>*>(right + 2 * rank_group);
      const float ranks[] = {widen(pair.at[0]), widen(pair.at[1]),
                             widen(right[2 * Plan::kGroups + rank_group])};
#pragma unroll
      for (int i = 0; i < Plan::kLaneRows; ++i) {
#pragma unroll
        for (int j = 0; j < Plan::kLaneRanks; ++j) {
          sums[i][j] = fmaf(left[i].at[k], ranks[j], sums[i][j]);
        }
      }
    }
  }
#pragma unroll
  for (int i = 0; i < Plan::kLaneRows; ++i) {
    float* const row =
        partials[2 * warp + half] + (row_group + Plan::kGroups * i) * Plan::kBlockRanks;
    *reinterpret_cast<Pair<float>*>(row + 2 * rank_group) = {sums[i][0], sums[i][1]};
    row[2 * Plan::kGroups + rank_group] = sums[i][2];
  }
  wait_for_copies<0>();
  cluster_wait();   // every peer's barrier is there
  __syncthreads();  // all partial sums are there, and w_up
  if (thread == 0) {
    // Bytes that are there already count: the phase cannot end before this arrival.
    latent_is_full.expect(Plan::kBlockQuads * static_cast<int>(sizeof(Quad<float>)) *
                          (Plan::kBlocks - 1));
  }

  // Four lanes add up a quad's partial sums, each every fourth, and then know all; each sends the
  // quad to another block. Whole warps take part, for their shuffles.
  constexpr int kAdders = Plan::kBlockQuads * Plan::kBlocks;
  if (warp * 32 < kAdders) {
    constexpr int kQuarter = Plan::kPartials / Plan::kBlocks;
    const int quad = min(static_cast<int>(threadIdx.x / Plan::kBlocks), Plan::kBlockQuads - 1);
    const int to = static_cast<int>(threadIdx.x % Plan::kBlocks);
    Quad<float> sum = *reinterpret_cast<const Quad<float>*>(&partials[to][quad * kQuad]);
#pragma unroll
    for (int p = 1; p < kQuarter; ++p) {
      const auto more =
          *reinterpret_cast<const Quad<float>*>(&partials[p * Plan::kBlocks + to][quad * kQuad]);
#pragma unroll
      for (int i = 0; i < kQuad; ++i) {
        sum.at[i] += more.at[i];
      }
    }
#pragma unroll
    for (int apart = 1; apart < Plan::kBlocks; apart *= 2) {
#pragma unroll
      for (int i = 0; i < kQuad; ++i) {
        sum.at[i] += __shfl_xor_sync(0xffffffffu, sum.at[i], apart);
      }
    }
    constexpr int kRowQuads = Plan::kBlockRanks / kQuad;
    auto* const place = reinterpret_cast<Quad<float>*>(
        &latent[quad / kRowQuads][block * Plan::kBlockRanks + quad % kRowQuads * kQuad]);
    if (thread < kAdders) {
      if (to == block) {
        *place = sum;
        latent_is_full.arrive();
      } else {
        latent_is_full.push(to, place, sum);
      }
    }
  }

  // While the latent is on its way.
  const int column = warp % Plan::kColumnWarps * 32 + lane;
  float right[Rank];
#pragma unroll
  for (int r = 0; r < Rank; ++r) {
    right[r] = widen(w_up[r][column]);
  }
  latent_is_full.wait();

  const int warp_row = warp / Plan::kColumnWarps * Plan::kWarpRows;
  float out[Plan::kWarpRows] = {};
#pragma unroll
  for (int r = 0; r < Rank; r += kQuad) {
#pragma unroll
    for (int i = 0; i < Plan::kWarpRows; ++i) {
      const auto left = *reinterpret_cast<const Quad<float>*>(&latent[warp_row + i][r]);
#pragma unroll
      for (int k = 0; k < kQuad; ++k) {
        out[i] = fmaf(left.at[k], right[r + k], out[i]);
      }
    }
  }
  T* const kv = args.kv + (is_k ? 0 : rows * Columns) + first_column % Columns + column;
#pragma unroll
  for (int i = 0; i < Plan::kWarpRows; ++i) {
    const int row = first_row + warp_row + i;
    if (row < rows) {
      kv[row * Columns] = narrow<T>(out[i]);
    }
  }
#endif
}

}  // namespace mla_bench::cuda
