// tensor_core for some thousands of rows of a low rank: a block keeps all weights in shared memory,
// and its warps make the thirty-two or sixty-four rows of a panel together.
//
//   hidden (32, Dm)           w_down, resident   latent (32, R)    w_up_k | w_up_v, resident
//   [ 0 | 1 | 2 | 3 ]      @  [          ]    =  sums of the    @  [ 0 | 1 | 2 | 3 | 0 ..]
//   the four warps of a row                      parts, in order   groups of columns in turn
//   tile share the depth
//
// Between `cluster`, whose blocks load few weights but meet half-way, and `streamed`, whose warps
// never wait for each other but are alone with their rows: where there are panels enough for the
// device but not rows enough for every warp, four warps make a row tile in less time than one.
//
// H200, 256 / 48 / 128, hot, us for fp32 / bf16:
//   4096 rows   panel of 32   7.7 /  5.4   cluster   9.9 / 6.6   streamed  11.9 / 6.9
//   8192 rows   panel of 64  12.0 /  6.4                         streamed  12.3 / 6.8
// Of this, blocks that begin to copy the weights at different places (CopyOrder) gave bf16
// 0.2 and 0.5. No faster than streamed: a panel of 128 at 16384 rows, two warps a row tile.
#pragma once

#include <cstdint>

#include "cuda/resident_weights.cuh"

namespace mla_bench::cuda {

// `RowTiles` of sixteen rows, each made by `Parts` warps.
template <Math M, int MaxRank, int RowTiles, int Parts>
struct PanelPlan {
  using Weights = ResidentWeights<M, MaxRank>;
  static constexpr int kRowTiles = RowTiles;
  static constexpr int kRows = kRowTiles * kStepRows;
  static constexpr int kParts = Parts;  // of the depth, and of the columns
  static constexpr int kWarps = RowTiles * Parts;
  static constexpr int kThreads = 32 * kWarps;

  // The panel lies in chunks of its depth, one behind the other.
  static constexpr int kChunkPieces = 8;  // of each row
  static constexpr int kChunkDepth = kChunkPieces * Weights::kPiece;
  static constexpr int kChunkSteps = kChunkDepth / kStepDepth<M>;
  static constexpr int kPanelPieces = kRows * kChunkPieces;  // of a chunk

  // Of the latent's sums: a quad for each tile and lane.
  static constexpr int kSumQuads = kRowTiles * Weights::kDownTiles * 32;

