// Operands of tensor cores in shared memory, in rows of 16-byte pieces that lie so that the lanes
// which load at a time never meet in a bank.
#pragma once

#include <cstdint>

#include "cuda/copy_async.cuh"
#include "cuda/mma.cuh"

namespace mla_bench::cuda {

template <Math M>
inline constexpr int kPieceElements = 16 / static_cast<int>(sizeof(StoredElement<M>));

// Four matrices of eight rows, each a piece; lane l gives the address of row l % 8 of matrix l / 8.
// Lane 4 g + q gets the q-th word of row g of each; transposed, the words of column g.
__device__ inline void load_matrices(std::uint32_t* words, const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(row)))
               : "memory");
}
__device__ inline void load_transposed(std::uint32_t* words, const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(row)))
               : "memory");
}

// A left tile has its rows one behind the other, the depth along a row, `Pieces` of it. The pieces
// of eight neighbouring rows change places, each row in its own way.
template <int Pieces>
__device__ int left_place(int row, int piece) {
  static_assert(Pieces % 8 == 0);
  return row * Pieces + (piece ^ (row % 8));
}

// The left operand of `step` of 16 rows, of which `rows` is the first: the 0th, 16th and so on.
template <Math M, int Pieces>
__device__ LeftOperand<M> load_left(const Piece* rows, int step, int lane) {
  constexpr int kLoads = kLeftWords<M> / 4;
  std::uint32_t words[kLeftWords<M>];
#pragma unroll
  for (int i = 0; i < kLoads; ++i) {
    const int piece = 2 * (step * kLoads + i) + lane / 16;
    load_matrices(&words[4 * i], rows + left_place<Pieces>(lane % 16, piece));
  }
  return LeftOperand<M>(words);
}

// A right tile is a weight matrix as it is: the columns along a row, rows one behind the other
// along the depth, this many pieces from each other: enough for so many columns, and such that the
// eight (16-bit) or four (fp32) rows that are loaded from at a time start in different banks.
template <Math M>
__host__ __device__ constexpr int right_pitch(int columns) {
  const int pieces = columns / kPieceElements<M>;
  return kIs16Bit<M> ? pieces | 1 : (pieces + 1) / 4 * 4 + 2;
}

// A lane's view of a right tile. `IsReady` says that its words need no rounding any more.
template <Math M, bool IsReady = false>
class RightTile {
 public:
  __device__ RightTile(const Piece* matrix, int pitch, int lane) : pitch_(pitch) {
    if constexpr (kIs16Bit<M>) {
      own_ = reinterpret_cast<const uint2*>(matrix + lane % 16 * pitch + lane / 16);
    } else {
      own_ = reinterpret_cast<const uint2*>(matrix + lane % 4 * pitch) + lane / 4;
    }
  }

  // The right operands of two tiles, whose 16 columns start at `column`, for `step` of the depth.
  // In fp32 the two interleave, which makes one load of two: the first has columns 0, 2, 4 .., the
  // second 1, 3, 5 ... In a 16-bit type they lie side by side.
  __device__ void load(RightOperand<M> (&right)[2], int step, int column) const {
    const uint2* const from = own_ + (step * kStepDepth<M> * pitch_ + column / kPieceElements<M>)*2;
    std::uint32_t words[2][kRightWords<M>];
    if constexpr (kIs16Bit<M>) {
      load_transposed(&words[0][0], from);
    } else {
#pragma unroll
      for (int i = 0; i < kRightWords<M>; ++i) {
        const uint2 pair = from[i * 4 * pitch_ * 2];
        words[0][i] = pair.x;
        words[1][i] = pair.y;
      }
    }
#pragma unroll
    for (int tile = 0; tile < 2; ++tile) {
      if constexpr (IsReady) {
#pragma unroll
        for (int i = 0; i < kRightWords<M>; ++i) {
          right[tile].words[i] = words[tile][i];
        }
      } else {
        right[tile] = RightOperand<M>(words[tile]);
      }
    }
  }

 private:
  const uint2* own_;
  int pitch_;
};

// Turns a square of words, one row a lane of a quad, into its transpose: word w of lane q becomes
// word q of lane w.
__device__ inline void transpose_in_quad(std::uint32_t (&words)[4], int quad) {
  // Swaps, between lanes `apart` from each other, the words that lie across the diagonal.
#pragma unroll
  for (int apart = 1; apart <= 2; apart *= 2) {
    const bool is_upper = (quad & apart) != 0;
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      if ((w & apart) == 0) {
        const std::uint32_t kept = is_upper ? words[w | apart] : words[w];
        const std::uint32_t got =
            __shfl_xor_sync(0xffffffffu, is_upper ? words[w] : words[w | apart], apart);
        words[w] = is_upper ? got : kept;
        words[w | apart] = is_upper ? kept : got;
      }
    }
  }
}

// The sums of one row's 32 columns in four tiles, two pairs of a RightTile's, as this lane stores
// them: kPieces pieces, and piece p belongs to columns column_of_piece(p) and on. Every lane
// of the warp takes part.
template <Math M>
struct OutputRow {
  static constexpr int kTiles = 4;
  static constexpr int kColumns = kTiles * kStepColumns;
  static constexpr int kPieces = kIs16Bit<M> ? 1 : 2;

  static __device__ int column_of_piece(int piece, int quad) {
    return kIs16Bit<M> ? 8 * quad : 16 * piece + 4 * quad;
  }

  // `total(tile, which)`: this lane's sum in the first or second of its columns of a tile.
  template <typename Total>
  __device__ OutputRow(int quad, const Total& total) {
    std::uint32_t words[kPieces][4];
    if constexpr (kIs16Bit<M>) {
      // Two columns of every tile become all eight of one.
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        words[0][tile] = pack<M>(total(tile, 0), total(tile, 1));
      }
      transpose_in_quad(words[0], quad);
    } else {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        words[i / 4][i % 4] = __float_as_uint(total(i / 4 * 2 + i % 2, i % 4 / 2));
      }
    }
#pragma unroll
    for (int piece = 0; piece < kPieces; ++piece) {
      pieces[piece] =
          make_uint4(words[piece][0], words[piece][1], words[piece][2], words[piece][3]);
    }
  }

  Piece pieces[kPieces];
};

}  // namespace mla_bench::cuda
