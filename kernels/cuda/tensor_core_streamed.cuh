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

#include <cstdint>

#include "cuda/resident_weights.cuh"

namespace mla_bench::cuda {

// `RowTiles` of sixteen rows for each warp.
template <Math M, int MaxRank, int RowTiles>
struct StreamedPlan {
  using Weights = ResidentWeights<M, MaxRank>;
  static constexpr int kPiece = Weights::kPiece;
  static constexpr int kRows = RowTiles * kStepRows;
  // 16-bit types have less to multiply, and less to load: fewer warps, larger chunks.
  static constexpr int kWarps = kIs16Bit<M> || RowTiles > 1 ? 8 : 12;
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kStages = 3;

  static constexpr int kChunkPieces = kIs16Bit<M> ? 16 : 8;  // of each row
  static constexpr int kChunkDepth = kChunkPieces * kPiece;
  static constexpr int kChunkSteps = kChunkDepth / kStepDepth<M>;
  static constexpr int kStagePieces = kRows * kChunkPieces;

  static std::int64_t shared_bytes(const Problem& problem) {
    return (Weights::pieces(problem, round_up(problem.model_dim, kChunkDepth)) +
            kWarps * kStages * kStagePieces) *
           static_cast<std::int64_t>(sizeof(Piece));
  }
};

template <Math M, int MaxRank, int RowTiles>
__global__ void __launch_bounds__(StreamedPlan<M, MaxRank, RowTiles>::kThreads, 1)
    tensor_core_streamed_kernel(const __grid_constant__ Arguments<StoredElement<M>> args) {
  using Plan = StreamedPlan<M, MaxRank, RowTiles>;
  using Weights = ResidentWeights<M, MaxRank>;
  extern __shared__ Piece shared_pieces[];
  const int model_dim = static_cast<int>(args.model_dim);
  const int rank = static_cast<int>(args.rank);
  const int columns = static_cast<int>(args.columns);
  const int chunks = (model_dim + Plan::kChunkDepth - 1) / Plan::kChunkDepth;
  const int up_pitch = right_pitch<M>(2 * columns);
  Piece* const w_down = shared_pieces;
  Piece* const w_up = w_down + chunks * Plan::kChunkDepth * Weights::kDownPitch;
  Piece* const rings = w_up + MaxRank * up_pitch;

  const int thread = static_cast<int>(threadIdx.x);
  const int warp = thread / 32;
  const int lane = thread % 32;
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

  copy_w_down<M, MaxRank>(w_down, args, chunks * Plan::kChunkDepth, Plan::kThreads);
  copy_w_up<M, MaxRank>(w_up, args, Plan::kWarps);
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

  const RightTile<M, kRoundsWeights> down_weights(w_down, Weights::kDownPitch, lane);
  const RightTile<M, kRoundsWeights> up_weights(w_up, up_pitch, lane);
  int stage = 0;
  for (std::int64_t tile = first_tile; tile < tiles; tile += stride) {
    TileSums<M> down[RowTiles][Weights::kDownTiles];
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
        RightOperand<M> right[Weights::kDownTiles / 2][2];
#pragma unroll
        for (int pair = 0; pair < Weights::kDownTiles / 2; ++pair) {
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

    LeftOperand<M> latent[RowTiles][Weights::kUpSteps];
#pragma unroll
    for (int r = 0; r < RowTiles; ++r) {
      make_latent<M, Weights::kDownTiles>(
          latent[r], [&](int t, int at) { return down[r][t].total(at); }, quad, rank);
    }
#pragma unroll 1
    for (int first = 0; first < 2 * columns; first += Weights::kGroupColumns) {
      make_columns<M, MaxRank, RowTiles>(latent, up_weights, first, tile * Plan::kRows, args, lane);
    }
  }
}

}  // namespace mla_bench::cuda
