// tensor_core for few rows, where latency is all: a cluster of four blocks makes sixteen rows. It
// is compiled for one model dimension, rank and number of columns: with one warp a scheduler every
// instruction is on the critical path, and addresses known at compile time save 0.2 to 0.5 us.
//
//   hidden (16, Dm)        w_down (Dm, R)         latent (16, R)          w_up_k | w_up_v
//   [  0, 1 |  2, 3 ]  @  [ 0 | 1 ]          =   sums of two halves   @  [ 0 | 1 | 2 | 3 | 0 ..]
//                         [ 2 | 3 ]              of the depth            64 columns a block, in
//                         turn
//
// Each block makes half of the latent's columns from half of the depth (its four warps share the
// depth again) and pushes these sums to all four blocks; each then adds the two halves up, in this
// order, and makes its columns of k and v.
//
// What was learnt on the way (H200, 4x96x256, rank 48, 128 columns, hot, us for fp32 / bf16; an
// empty kernel of this grid takes 0.57, one that only reads and writes every byte 1.1):
//   3.02 / 2.46  operands straight from global memory to registers, as the fragments lie
//   2.85 / 2.40  the wait for the peers' barriers moved behind the loads; inbox acquired by block
//   2.80 / 2.29  own sums stored, not pushed; barriers set up while the loads are on their way
//   2.80 / 2.25  two chains of sums for 3xTF32 in place of three
//   2.81 / 2.26  no index computed at run time: a third of all instructions gone, but most of them
//                had waited for loads anyway
//   2.62 / 2.16  loads of what nobody writes (ld.global.nc): no fence and no barrier waits for them
//   2.66 / 2.12  so the barriers are set up first again, and waited for where they are needed;
//                tf32 2.43 instead of 2.50
// Slower, each by 0.1 to 0.8: staging in shared memory (cp.async, bulk copies), a full cluster
// barrier in place of counted pushes, a latent that every block makes alone, eight warps a block,
// splitting w_up before the latent is there, w_down rows padded for wider loads, the depth in four
// parts with all ranks in each block, weights that pass by the L1 cache.
#pragma once

#include <cstdint>

#include "cuda/cluster.cuh"
#include "cuda/launch.cuh"
#include "cuda/mma.cuh"

namespace mla_bench::cuda {

template <Math M, int ModelDim, int Rank, int Columns>
struct ClusterPlan {
  static constexpr int kBytes = static_cast<int>(sizeof(StoredElement<M>));
  static constexpr int kRows = kStepRows;
  static constexpr int kDepthParts = 2;
  static constexpr int kRankParts = 2;
  static constexpr int kBlocks = kDepthParts * kRankParts;
  static constexpr int kWarps = 4;
  static constexpr int kThreads = 32 * kWarps;

  // Down-projection. Words are of four bytes; a lane loads four neighbouring words of a row at a
  // time, which are two steps of its own.
  static constexpr int kPassDepth = 256;
  static constexpr int kWarpDepth = kPassDepth / kDepthParts / kWarps;
  static constexpr int kLaneWords = 4;
  static constexpr int kLaneDepth = kLaneWords * 4 / kBytes;
  static constexpr int kSpanDepth = 4 * kLaneDepth;
  static constexpr int kSpans = kWarpDepth / kSpanDepth;
  static constexpr int kSpanSteps = kSpanDepth / kStepDepth<M>;
  static constexpr int kBlockRanks = Rank / kRankParts;
  static constexpr int kDownTiles = kBlockRanks / kStepColumns;

  // Up-projection.
  static constexpr int kUpTiles = 2;  // of a warp
  static constexpr int kWarpColumns = kUpTiles * kStepColumns;
  static constexpr int kBlockColumns = kWarps * kWarpColumns;
  static constexpr int kTurns = 2 * Columns / (kBlocks * kBlockColumns);
  static constexpr int kRankGroups = Rank / kStepColumns;
  static constexpr int kUpSteps = Rank / kStepDepth<M>;
  static constexpr int kGroupsAStep = kRankGroups / kUpSteps;

  // The inbox: a quad of sums for each part of the depth, group of eight ranks, and lane.
  static constexpr int kInboxBytes = kDepthParts * kRankGroups * 32 * 16;
  static constexpr int kOwnQuads = kDownTiles * 32;

