// tensor_core for everything else: two matrix products, one kernel each, with the latent in global
// memory between them. k and v are one launch, so that they share the latent while it is in the
// second-level cache.
//
// A block makes a tile of the product: it copies the tile's rows and columns, 128 bytes of the
// depth at a time, through a ring of stages, from which its warps load fragments without bank
// conflicts. Rows that are no multiple of 16 bytes are loaded by element instead of copied.
#pragma once

#include <cstdint>

#include "cuda/element.cuh"
#include "cuda/launch.cuh"
#include "cuda/shared_operands.cuh"

namespace mla_bench::cuda {

// rows (rows, depth) @ weights[half] (depth, columns) = products[half] (rows, columns).
template <typename T>
struct Product {
  const T* rows;
  const T* weights[2];
  T* products[2];
  std::int64_t row_count;
  std::int64_t depth;
  std::int64_t columns;
  int row_tiles;
  int column_tiles;  // of all halves
};

// A block's tile and how its warps share it.
template <Math M_, int Rows, int Columns, int WarpRows, int WarpColumns, bool Aligned>
struct ProductTile {
  static constexpr Math M = M_;
  static constexpr bool kAligned = Aligned;
  static constexpr int kRows = Rows;
  static constexpr int kColumns = Columns;
  static constexpr int kWarpRows = WarpRows;
  static constexpr int kWarpColumns = WarpColumns;
  static constexpr int kRowWarps = Rows / WarpRows;
  static constexpr int kWarps = kRowWarps * (Columns / kWarpColumns);
  static constexpr int kThreads = 32 * kWarps;
  // Two blocks hide each other's waits where their sums leave registers for it.
  static constexpr int kMinBlocks = M == Math::kTf32AndBf16 ? 1 : 2;
  static constexpr int kRowSteps = WarpRows / kStepRows;
  static constexpr int kColumnSteps = kWarpColumns / kStepColumns;
  static_assert(kColumnSteps % OutputRow<M>::kTiles == 0);

  static constexpr int kPiece = kPieceElements<M>;
  static constexpr int kRowPieces = 8;  // of a row of the left tile: 128 bytes of the depth
  static constexpr int kDepth = kRowPieces * kPiece;
  static constexpr int kSteps = kDepth / kStepDepth<M>;
  static constexpr int kColumnPieces = Columns / kPiece;  // of a row of the right tile
  static constexpr int kRightPitch = right_pitch<M>(Columns);
  static constexpr int kLeftPieces = Rows * kRowPieces;
  static constexpr int kRightPieces = kDepth * kRightPitch;
  static constexpr int kStagePieces = kLeftPieces + kRightPieces;
  static constexpr int kStages = 3;
  static constexpr int kSharedBytes = kStages * kStagePieces * static_cast<int>(sizeof(Piece));

  // Rows of tiles that blocks work through together, so that they share what they load.
  static constexpr int kRasterRows = 16;
};

// Copies `Rows` rows of a matrix, `Pieces` of each, into a stage, as many of them as exist, and
// zeros for the others. A thread copies the same column of every kRowStep-th row.
template <int Rows, int Pieces, int Threads, bool Aligned, typename T>
class PieceCopier {
 public:
  // `matrix` is (rows, columns); the first stage starts at (first_row, first_column).
  __device__ PieceCopier(const T* matrix, std::int64_t rows, std::int64_t columns,
                         std::int64_t first_row, std::int64_t first_column)
      : row_(first_row + static_cast<int>(threadIdx.x) / Pieces),
        column_(first_column + piece() * kElements),
        rows_(rows),
        columns_(columns),
        matrix_(matrix),
        source_(matrix + row_ * columns + column_) {}

