// The fp32 weights of the streamed form split once, when a block loads them, instead of by every
// warp for every sixteen rows: what is left to do at each use is to round two values to BF16.
//
// A set is a right operand of eight columns for one step, as the lanes of a warp want it: sixteen
// bytes of TF32 a lane, and in another array eight bytes of BF16 rests. So loads are as wide as
// they can be and meet no bank twice, at the price of half as much memory again as the weights
// take.
#pragma once

#include <cstdint>
#include <string_view>

#include "cuda/resident_weights.cuh"

namespace mla_bench::cuda {

// A lane's view of the sets of one matrix, `tiles` of eight columns wide. Loads as RightTile does.
class SplitTile {
 public:
  __device__ SplitTile(const uint4* large, const uint2* rests, int tiles, int lane)
      : large_(large + lane), rests_(rests + lane), tiles_(tiles) {}

  __device__ void load(RightOperand<Math::kTf32AndBf16> (&right)[2], int step, int column) const {
    const int first = (step * tiles_ + column / kStepColumns) * 32;
#pragma unroll
    for (int tile = 0; tile < 2; ++tile) {
      const uint4 large = large_[first + tile * 32];
      const uint2 rests = rests_[first + tile * 32];
      right[tile] = RightOperand<Math::kTf32AndBf16>({large.x, large.y, large.z, large.w},
                                                     {rests.x, rests.y});
    }
  }

 private:
  const uint4* large_;
  const uint2* rests_;
  int tiles_;
};

// w_down, and behind it w_up_k | w_up_v, in a block's shared memory.
template <int MaxRank>
class SplitWeights {
 public:
  static constexpr Math M = Math::kTf32AndBf16;
  static constexpr std::string_view kName = "weights resident and split";

  // Pieces of shared memory; `depth` is the model dimension with what fills it up.
  static std::int64_t pieces(const Problem& problem, std::int64_t depth) {
    const std::int64_t down = depth / kStepDepth<M> * kDownTiles;
    const std::int64_t up = kUpSteps * (2 * problem.columns() / kStepColumns);
    return (down + up) * kSetPieces;
  }

  __device__ SplitWeights(Piece* shared, const Arguments<float>& args, int depth)
      : args_(args),
        down_steps_(depth / kStepDepth<M>),
        up_tiles_(2 * static_cast<int>(args.columns) / kStepColumns),
        large_(shared),
        rests_(reinterpret_cast<uint2*>(shared + sets() * 32)) {}

  __device__ Piece* end() const { return large_ + sets() * kSetPieces; }

  // Nothing can be copied before it is split.
  template <int Warps>
  __device__ void start_copies() const {}

  // The weights are there for every warp of the block, all of which take part. A warp splits the
  // sets of sixteen columns at a time, of which a lane has two neighbours in four rows.
  template <int Warps>
  __device__ void finish() const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int down_pairs = down_steps_ * (kDownTiles / 2);
    const int pairs = sets() / 2;
    const CopyOrder order(pairs);
#pragma unroll 4
    for (int i = static_cast<int>(threadIdx.x) / 32; i < pairs; i += Warps) {
      const int pair = order.at(i);
      float2 values[kRightWords<M>];
      if (pair < down_pairs) {
        load_down(values, pair, lane);
      } else {
        load_up(values, pair - down_pairs, lane);
      }
      store_split({values[0].x, values[1].x, values[2].x, values[3].x}, 2 * pair, lane);
      store_split({values[0].y, values[1].y, values[2].y, values[3].y}, 2 * pair + 1, lane);
    }
    __syncthreads();
  }

  __device__ SplitTile down(int lane) const {
    return {large_, rests_, kDownTiles, lane};
  }
  __device__ SplitTile up(int lane) const {
    const int before = down_steps_ * kDownTiles * 32;
    return {large_ + before, rests_ + before, up_tiles_, lane};
  }

 private:
  static constexpr int kDownTiles = ResidentWeights<M, MaxRank>::kDownTiles;
  static constexpr int kUpSteps = ResidentWeights<M, MaxRank>::kUpSteps;
  static constexpr int kSetPieces = 32 + 32 / 2;
  static_assert(kRightWords<M> == 4 && kDownTiles % 2 == 0);

  __device__ int sets() const {
    return down_steps_ * kDownTiles + kUpSteps * up_tiles_;
  }

  // Row of the i-th of a lane's values, and its two columns, of a pair of sets.
  static __device__ int row(int step, int i, int lane) {
    return step * kStepDepth<M> + 4 * i + lane % 4;
  }
  static __device__ int column(int pair, int lane) {
    return 2 * (pair * kStepColumns + lane / 4);
  }

  static __device__ float2 load(const float* from, bool is_valid) {
    return is_valid ? *reinterpret_cast<const float2*>(from) : make_float2(0, 0);
  }

  __device__ void load_down(float2 (&values)[kRightWords<M>], int pair, int lane) const {
    const int first_column = column(pair % (kDownTiles / 2), lane);
#pragma unroll
    for (int i = 0; i < kRightWords<M>; ++i) {
      const std::int64_t k = row(pair / (kDownTiles / 2), i, lane);
      values[i] = load(args_.w_down + k * args_.rank + first_column,
                       k < args_.model_dim && first_column < args_.rank);
    }
  }

  __device__ void load_up(float2 (&values)[kRightWords<M>], int pair, int lane) const {
    const int first_column = column(pair % (up_tiles_ / 2), lane);
    const float* const w_up = first_column < args_.columns
                                  ? args_.w_up_k + first_column
                                  : args_.w_up_v + first_column - args_.columns;
#pragma unroll
    for (int i = 0; i < kRightWords<M>; ++i) {
      const std::int64_t rank = rank_of_up_row(row(pair / (up_tiles_ / 2), i, lane));
      values[i] = load(w_up + rank * args_.columns, rank < args_.rank);
    }
  }

  __device__ void store_split(const float (&values)[kRightWords<M>], int set, int lane) const {
    std::uint32_t words[kRightWords<M>];
#pragma unroll
    for (int i = 0; i < kRightWords<M>; ++i) {
      words[i] = __float_as_uint(values[i]);
    }
    const RightOperand<M> split(words);
    large_[set * 32 + lane] =
        make_uint4(split.words[0][0], split.words[0][1], split.words[1][0], split.words[1][1]);
    rests_[set * 32 + lane] = make_uint2(split.rest[0], split.rest[1]);
  }

  const Arguments<float>& args_;
  int down_steps_;
  int up_tiles_;
  uint4* large_;
  uint2* rests_;
};

}  // namespace mla_bench::cuda