  static_assert(kSpans * kSpanDepth == kWarpDepth && kDownTiles * kStepColumns == kBlockRanks);
  static_assert(kDownTiles <= kWarps, "a warp adds up one tile");
  static_assert(ModelDim % kPassDepth == 0 && kTurns * kBlocks * kBlockColumns == 2 * Columns);
};

// Loads `Bytes` (2, 4, 8 or 16), which nobody writes as long as the kernel runs, into as many words
// as they need. ptxas may not move it: loads go out one behind the other, and none waits for
// arithmetic.
template <int Bytes>
__device__ void load_now(const char* from, std::uint32_t* words) {
  if constexpr (Bytes == 16) {
    asm volatile("ld.global.nc.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "l"(from)
                 : "memory");
  } else if constexpr (Bytes == 8) {
    asm volatile("ld.global.nc.v2.b32 {%0, %1}, [%2];"
                 : "=r"(words[0]), "=r"(words[1])
                 : "l"(from)
                 : "memory");
  } else if constexpr (Bytes == 4) {
    asm volatile("ld.global.nc.b32 %0, [%1];" : "=r"(words[0]) : "l"(from) : "memory");
  } else {
    std::uint16_t half;
    asm volatile("ld.global.nc.b16 %0, [%1];" : "=h"(half) : "l"(from) : "memory");
    words[0] = half;
  }
}

// What one lane needs of one row of a weight matrix for `Tiles` tiles of eight columns. Tiles go in
// groups of a power of two, whose columns are dealt out so that a lane's lie side by side.
template <Math M, int Tiles>
class RowSlice {
 public:
  // Column first_column(tile) + position * column_step(tile) stands at `position` (0..7) of a tile.
  // Without loops, which nvcc would leave in the kernel: of a constant tile both are constants.
  static __host__ __device__ constexpr int column_step(int tile) {
    return tile < kInFours ? 4 : tile < kInFours + kInPairs ? 2 : 1;
  }
  static __host__ __device__ constexpr int first_column(int tile) {
    const int first = tile < kInFours ? tile / 4 * 4 : tile < kInFours + kInPairs ? kInFours : tile;
    return kStepColumns * first + (tile - first);
  }

  // `row` is the address of the slice's first column.
  __device__ void load(const char* row, int position) { load_from<0>(row, position); }

  __device__ std::uint32_t word(int at) const { return words_[at]; }

 private:
  static constexpr int kBytes = static_cast<int>(sizeof(StoredElement<M>));
  static constexpr int kWords = (Tiles * kBytes + 3) / 4;
  static constexpr int kInFours = Tiles / 4 * 4;
  static constexpr int kInPairs = (Tiles - kInFours) / 2 * 2;

  template <int Tile>
  __device__ void load_from(const char* row, int position) {
    if constexpr (Tile < Tiles) {
      constexpr int kGroup = column_step(Tile);
      load_now<kGroup * kBytes>(row + position * (kGroup * kBytes) + first_column(Tile) * kBytes,
                                &words_[Tile * kBytes / 4]);
      load_from<Tile + kGroup>(row, position);
    }
  }

  std::uint32_t words_[kWords];
};

// The right operands of all tiles from the rows of one step: two of fp32, four of a 16-bit type.
template <Math M, int Tiles>
__device__ void right_operands(RightOperand<M> (&right)[Tiles], const RowSlice<M, Tiles>* rows) {
#pragma unroll
  for (int tile = 0; tile < Tiles; ++tile) {
    std::uint32_t words[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if constexpr (kIs16Bit<M>) {
        const std::uint32_t first = rows[2 * half].word(tile / 2);
        const std::uint32_t second = rows[2 * half + 1].word(tile / 2);
        words[half] = tile % 2 == 0 ? pair_of<0>(first, second) : pair_of<1>(first, second);
      } else {
        words[half] = rows[half].word(tile);
      }
    }
    right[tile] = RightOperand<M>(words);
  }
}

// Four neighbouring sums of a lane: rows g and g + 8 of the latent's column 2 q, then of 2 q + 1.
// In this order they are the up-projection's left operand in fp32.
__device__ inline Quad<float> operator+(const Quad<float>& a, const Quad<float>& b) {
  return {a.at[0] + b.at[0], a.at[1] + b.at[1], a.at[2] + b.at[2], a.at[3] + b.at[3]};
}

template <Math M, int ModelDim, int Rank, int Columns>
__global__ void MLA_BENCH_CLUSTER((ClusterPlan<M, ModelDim, Rank, Columns>::kBlocks))
    __launch_bounds__(ClusterPlan<M, ModelDim, Rank, Columns>::kThreads, 1)
        tensor_core_cluster_kernel(const __grid_constant__ Arguments<StoredElement<M>> args) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  using Plan = ClusterPlan<M, ModelDim, Rank, Columns>;
  constexpr int kBytes = Plan::kBytes;
  __shared__ Quad<float> warp_sums[Plan::kWarps][Plan::kDownTiles][32];
  __shared__ Quad<float> inbox[Plan::kDepthParts][Plan::kRankGroups][32];
  __shared__ PushBarrier inbox_is_full;

