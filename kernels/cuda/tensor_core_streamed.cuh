// tensor_core for many rows of a low rank: a block keeps all weights in shared memory, and its
// warps stream hidden past them, each its own sixteen or thirty-two rows at a time.
//
//   hidden (16, Dm) in chunks   w_down, resident   latent (16, R)   w_up_k | w_up_v, resident
//   [ 0 | 1 | 2 | 0 | 1 ..]  @  [          ]   =   in registers  @  [                  ]  = kv
//    a ring of stages a warp
//
// The latent never leaves the registers: the sums of one product lie as the left operand of the
// next wants them. Warps never wait for each other, and a warp's next chunks are on their way while
// it multiplies. Bound by the memory that hidden and kv stream through.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cuda/launch.cuh"
#include "cuda/shared_operands.cuh"

namespace mla_bench::cuda {

// `RowTiles` of sixteen rows for each warp.
template <Math M, int MaxRank, int RowTiles>
struct StreamedPlan {
  static constexpr int kPiece = kPieceElements<M>;
  static constexpr int kRows = RowTiles * kStepRows;
  // 16-bit types have less to multiply, and less to load: fewer warps, larger chunks.
  static constexpr int kWarps = kIs16Bit<M> || RowTiles > 1 ? 8 : 12;
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kStages = 3;

  static constexpr int kChunkPieces = kIs16Bit<M> ? 16 : 8;  // of each row
  static constexpr int kChunkDepth = kChunkPieces * kPiece;
  static constexpr int kChunkSteps = kChunkDepth / kStepDepth<M>;
  static constexpr int kStagePieces = kRows * kChunkPieces;

  static constexpr int kDownPitch = right_pitch<M>(MaxRank);
  static constexpr int kDownTiles = MaxRank / kStepColumns;
  static constexpr int kUpSteps = MaxRank / kStepDepth<M>;
  static constexpr int kGroupColumns = OutputRow<M>::kColumns;