  // To the place that `place(row, piece)` gives each.
  template <typename Place>
  __device__ void copy(Piece* stage, const Place& place) const {
    const T* source = source_;
#pragma unroll
    for (int i = 0; i < Rows / kRowStep; ++i) {
      const int row = static_cast<int>(threadIdx.x) / Pieces + i * kRowStep;
      const bool row_is_valid = row_ + i * kRowStep < rows_;
      Piece* const to = stage + place(row, piece());
      if constexpr (Aligned) {
        const bool is_valid = row_is_valid && column_ < columns_;
        copy_async(to, is_valid ? source : matrix_, is_valid);
      } else {
        T* const elements = reinterpret_cast<T*>(to);
#pragma unroll
        for (int e = 0; e < kElements; ++e) {
          elements[e] = row_is_valid && column_ + e < columns_ ? source[e] : narrow<T>(0.0f);
        }
      }
      source += kRowStep * columns_;
    }
  }

  __device__ void advance_rows(int rows) {
    row_ += rows;
    source_ += rows * columns_;
  }
  __device__ void advance_columns(int columns) {
    column_ += columns;
    source_ += columns;
  }

 private:
  static constexpr int kElements = static_cast<int>(sizeof(Piece) / sizeof(T));
  static constexpr int kRowStep = Threads / Pieces;
  static_assert(Threads % Pieces == 0 && Rows % kRowStep == 0);

  static __device__ int piece() {
    return static_cast<int>(threadIdx.x) % Pieces;
  }

  std::int64_t row_;
  std::int64_t column_;
  std::int64_t rows_;
  std::int64_t columns_;
  const T* matrix_;
  const T* source_;
};

// Stores the first `valid` elements of a piece, all or none of them where rows are aligned.
template <bool Aligned, typename T>
__device__ void store_elements(T* to, std::int64_t valid, const Piece& piece) {
  if constexpr (Aligned) {
    if (valid > 0) {
      store_piece(to, piece);
    }
  } else {
    const T* const elements = reinterpret_cast<const T*>(&piece);
#pragma unroll
    for (int i = 0; i < static_cast<int>(sizeof(Piece) / sizeof(T)); ++i) {
      if (i < valid) {
        to[i] = elements[i];
      }
    }
  }
}

// Sums of a long product. Those of fp32 are taken out of the tensor core's accumulators, which
// cut where fp32 rounds, before the cuts add up: with the depth they would, all in one direction.
template <Math M>
class LongSums {
 public:
  template <int Which>
  __device__ void add(const LeftOperand<M>& left, const RightOperand<M>& right) {
    recent_.template add<Which>(left, right);
  }
  __device__ void settle() {
    if constexpr (M == Math::kTf32AndBf16) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        settled_[i] += recent_.total(i);
      }
      recent_ = {};
    }
  }
  __device__ float total(int at) const {
    if constexpr (M == Math::kTf32AndBf16) {
      return settled_[at];
    } else {
      return recent_.total(at);
    }
  }

 private:
  TileSums<M> recent_;
  float settled_[4] = {};
};