  // The pushed bytes count, and this block's own sums by the threads that store them.
  if (threadIdx.x == 0) {
    inbox_is_full.init(/*arrivals*/ 1 + Plan::kOwnQuads);
  }
  cluster_arrive_relaxed();

  // Unsigned where a division by a power of two shall be one instruction.
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int group = lane / 4;
  const int quad = lane % 4;
  const int block = static_cast<int>(blockIdx.x % Plan::kBlocks);
  const int depth_part = block / Plan::kRankParts;
  const int rank_part = block % Plan::kRankParts;
  const int rows = static_cast<int>(args.rows);  // the host takes no more than fill the device
  const int first_row = static_cast<int>(blockIdx.x / Plan::kBlocks * Plan::kRows);

  // Rows beyond the last are the last again, and are not stored.
  const int depth = depth_part * (Plan::kPassDepth / Plan::kDepthParts) + warp * Plan::kWarpDepth +
                    quad * Plan::kLaneDepth;
  const char* hidden[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = min(first_row + group + 8 * half, rows - 1);
    hidden[half] = reinterpret_cast<const char*>(args.hidden + row * ModelDim + depth);
  }
  const char* w_down =
      reinterpret_cast<const char*>(args.w_down + depth * Rank + rank_part * Plan::kBlockRanks);
  std::uint32_t left[Plan::kSpans][2][Plan::kLaneWords];
  RowSlice<M, Plan::kDownTiles> right[Plan::kSpans][Plan::kLaneDepth];
  const auto load_pass = [&] {
#pragma unroll
    for (int span = 0; span < Plan::kSpans; ++span) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        load_now<4 * Plan::kLaneWords>(hidden[half] + span * Plan::kSpanDepth * kBytes,
                                       left[span][half]);
      }
    }
#pragma unroll
    for (int span = 0; span < Plan::kSpans; ++span) {
#pragma unroll
      for (int k = 0; k < Plan::kLaneDepth; ++k) {
        right[span][k].load(w_down + (span * Plan::kSpanDepth + k) * Rank * kBytes, group);
      }
    }
  };
  load_pass();

  // Rows of w_up in the order of the pushed sums: that of the latent's columns in the tiles of the
  // down-projection.
  using DownSlice = RowSlice<M, Plan::kDownTiles>;
  int column = block * Plan::kBlockColumns + warp * Plan::kWarpColumns;  // of k, then of v
  RowSlice<M, Plan::kUpTiles> up_rows[Plan::kRankGroups][2];
  const auto load_up = [&] {
    const char* const w_up = reinterpret_cast<const char*>(
        (column < Columns ? args.w_up_k : args.w_up_v) + column % Columns);
#pragma unroll
    for (int g = 0; g < Plan::kRankGroups; ++g) {
      const int tile = g % Plan::kDownTiles;
      const int step = DownSlice::column_step(tile);
      const char* const own_rows = w_up + quad * (2 * step * Columns * kBytes);
#pragma unroll
      for (int which = 0; which < 2; ++which) {
        const int rank =
            g / Plan::kDownTiles * Plan::kBlockRanks + DownSlice::first_column(tile) + step * which;
        up_rows[g][which].load(own_rows + rank * (Columns * kBytes), group);
      }
    }
  };
  load_up();

  // Never taken. It ends the basic block: in one block with the arithmetic, ptxas lets the last
  // loads wait until the first operands have been multiplied.
  if (first_row >= rows) {
    return;
  }

  TileSums<M> down[Plan::kDownTiles];
  for (int pass = 0;;) {
#pragma unroll
    for (int span = 0; span < Plan::kSpans; ++span) {
#pragma unroll
      for (int step = 0; step < Plan::kSpanSteps; ++step) {
        std::uint32_t words[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          words[i] = left[span][i % 2][2 * step + i / 2];
        }
        RightOperand<M> operands[Plan::kDownTiles];
        right_operands(operands, &right[span][step * Plan::kLaneDepth / Plan::kSpanSteps]);
        add_products<M>(down, LeftOperand<M>(words), operands);
      }
    }
    pass += Plan::kPassDepth;
    if (pass >= ModelDim) {
      break;
    }
    hidden[0] += Plan::kPassDepth * kBytes;
    hidden[1] += Plan::kPassDepth * kBytes;
    w_down += Plan::kPassDepth * Rank * kBytes;
    load_pass();
  }