  static std::int64_t shared_bytes(const Problem& problem) {
    const std::int64_t down = round_up(problem.model_dim, kChunkDepth) * kDownPitch;
    // Far more columns than an int holds do not fit anyway.
    const auto columns = static_cast<int>(std::min<std::int64_t>(problem.columns(), 1 << 20));
    const std::int64_t up = std::int64_t{MaxRank} * right_pitch<M>(2 * columns);
    return (down + up + kWarps * kStages * kStagePieces) * static_cast<std::int64_t>(sizeof(Piece));
  }
};

// Where a row of w_up lies, so that the latent can be its left operand as the first product leaves
// it. In a 16-bit type a lane's sums are neighbours in depth, as they should be. In fp32 its two
// sums of a tile are a step's two halves, and tiles interleave in pairs.
template <Math M>
__device__ int up_row(int rank) {
  if constexpr (kIs16Bit<M>) {
    return rank;
  } else {
    const int tile = rank / 16 * 2 + rank % 2;
    const int position = rank % 16 / 2;
    return tile * kStepColumns + position % 2 * 4 + position / 2;
  }
}

// The first product's sums as left operands of the second.
template <Math M, int Steps, int Tiles>
__device__ void make_latent(LeftOperand<M> (&latent)[Steps], const TileSums<M> (&down)[Tiles],
                            int quad, int rank) {
  constexpr int kTilesAStep = Tiles / Steps;
#pragma unroll
  for (int step = 0; step < Steps; ++step) {
    std::uint32_t words[kLeftWords<M>];
#pragma unroll
    for (int i = 0; i < kTilesAStep; ++i) {
      const int t = step * kTilesAStep + i;
      float sums[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int position = 2 * quad + j % 2;
        const int column = kIs16Bit<M> ? t * kStepColumns + position
                                       : t / 2 * 2 * kStepColumns + 2 * position + t % 2;
        // Not left to 0 * weight: an infinite hidden value would make it NaN.
        sums[j] = column < rank ? down[t].total(j) : 0.0f;
      }
      if constexpr (kIs16Bit<M>) {
        words[2 * i] = pack<M>(sums[0], sums[1]);
        words[2 * i + 1] = pack<M>(sums[2], sums[3]);
      } else {
        words[4 * i] = __float_as_uint(sums[0]);
        words[4 * i + 1] = __float_as_uint(sums[2]);
        words[4 * i + 2] = __float_as_uint(sums[1]);
        words[4 * i + 3] = __float_as_uint(sums[3]);
      }
    }
    latent[step] = LeftOperand<M>(words);
  }
}

template <Math M, int MaxRank, int RowTiles>
__global__ void __launch_bounds__(StreamedPlan<M, MaxRank, RowTiles>::kThreads, 1)
    tensor_core_streamed_kernel(const __grid_constant__ Arguments<StoredElement<M>> args) {
  using Plan = StreamedPlan<M, MaxRank, RowTiles>;
  extern __shared__ Piece shared_pieces[];
  const int model_dim = static_cast<int>(args.model_dim);
  const int rank = static_cast<int>(args.rank);
  const int columns = static_cast<int>(args.columns);
  const int chunks = (model_dim + Plan::kChunkDepth - 1) / Plan::kChunkDepth;
  const int up_pitch = right_pitch<M>(2 * columns);
  Piece* const w_down = shared_pieces;
  Piece* const w_up = w_down + chunks * Plan::kChunkDepth * Plan::kDownPitch;
  Piece* const rings = w_up + MaxRank * up_pitch;

  const int thread = static_cast<int>(threadIdx.x);
  const int warp = thread / 32;
  const int lane = thread % 32;
  const int group = lane / 4;
  const int quad = lane % 4;
  Piece* const ring = rings + warp * Plan::kStages * Plan::kStagePieces;

  // Tiles go to the blocks in turn before they go to the warps, so that few of them use all blocks.
  const std::int64_t tiles = ceil_div(args.rows, Plan::kRows);
  const std::int64_t stride = std::int64_t{gridDim.x} * Plan::kWarps;
  const std::int64_t first_tile = std::int64_t{blockIdx.x} + std::int64_t{gridDim.x} * warp;

  // The next chunk to fetch of this warp's tiles, some chunks ahead of the one that it multiplies.
  // A lane fetches the same piece of every kRowStep-th row.
  constexpr int kRowStep = 32 / Plan::kChunkPieces;
  const int fetch_piece = lane % Plan::kChunkPieces;
  const int fetch_row = lane / Plan::kChunkPieces;
  std::int64_t fetch_tile = first_tile;
  int fetch_depth = fetch_piece * Plan::kPiece;
  int fetch_stage = 0;
  const StoredElement<M>* sources[Plan::kRows / kRowStep];
  const auto start_tile = [&] {
#pragma unroll
    for (int i = 0; i < Plan::kRows / kRowStep; ++i) {
      // Rows beyond the last are the last again, and are not stored.
      const std::int64_t row = fetch_tile * Plan::kRows + fetch_row + i * kRowStep;
      sources[i] = args.hidden + min(row, args.rows - 1) * model_dim;
    }
  };
  start_tile();
  const auto fetch = [&] {
    if (fetch_tile < tiles) {
      Piece* const chunk = ring + fetch_stage * Plan::kStagePieces;
      const bool is_valid = fetch_depth < model_dim;
      const int depth = is_valid ? fetch_depth : 0;
#pragma unroll
      for (int i = 0; i < Plan::kRows / kRowStep; ++i) {
        copy_async(chunk + left_place<Plan::kChunkPieces>(fetch_row + i * kRowStep, fetch_piece),
                   sources[i] + depth, is_valid);
      }
      fetch_stage = fetch_stage + 1 < Plan::kStages ? fetch_stage + 1 : 0;
      fetch_depth += Plan::kChunkDepth;
      if (fetch_depth >= chunks * Plan::kChunkDepth) {
        fetch_depth = fetch_piece * Plan::kPiece;
        fetch_tile += stride;
        start_tile();
      }
    }
    close_copies();
  };

  constexpr int kDownPieces = MaxRank / Plan::kPiece;  // of a row
  for (int at = thread; at < chunks * Plan::kChunkDepth * kDownPieces; at += Plan::kThreads) {
    const int k = at / kDownPieces;
    const int piece = at % kDownPieces;
    const bool is_valid = k < model_dim && piece * Plan::kPiece < rank;
    copy_async(w_down + k * Plan::kDownPitch + piece,
               args.w_down + (is_valid ? k * rank + piece * Plan::kPiece : 0), is_valid);
  }
  // A warp a row, k's and v's one after the other: no division by a number of columns.
  const int half_pieces = columns / Plan::kPiece;
  for (int row = warp; row < 2 * MaxRank; row += Plan::kWarps) {
    const int k = row % MaxRank;
    const bool is_k = row < MaxRank;
    const bool is_valid = k < rank;
    const StoredElement<M>* const from =
        (is_k ? args.w_up_k : args.w_up_v) + (is_valid ? k * columns : 0);
    Piece* const to = w_up + up_row<M>(k) * up_pitch + (is_k ? 0 : half_pieces);
    for (int piece = lane; piece < half_pieces; piece += 32) {
      copy_async(to + piece, from + piece * Plan::kPiece, is_valid);
    }
  }
  close_copies();
#pragma unroll
  for (int stage = 1; stage < Plan::kStages; ++stage) {
    fetch();
  }
  wait_for_copies<Plan::kStages - 1>();
  __syncthreads();  // the weights are there
  // Rounded once here instead of at every use.
  constexpr bool kRoundsWeights = M == Math::kTf32;
  if constexpr (kRoundsWeights) {
    for (Piece* piece = w_down + thread; piece < rings; piece += Plan::kThreads) {
      *piece = make_uint4(round_to_tf32(piece->x), round_to_tf32(piece->y), round_to_tf32(piece->z),
                          round_to_tf32(piece->w));
    }
    __syncthreads();  // the weights are rounded
  }

  using Weights = RightTile<M, kRoundsWeights>;
  const Weights down_weights(w_down, Plan::kDownPitch, lane);
  const Weights up_weights(w_up, up_pitch, lane);
  int stage = 0;
  for (std::int64_t tile = first_tile; tile < tiles; tile += stride) {
    TileSums<M> down[RowTiles][Plan::kDownTiles];
    for (int chunk = 0; chunk < chunks; ++chunk) {
      wait_for_copies<Plan::kStages - 2>();
      // Every lane's copies of this chunk are there, and every lane is done with the chunk before,
      // whose stage the next fetch takes.
      __syncwarp();
      fetch();
      const Piece* const rows = ring + stage * Plan::kStagePieces;
      stage = stage + 1 < Plan::kStages ? stage + 1 : 0;
#pragma unroll
      for (int step = 0; step < Plan::kChunkSteps; ++step) {
        RightOperand<M> right[Plan::kDownTiles / 2][2];
#pragma unroll
        for (int pair = 0; pair < Plan::kDownTiles / 2; ++pair) {
          down_weights.load(right[pair], chunk * Plan::kChunkSteps + step, pair * 2 * kStepColumns);
        }
#pragma unroll
        for (int r = 0; r < RowTiles; ++r) {
          const LeftOperand<M> left = load_left<M, Plan::kChunkPieces>(
              rows + r * kStepRows * Plan::kChunkPieces, step, lane);
          add_products<M>(down[r], left, &right[0][0]);
        }
      }
    }

    LeftOperand<M> latent[RowTiles][Plan::kUpSteps];
#pragma unroll
    for (int r = 0; r < RowTiles; ++r) {
      make_latent<M>(latent[r], down[r], quad, rank);
    }

#pragma unroll 1
    for (int first = 0; first < 2 * columns; first += Plan::kGroupColumns) {
      TileSums<M> up[RowTiles][OutputRow<M>::kTiles];
#pragma unroll
      for (int step = 0; step < Plan::kUpSteps; ++step) {
        RightOperand<M> right[OutputRow<M>::kTiles / 2][2];
#pragma unroll
        for (int pair = 0; pair < OutputRow<M>::kTiles / 2; ++pair) {
          up_weights.load(right[pair], step, first + pair * 2 * kStepColumns);
        }
#pragma unroll
        for (int r = 0; r < RowTiles; ++r) {
          add_products<M>(up[r], latent[r][step], &right[0][0]);
        }
      }
      const bool is_k = first < columns;
      StoredElement<M>* const kv =
          args.kv + (is_k ? 0 : args.rows * columns) + first - (is_k ? 0 : columns);
#pragma unroll
      for (int r = 0; r < RowTiles; ++r) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const std::int64_t row = tile * Plan::kRows + r * kStepRows + half * 8 + group;
          const OutputRow<M> out(
              quad, [&](int t, int which) { return up[r][t].total(2 * half + which); });
          if (row < args.rows) {
#pragma unroll
            for (int piece = 0; piece < OutputRow<M>::kPieces; ++piece) {
              store_piece(kv + row * columns + OutputRow<M>::column_of_piece(piece, quad),
                          out.pieces[piece]);
            }
          }
        }
      }
    }
  }
}

}  // namespace mla_bench::cuda
