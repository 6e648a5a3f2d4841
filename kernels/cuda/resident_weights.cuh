// What the forms of tensor_core that keep all weights in shared memory share: how the weights get
// there, how the sums of the down-projection become the left operand of the up-projection, and how
// a row tile's columns of k and v are made and stored.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "cuda/launch.cuh"
#include "cuda/shared_operands.cuh"

namespace mla_bench::cuda {

template <Math M, int MaxRank>
struct ResidentWeights {
  static constexpr int kPiece = kPieceElements<M>;
  static constexpr int kDownPitch = right_pitch<M>(MaxRank);
  static constexpr int kDownTiles = MaxRank / kStepColumns;
  static constexpr int kUpSteps = MaxRank / kStepDepth<M>;
  // Columns of k and v that a warp makes at a time.
  static constexpr int kGroupColumns = OutputRow<M>::kColumns;

  // Pieces of w_down and of w_up_k | w_up_v; `depth` is the model dimension with what fills it up.
  static std::int64_t pieces(const Problem& problem, std::int64_t depth) {
    // Far more columns than an int holds do not fit anyway.
    const auto columns = static_cast<int>(std::min<std::int64_t>(problem.columns(), 1 << 20));
    return depth * kDownPitch + std::int64_t{MaxRank} * right_pitch<M>(2 * columns);
  }