template <typename Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kMinBlocks)
    tensor_core_product_kernel(const __grid_constant__ Product<StoredElement<Tile::M>> args) {
  constexpr Math M = Tile::M;
  extern __shared__ Piece stages[];

  // Blocks take the tiles of kRasterRows rows of tiles column by column.
  const int raster_tiles = Tile::kRasterRows * args.column_tiles;
  const int raster = static_cast<int>(blockIdx.x) / raster_tiles;
  const int in_raster = static_cast<int>(blockIdx.x) % raster_tiles;
  const int raster_rows = min(Tile::kRasterRows, args.row_tiles - raster * Tile::kRasterRows);
  const std::int64_t first_row =
      std::int64_t{raster * Tile::kRasterRows + in_raster % raster_rows} * Tile::kRows;
  const int tiles_a_half = static_cast<int>(ceil_div(args.columns, Tile::kColumns));
  const int column_tile = in_raster / raster_rows;
  const int half_of_kv = column_tile / tiles_a_half;
  const std::int64_t first_column = std::int64_t{column_tile % tiles_a_half} * Tile::kColumns;
  const auto* const weights = half_of_kv == 0 ? args.weights[0] : args.weights[1];
  auto* const product = half_of_kv == 0 ? args.products[0] : args.products[1];

  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int warp_row = warp % Tile::kRowWarps * Tile::kWarpRows;
  const int warp_column = warp / Tile::kRowWarps * Tile::kWarpColumns;

  using Element = StoredElement<M>;
  PieceCopier<Tile::kRows, Tile::kRowPieces, Tile::kThreads, Tile::kAligned, Element> rows(
      args.rows, args.row_count, args.depth, first_row, 0);
  PieceCopier<Tile::kDepth, Tile::kColumnPieces, Tile::kThreads, Tile::kAligned, Element> columns(
      weights, args.depth, args.columns, 0, first_column);
  int steps_to_fetch = static_cast<int>(ceil_div(args.depth, Tile::kDepth));
  const int steps = steps_to_fetch;
  int fetch_stage = 0;
  const auto fetch = [&] {
    if (steps_to_fetch > 0) {
      Piece* const stage = stages + fetch_stage * Tile::kStagePieces;
      rows.copy(stage, left_place<Tile::kRowPieces>);
      columns.copy(stage + Tile::kLeftPieces,
                   [](int k, int piece) { return k * Tile::kRightPitch + piece; });
      rows.advance_columns(Tile::kDepth);
      columns.advance_rows(Tile::kDepth);
      fetch_stage = fetch_stage + 1 < Tile::kStages ? fetch_stage + 1 : 0;
      --steps_to_fetch;
    }
    close_copies();
  };
#pragma unroll
  for (int step = 0; step + 1 < Tile::kStages; ++step) {
    fetch();
  }

  LongSums<M> sums[Tile::kRowSteps][Tile::kColumnSteps];
  int stage = 0;
  for (int step = 0; step < steps; ++step) {
    wait_for_copies<Tile::kStages - 2>();
    // This stage is whole, and nobody reads the one before it, whose place the next fetch takes.
    __syncthreads();
    fetch();
    const Piece* const left_tile = stages + stage * Tile::kStagePieces;
    const RightTile<M> right_tile(left_tile + Tile::kLeftPieces, Tile::kRightPitch, lane);
    stage = stage + 1 < Tile::kStages ? stage + 1 : 0;
#pragma unroll
    for (int inner = 0; inner < Tile::kSteps; ++inner) {
      RightOperand<M> right[Tile::kColumnSteps / 2][2];
#pragma unroll
      for (int pair = 0; pair < Tile::kColumnSteps / 2; ++pair) {
        right_tile.load(right[pair], inner, warp_column + pair * 2 * kStepColumns);
      }
#pragma unroll
      for (int r = 0; r < Tile::kRowSteps; ++r) {
        const LeftOperand<M> left = load_left<M, Tile::kRowPieces>(
            left_tile + (warp_row + r * kStepRows) * Tile::kRowPieces, inner, lane);
        add_products<M>(sums[r], left, &right[0][0]);
      }
    }
#pragma unroll
    for (auto& row : sums) {
#pragma unroll
      for (LongSums<M>& tile : row) {
        tile.settle();
      }
    }
  }

  const int quad = lane % 4;
#pragma unroll
  for (int r = 0; r < Tile::kRowSteps; ++r) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::int64_t row = first_row + warp_row + r * kStepRows + half * 8 + lane / 4;
#pragma unroll
      for (int c = 0; c < Tile::kColumnSteps; c += OutputRow<M>::kTiles) {
        const OutputRow<M> out(
            quad, [&](int tile, int which) { return sums[r][c + tile].total(2 * half + which); });
        if (row < args.row_count) {
#pragma unroll
          for (int piece = 0; piece < OutputRow<M>::kPieces; ++piece) {
            const std::int64_t column = first_column + warp_column + c * kStepColumns +
                                        OutputRow<M>::column_of_piece(piece, quad);
            store_elements<Tile::kAligned>(product + row * args.columns + column,
                                           args.columns - column, out.pieces[piece]);
          }
        }
      }
    }
  }
}

}  // namespace mla_bench::cuda