#pragma unroll
  for (int tile = 0; tile < Plan::kDownTiles; ++tile) {
    warp_sums[warp][tile][lane] = {down[tile].total(0), down[tile].total(2), down[tile].total(1),
                                   down[tile].total(3)};
  }
  cluster_wait();  // every peer's barrier is there
  if (threadIdx.x == 0) {
    // Bytes that are there already count: the phase cannot end before this arrival.
    inbox_is_full.expect(Plan::kInboxBytes / Plan::kBlocks * (Plan::kBlocks - 1));
  }
  __syncthreads();  // every warp's sums are there
  if (warp < Plan::kDownTiles) {
    Quad<float> sum = warp_sums[0][warp][lane];
#pragma unroll
    for (int w = 1; w < Plan::kWarps; ++w) {
      sum = sum + warp_sums[w][warp][lane];
    }
    Quad<float>* const place = &inbox[depth_part][rank_part * Plan::kDownTiles + warp][lane];
    *place = sum;
#pragma unroll
    for (int i = 1; i < Plan::kBlocks; ++i) {
      inbox_is_full.push((block + i) % Plan::kBlocks, place, sum);
    }
    inbox_is_full.arrive();
  }
  inbox_is_full.wait();

  LeftOperand<M> latent[Plan::kUpSteps];
#pragma unroll
  for (int step = 0; step < Plan::kUpSteps; ++step) {
    std::uint32_t words[4];
#pragma unroll
    for (int i = 0; i < Plan::kGroupsAStep; ++i) {
      const int g = step * Plan::kGroupsAStep + i;
      const Quad<float> sum = inbox[0][g][lane] + inbox[1][g][lane];
      if constexpr (kIs16Bit<M>) {
        words[2 * i] = pack<M>(sum.at[0], sum.at[2]);
        words[2 * i + 1] = pack<M>(sum.at[1], sum.at[3]);
      } else {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          words[j] = __float_as_uint(sum.at[j]);
        }
      }
    }
    latent[step] = LeftOperand<M>(words);
  }

#pragma unroll 1
  for (int turn = 1;; ++turn) {
    TileSums<M> up[Plan::kUpTiles];
#pragma unroll
    for (int step = 0; step < Plan::kUpSteps; ++step) {
      RightOperand<M> operands[Plan::kUpTiles];
      right_operands(operands, &up_rows[step * Plan::kGroupsAStep][0]);
      add_products<M>(up, latent[step], operands);
    }
    // A lane's columns lie side by side: those of its two positions in every tile.
    const int half_of_kv = column < Columns ? 0 : rows;
    auto* const kv = args.kv + half_of_kv * Columns + column % Columns + 2 * Plan::kUpTiles * quad;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = first_row + group + 8 * half;
      const Quad<float> sums{up[0].total(2 * half), up[1].total(2 * half),
                             up[0].total(2 * half + 1), up[1].total(2 * half + 1)};
      store_quad<true>(kv + row * Columns, row < rows ? kQuad : 0, sums);
    }
    if (turn == Plan::kTurns) {
      break;
    }
    column += Plan::kBlocks * Plan::kBlockColumns;
    load_up();
  }
#endif
}

}  // namespace mla_bench::cuda