  static bool can_hold(const Problem& problem) {
    return problem.rank <= MaxRank && problem.rank % kPiece == 0 &&
           problem.model_dim % kPiece == 0 && problem.columns() % kGroupColumns == 0;
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

// The rank whose row of w_up lies at `row`, in fp32: the inverse of up_row.
__device__ inline int rank_of_up_row(int row) {
  const int tile = row / kStepColumns;
  const int position = row % 4 * 2 + row % kStepColumns / 4;
  return tile / 2 * 16 + position * 2 + tile % 2;
}

// The order in which a block takes `count` of something that all blocks want: each begins at one of
// sixteen places and goes round, so that they do not all ask the same part of the L2 cache at the
// same time. H200, bf16: 8192 rows in 6.3 us instead of 6.9.
class CopyOrder {
 public:
  __device__ explicit CopyOrder(int count)
      : count_(count), first_(static_cast<int>(blockIdx.x) % kPlaces * (count / kPlaces)) {}

  // The i-th, i below count.
  __device__ int at(int i) const { return i + first_ < count_ ? i + first_ : i + first_ - count_; }

 private:
  static constexpr int kPlaces = 16;

  int count_;
  int first_;
};

// Starts the copy of w_down (depth, MaxRank) by `threads` threads, zeros beyond the matrix.
template <Math M, int MaxRank>
__device__ void copy_w_down(Piece* to, const Arguments<StoredElement<M>>& args, int depth,
                            int threads) {
  using Weights = ResidentWeights<M, MaxRank>;
  constexpr int kPieces = MaxRank / Weights::kPiece;  // of a row
  const int model_dim = static_cast<int>(args.model_dim);
  const int rank = static_cast<int>(args.rank);
  const int count = depth * kPieces;
  const CopyOrder order(count);
  for (int i = static_cast<int>(threadIdx.x); i < count; i += threads) {
    const int at = order.at(i);
    const int k = at / kPieces;
    const int piece = at % kPieces;
    const bool is_valid = k < model_dim && piece * Weights::kPiece < rank;
    copy_async(to + k * Weights::kDownPitch + piece,
               args.w_down + (is_valid ? k * rank + piece * Weights::kPiece : 0), is_valid);
  }
}

// And of w_up_k | w_up_v (MaxRank, 2 columns), a warp a row: no division by a number of columns.
template <Math M, int MaxRank>
__device__ void copy_w_up(Piece* to, const Arguments<StoredElement<M>>& args, int warps) {
  using Weights = ResidentWeights<M, MaxRank>;
  const int columns = static_cast<int>(args.columns);
  const int pitch = right_pitch<M>(2 * columns);
  const int half_pieces = columns / Weights::kPiece;
  const CopyOrder order(MaxRank);
  for (int i = static_cast<int>(threadIdx.x) / 32; i < MaxRank; i += warps) {
    const int k = order.at(i);
    const bool is_valid = k < args.rank;
    const int row = is_valid ? k * columns : 0;
    for (int piece = static_cast<int>(threadIdx.x) % 32; piece < 2 * half_pieces; piece += 32) {
      const bool is_k = piece < half_pieces;
      const StoredElement<M>* const from = (is_k ? args.w_up_k : args.w_up_v) + row;
      copy_async(to + up_row<M>(k) * pitch + piece,
                 from + (is_k ? piece : piece - half_pieces) * Weights::kPiece, is_valid);
    }
  }
}

// Weights as they are, in a block's shared memory: w_down, and behind it w_up_k | w_up_v. Those of
// TF32 are rounded in place.
template <Math M, int MaxRank>
class CopiedWeights {
 public:
  static constexpr std::string_view kName = "weights resident";

  static std::int64_t pieces(const Problem& problem, std::int64_t depth) {
    return ResidentWeights<M, MaxRank>::pieces(problem, depth);
  }

  __device__ CopiedWeights(Piece* shared, const Arguments<StoredElement<M>>& args, int depth)
      : args_(args),
        depth_(depth),
        up_pitch_(right_pitch<M>(2 * static_cast<int>(args.columns))),
        w_down_(shared),
        w_up_(shared + depth * kDownPitch) {}

  __device__ Piece* end() const { return w_up_ + MaxRank * up_pitch_; }

  template <int Warps>
  __device__ void start_copies() const {
    copy_w_down<M, MaxRank>(w_down_, args_, depth_, 32 * Warps);
    copy_w_up<M, MaxRank>(w_up_, args_, Warps);
  }

  // The weights are there for every warp of the block. To be called by all of them, each when its
  // own copies are there.
  template <int Warps>
  __device__ void finish() const {
    __syncthreads();
    if constexpr (kIsRounded) {
      for (Piece* piece = w_down_ + threadIdx.x; piece < end(); piece += 32 * Warps) {
        *piece = make_uint4(round_to_tf32(piece->x), round_to_tf32(piece->y),
                            round_to_tf32(piece->z), round_to_tf32(piece->w));
      }
      __syncthreads();
    }
  }

  __device__ auto down(int lane) const {
    return RightTile<M, kIsRounded>(w_down_, kDownPitch, lane);
  }
  __device__ auto up(int lane) const { return RightTile<M, kIsRounded>(w_up_, up_pitch_, lane); }

 private:
  static constexpr int kDownPitch = ResidentWeights<M, MaxRank>::kDownPitch;
  static constexpr bool kIsRounded = M == Math::kTf32;  // once here instead of at every use

  const Arguments<StoredElement<M>>& args_;
  int depth_;
  int up_pitch_;
  Piece* w_down_;
  Piece* w_up_;
};

// The first product's sums as left operands of the second; `total(tile, at)` is this lane's sum.
template <Math M, int Tiles, int Steps, typename Total>
__device__ void make_latent(LeftOperand<M> (&latent)[Steps], const Total& total, int quad,
                            int rank) {
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
        sums[j] = column < rank ? total(t, j) : 0.0f;
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

// Makes kGroupColumns columns of k | v, from `first` on, of sixteen rows, and stores those of rows
// below args.rows. `w_up` loads as a RightTile does. Every lane of the warp takes part.
template <Math M, int MaxRank, typename Tile>
__device__ void make_columns(const LeftOperand<M> (&latent)[ResidentWeights<M, MaxRank>::kUpSteps],
                             const Tile& w_up, int first, std::int64_t first_row,
                             const Arguments<StoredElement<M>>& args, int lane) {
  const int group = lane / 4;
  const int quad = lane % 4;
  const int columns = static_cast<int>(args.columns);
  TileSums<M> up[OutputRow<M>::kTiles];
#pragma unroll
  for (int step = 0; step < ResidentWeights<M, MaxRank>::kUpSteps; ++step) {
    RightOperand<M> right[OutputRow<M>::kTiles / 2][2];
#pragma unroll
    for (int pair = 0; pair < OutputRow<M>::kTiles / 2; ++pair) {
      w_up.load(right[pair], step, first + pair * 2 * kStepColumns);
    }
    add_products<M>(up, latent[step], &right[0][0]);
  }
  const bool is_k = first < columns;
  StoredElement<M>* const kv =
      args.kv + (is_k ? 0 : args.rows * columns) + first - (is_k ? 0 : columns);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const std::int64_t row = first_row + half * 8 + group;
    const OutputRow<M> out(quad, [&](int t, int which) { return up[t].total(2 * half + which); });
    if (row < args.rows) {
#pragma unroll
      for (int piece = 0; piece < OutputRow<M>::kPieces; ++piece) {
        store_piece(kv + row * columns + OutputRow<M>::column_of_piece(piece, quad),
                    out.pieces[piece]);
      }
    }
  }
}

}  // namespace mla_bench::cuda