  static std::int64_t shared_bytes(const Problem& problem) {
    const std::int64_t depth = round_up(problem.model_dim, kChunkDepth);
    return (Weights::pieces(problem, depth) + kRows * depth / Weights::kPiece +
            kParts * kSumQuads) *
           static_cast<std::int64_t>(sizeof(Piece));
  }
};

template <Math M, int MaxRank, int RowTiles, int Parts>
__global__ void __launch_bounds__(PanelPlan<M, MaxRank, RowTiles, Parts>::kThreads, 1)
    tensor_core_panel_kernel(const __grid_constant__ Arguments<StoredElement<M>> args) {
  using Plan = PanelPlan<M, MaxRank, RowTiles, Parts>;
  using Weights = ResidentWeights<M, MaxRank>;
  extern __shared__ Piece shared_pieces[];
  const int model_dim = static_cast<int>(args.model_dim);
  const int columns = static_cast<int>(args.columns);
  const int chunks = (model_dim + Plan::kChunkDepth - 1) / Plan::kChunkDepth;
  const int up_pitch = right_pitch<M>(2 * columns);
  Piece* const w_down = shared_pieces;
  Piece* const w_up = w_down + chunks * Plan::kChunkDepth * Weights::kDownPitch;
  Piece* const panel = w_up + MaxRank * up_pitch;
  auto* const sums = reinterpret_cast<float4*>(panel + chunks * Plan::kPanelPieces);

  const int thread = static_cast<int>(threadIdx.x);
  const int warp = thread / 32;
  const int lane = thread % 32;
  const int row_tile = warp % Plan::kRowTiles;
  const int part = warp / Plan::kRowTiles;
  const std::int64_t first_row = std::int64_t{blockIdx.x} * Plan::kRows;

  // What the first product needs comes first.
  copy_w_down<M, MaxRank>(w_down, args, chunks * Plan::kChunkDepth, Plan::kThreads);
  // A thread copies the same piece of every kRowStep-th row.
  constexpr int kRowStep = Plan::kThreads / Plan::kChunkPieces;
  const int piece = thread % Plan::kChunkPieces;
  for (int row = thread / Plan::kChunkPieces; row < Plan::kRows; row += kRowStep) {
    // Rows beyond the last are the last again, and are not stored.
    const StoredElement<M>* const hidden =
        args.hidden + min(first_row + row, args.rows - 1) * model_dim;
    for (int chunk = 0; chunk < chunks; ++chunk) {
      const int depth = chunk * Plan::kChunkDepth + piece * Weights::kPiece;
      const bool is_valid = depth < model_dim;
      copy_async(panel + chunk * Plan::kPanelPieces + left_place<Plan::kChunkPieces>(row, piece),
                 hidden + (is_valid ? depth : 0), is_valid);
    }
  }
  close_copies();
  copy_w_up<M, MaxRank>(w_up, args, Plan::kWarps);
  close_copies();
  wait_for_copies<1>();
  __syncthreads();  // w_down and the panel are there

  const RightTile<M> down_weights(w_down, Weights::kDownPitch, lane);
  TileSums<M> down[Weights::kDownTiles];
#pragma unroll 2
  for (int step = part; step < chunks * Plan::kChunkSteps; step += Plan::kParts) {
    RightOperand<M> right[Weights::kDownTiles / 2][2];
#pragma unroll
    for (int pair = 0; pair < Weights::kDownTiles / 2; ++pair) {
      down_weights.load(right[pair], step, pair * 2 * kStepColumns);
    }
    const Piece* const rows = panel + step / Plan::kChunkSteps * Plan::kPanelPieces +
                              row_tile * kStepRows * Plan::kChunkPieces;
    const LeftOperand<M> left =
        load_left<M, Plan::kChunkPieces>(rows, step % Plan::kChunkSteps, lane);
    add_products<M>(down, left, &right[0][0]);
  }
#pragma unroll
  for (int t = 0; t < Weights::kDownTiles; ++t) {
    sums[part * Plan::kSumQuads + (row_tile * Weights::kDownTiles + t) * 32 + lane] =
        make_float4(down[t].total(0), down[t].total(1), down[t].total(2), down[t].total(3));
  }
  __syncthreads();  // every part's sums are there
  for (int at = thread; at < Plan::kSumQuads; at += Plan::kThreads) {
    float4 sum = sums[at];
#pragma unroll
    for (int p = 1; p < Plan::kParts; ++p) {
      const float4 more = sums[p * Plan::kSumQuads + at];
      sum.x += more.x;
      sum.y += more.y;
      sum.z += more.z;
      sum.w += more.w;
    }
    sums[at] = sum;
  }
  wait_for_copies<0>();
  __syncthreads();  // the latent is there, and w_up

  float own[Weights::kDownTiles][4];
#pragma unroll
  for (int t = 0; t < Weights::kDownTiles; ++t) {
    const float4 sum = sums[(row_tile * Weights::kDownTiles + t) * 32 + lane];
    own[t][0] = sum.x;
    own[t][1] = sum.y;
    own[t][2] = sum.z;
    own[t][3] = sum.w;
  }
  LeftOperand<M> latent[Weights::kUpSteps];
  make_latent<M, Weights::kDownTiles>(
      latent, [&](int t, int at) { return own[t][at]; }, lane % 4, static_cast<int>(args.rank));
  const RightTile<M> up_weights(w_up, up_pitch, lane);
#pragma unroll 1
  for (int first = part * Weights::kGroupColumns; first < 2 * columns;
       first += Plan::kParts * Weights::kGroupColumns) {
    make_columns<M, MaxRank>(latent, up_weights, first, first_row + row_tile * kStepRows, args,
                             lane);
  }
}

}  // namespace mla_bench::cuda
