// tensor_core for many rows of a low rank: a block keeps all weights in shared memory, and its
// warps stream hidden past them, each its own sixteen rows at a time.
//
//   hidden (16, Dm) in chunks   w_down, resident   latent (16, R)   w_up_k | w_up_v, resident
//   [ 0 | 1 | 2 | 0 | 1 ..]  @  [          ]   =   in registers  @  [                  ]  = kv
//    a ring of stages a warp
//
// The latent never leaves the registers: the sums of one product lie as the left operand of the
// next wants them. Warps never wait for each other, and a warp's next chunks are on their way while
// it multiplies. Bound by the memory that hidden and kv stream through; fp32 by splitting operands
// and by the tensor cores.
//
// What was learnt on the way (H200, 256 / 48 / 128, hot, us for 16384 / 65536 / 262144 rows):
//   fp32  18.5 / 51.6 / 196  thirty-two rows a warp from 65536 on, to share what is split
//         15.7 / 49.5 / 179  weights split once, as they are loaded; sixteen rows again
// Slower: to wait for w_up behind the first product only, which puts a wait into the loop (bf16
// 9.0 / 25.9 / 84 instead of 8.9 / 23.7 / 78). Faster by 6 %, but twice as wrong: operands of fp32
// cut to TF32 instead of rounded.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/resident_weights.cuh"
#include "cuda/split_weights.cuh"

namespace mla_bench::cuda {

template <Math M, int MaxRank, bool IsSplit>
struct StreamedPlan {
  using Resident = ResidentWeights<M, MaxRank>;
  using Weights = std::conditional_t<IsSplit, SplitWeights<MaxRank>, CopiedWeights<M, MaxRank>>;
  static constexpr int kPiece = Resident::kPiece;
  static constexpr int kRows = kStepRows;
  // 16-bit types have less to multiply, and less to load: fewer warps, larger chunks.
  static constexpr int kWarps = kIs16Bit<M> ? 8 : 12;
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

template <Math M, int MaxRank, bool IsSplit>
__global__ void __launch_bounds__(StreamedPlan<M, MaxRank, IsSplit>::kThreads, 1)
    tensor_core_streamed_kernel(const __grid_constant__ Arguments<StoredElement<M>> args) {
  using Plan = StreamedPlan<M, MaxRank, IsSplit>;
  using Resident = ResidentWeights<M, MaxRank>;
  extern __shared__ Piece shared_pieces[];
  const int model_dim = static_cast<int>(args.model_dim);
  const int rank = static_cast<int>(args.rank);
  const int columns = static_cast<int>(args.columns);
  const int chunks = (model_dim + Plan::kChunkDepth - 1) / Plan::kChunkDepth;
  const typename Plan::Weights weights(shared_pieces, args, chunks * Plan::kChunkDepth);

  const int thread = static_cast<int>(threadIdx.x);
  const int warp = thread / 32;
  const int lane = thread % 32;
  const int quad = lane % 4;
  Piece* const ring = weights.end() + warp * Plan::kStages * Plan::kStagePieces;

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

  weights.template start_copies<Plan::kWarps>();
  close_copies();
#pragma unroll
  for (int stage = 1; stage < Plan::kStages; ++stage) {
    fetch();
  }
  wait_for_copies<Plan::kStages - 1>();
  weights.template finish<Plan::kWarps>();

  const auto w_down = weights.down(lane);
  const auto w_up = weights.up(lane);
  int stage = 0;
  for (std::int64_t tile = first_tile; tile < tiles; tile += stride) {
    TileSums<M> down[Resident::kDownTiles];
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
        RightOperand<M> right[Resident::kDownTiles / 2][2];
#pragma unroll
        for (int pair = 0; pair < Resident::kDownTiles / 2; ++pair) {
          w_down.load(right[pair], chunk * Plan::kChunkSteps + step, pair * 2 * kStepColumns);
        }
        const LeftOperand<M> left = load_left<M, Plan::kChunkPieces>(rows, step, lane);
        add_products<M>(down, left, &right[0][0]);
      }
    }

    LeftOperand<M> latent[Resident::kUpSteps];
    make_latent<M, Resident::kDownTiles>(
        latent, [&](int t, int at) { return down[t].total(at); }, quad, rank);
#pragma unroll 1
    for (int first = 0; first < 2 * columns; first += Resident::kGroupColumns) {
      make_columns<M, MaxRank>(latent, w_up, first, tile * Plan::kRows, args, lane);
    }
  }
}

}  // namespace mla_bench::cuda
