// The product that both projections are made of, by one block of threads on plain FMA: a tile of
// rows (hidden, streamed through shared memory, or the latent, resident there) times tiles of a
// weight matrix, streamed through shared memory.
//
//                     Cols
//                  +---------+     The depth is cut into stages of Depth. Two stages have a place
//            Depth | weights |     each: while one is multiplied, the next is on its way in
//                  +---------+     registers, as stored. Shared memory holds fp32 always.
//        Depth
//     +---------+  +---------+     A thread owns RowsPerThread x 4 sums. With Slices > 1 the
//     |  rows   |  |  sums   |     threads form that many groups, each of which takes every
//     +---------+  +---------+     Slices-th four of the depth; their sums are added in order,
//                                  so results are reproducible.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>

#include "cuda/element.cuh"
#include "cuda/launch.cuh"

namespace mla_bench::cuda {

inline constexpr int kThreads = 256;
// Blocks a multiprocessor must hold. One, said aloud: left to itself the compiler aims at more, and
// spills registers for it.
inline constexpr int kMinBlocks = 1;

template <int Rows, int Cols, int Depth, int Slices>
struct Tile {
  static constexpr int kRows = Rows;
  static constexpr int kCols = Cols;
  static constexpr int kDepth = Depth;
  static constexpr int kSlices = Slices;
  static constexpr int kSliceThreads = kThreads / Slices;
  static constexpr int kColGroups = Cols / kQuad;
  static constexpr int kRowGroups = kSliceThreads / kColGroups;
  static constexpr int kRowsPerThread = Rows / kRowGroups;
  static constexpr int kStage = Depth * Cols;  // floats of weights
  // Floats through which the slices' sums meet.
  static constexpr int kScratch = Slices > 1 ? (Slices* Rows* Cols) : 0;

  static_assert(kRowsPerThread * kRowGroups * kColGroups * Slices * kQuad == Rows * Cols * Slices &&
                    kRowGroups * kColGroups * Slices == kThreads,
                "every thread must own whole quads of the tile, or some sums would have no owner");
  static_assert(Depth % (kQuad * Slices) == 0, "slices of unequal depth would wait for each other");
};

// Distance between rows in shared memory, in floats: four past a multiple of eight, so that threads
// reading one quad each of consecutive rows meet different banks.
__host__ __device__ constexpr std::int64_t row_pitch(std::int64_t columns) {
  return round_up(columns, 8) + 4;
}

// Where things lie in a block's shared memory, in floats from its start. The latent, whose size
// depends on the problem, comes last.
template <typename Down, typename Up>
struct SharedLayout {
  static_assert(Down::kRows == Up::kRows, "both projections work on the block's rows");
  static constexpr int kHiddenStage = Down::kRows * static_cast<int>(row_pitch(Down::kDepth));
  static constexpr int kWeightStage = std::max(Down::kStage, Up::kStage);
  static constexpr int kWeights = 2 * kHiddenStage;
  static constexpr int kScratch = kWeights + 2 * kWeightStage;
  static constexpr int kLatent = kScratch + std::max(Down::kScratch, Up::kScratch);

  static constexpr std::int64_t bytes(std::int64_t rank) {
    return static_cast<std::int64_t>(sizeof(float)) * (kLatent + Down::kRows * row_pitch(rank));
  }
};

// What is left of a long dimension, for use within a tile.
__device__ constexpr int clamp_to(std::int64_t left, int most) {
  return left < most ? static_cast<int>(left) : most;
}

// A Rows x Cols block of a row-major matrix on its way to shared memory, where it is fp32: fetch()
// starts the loads, commit() waits for them. What lies beyond the valid part becomes zero.
template <int Rows, int Cols, typename T>
class QuadShipment {
 public:
  __device__ void fetch(const T* origin, std::int64_t pitch, std::int64_t valid_rows,
                        std::int64_t valid_columns) {
    const int rows = clamp_to(valid_rows, Rows);
    const int columns = clamp_to(valid_columns, Cols);
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      const bool valid = row_of(i) < rows && column_of(i) < columns;
      quads_[i] = valid ? load_packed(origin + row_of(i) * pitch + column_of(i)) : Packed<T>{};
    }
  }

  __device__ void commit(float* target, int pitch) const {
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      if (kWhole || row_of(i) < Rows) {
        *reinterpret_cast<Quad<float>*>(target + row_of(i) * pitch + column_of(i)) =
            widen(quads_[i]);
      }
    }
  }

 private:
  static constexpr int kPerRow = Cols / kQuad;
  static constexpr int kPerThread = (Rows * kPerRow + kThreads - 1) / kThreads;
  static constexpr bool kWhole = kPerThread * kThreads == Rows * kPerRow;

  static __device__ int row_of(int i) {
    return (static_cast<int>(threadIdx.x) + i * kThreads) / kPerRow;
  }
  static __device__ int column_of(int i) {
    return (static_cast<int>(threadIdx.x) + i * kThreads) % kPerRow * kQuad;
  }

  Packed<T> quads_[kPerThread];
};

// The same for rows that start anywhere: element by element, and all of it in commit().
template <int Rows, int Cols, typename T>
class ScalarShipment {
 public:
  __device__ void fetch(const T* origin, std::int64_t pitch, std::int64_t valid_rows,
                        std::int64_t valid_columns) {
    origin_ = origin;
    origin_pitch_ = pitch;
    rows_ = clamp_to(valid_rows, Rows);
    columns_ = clamp_to(valid_columns, Cols);
  }

  __device__ void commit(float* target, int pitch) const {
#pragma unroll 4
    for (int at = static_cast<int>(threadIdx.x); at < Rows * Cols; at += kThreads) {
      const int row = at / Cols;
      const int column = at % Cols;
      const bool valid = row < rows_ && column < columns_;
      target[row * pitch + column] = valid ? widen(origin_[row * origin_pitch_ + column]) : 0.0f;
    }
  }

 private:
  const T* origin_;
  std::int64_t origin_pitch_;
  int rows_;
  int columns_;
};

template <int Rows, int Cols, bool Aligned, typename T>
using Shipment =
    std::conditional_t<Aligned, QuadShipment<Rows, Cols, T>, ScalarShipment<Rows, Cols, T>>;

// Left operand: rows of a matrix in global memory, staged.
template <typename Tile, bool Aligned, typename T>
class StreamedRows {
 public:
  static constexpr int kPitch = static_cast<int>(row_pitch(Tile::kDepth));

  __device__ StreamedRows(const T* origin, std::int64_t rows, std::int64_t depth, float* stages)
      : origin_(origin), rows_(rows), depth_(depth), stages_(stages) {}

  __device__ void fetch(std::int64_t from) {
    shipment_.fetch(origin_ + from, depth_, rows_, depth_ - from);
  }
  __device__ void commit(int place) {
    shipment_.commit(stages_ + place * Tile::kRows * kPitch, kPitch);
  }
  __device__ const float* stage(int place, std::int64_t) const {
    return stages_ + place * Tile::kRows * kPitch;
  }
  __device__ int pitch() const { return kPitch; }

 private:
  const T* origin_;
  std::int64_t rows_;
  std::int64_t depth_;
  float* stages_;
  Shipment<Tile::kRows, Tile::kDepth, Aligned, T> shipment_;
};

// Left operand: the latent, already in shared memory, its columns zero up to a multiple of four.
class ResidentRows {
 public:
  __device__ ResidentRows(const float* latent, int pitch) : latent_(latent), pitch_(pitch) {}

  __device__ void fetch(std::int64_t) {}
  __device__ void commit(int) {}
  __device__ const float* stage(int, std::int64_t from) const { return latent_ + from; }
  __device__ int pitch() const { return pitch_; }

 private:
  const float* latent_;
  int pitch_;
};

// Columns of a weight matrix that one tile takes.
template <typename T>
struct Panel {
  const T* origin;  // row 0 of its first column
  std::int64_t columns;
};

// Right operand: the weights' tiles, staged. `locate` gives the panel of a tile.
template <typename Tile, bool Aligned, typename T, typename Locate>
class StreamedWeights {
 public:
  __device__ StreamedWeights(Locate locate, std::int64_t depth, std::int64_t pitch, float* stages)
      : locate_(locate), depth_(depth), pitch_(pitch), stages_(stages) {}

  __device__ void fetch(int tile, std::int64_t from) {
    const Panel<T> panel = locate_(tile);
    shipment_.fetch(panel.origin + from * pitch_, pitch_, depth_ - from, panel.columns);
  }
  __device__ void commit(int place) {
    shipment_.commit(stages_ + place * Tile::kDepth * Tile::kCols, Tile::kCols);
  }
  __device__ const float* stage(int place) const {
    return stages_ + place * Tile::kDepth * Tile::kCols;
  }

 private:
  Locate locate_;
  std::int64_t depth_;
  std::int64_t pitch_;
  float* stages_;
  Shipment<Tile::kDepth, Tile::kCols, Aligned, T> shipment_;
};

// A thread's sums and their place in the tile.
template <typename Tile>
class Sums {
 public:
  __device__ Sums() { clear(); }

  __device__ void clear() {
#pragma unroll
    for (Quad<float>& sum : sums_) {
      sum = {};
    }
  }

  // Adds rows (Rows, depth) @ weights (depth, Cols); both are zero from `depth` to the next four.
  __device__ void add_product(const float* rows, int pitch, const float* weights, int depth) {
    const float* const own_rows = rows + row_group() * pitch;
    const float* const own_columns = weights + col_group() * kQuad;
#pragma unroll 2
    for (int k = slice() * kQuad; k < depth; k += Tile::kSlices * kQuad) {
      Quad<float> left[Tile::kRowsPerThread];
#pragma unroll
      for (int r = 0; r < Tile::kRowsPerThread; ++r) {
        left[r] = load(own_rows + r * Tile::kRowGroups * pitch + k);
      }
#pragma unroll
      for (int j = 0; j < kQuad; ++j) {
        const Quad<float> right = load(own_columns + (k + j) * Tile::kCols);
#pragma unroll
        for (int r = 0; r < Tile::kRowsPerThread; ++r) {
#pragma unroll
          for (int c = 0; c < kQuad; ++c) {
            sums_[r].at[c] = fmaf(left[r].at[j], right.at[c], sums_[r].at[c]);
          }
        }
      }
    }
  }

  // Calls finish(row, column, quad) once for every quad of the tile, from whichever thread has it.
  template <typename Finish>
  __device__ void finish(float* scratch, const Finish& finish) const {
    if constexpr (Tile::kSlices == 1) {
#pragma unroll
      for (int r = 0; r < Tile::kRowsPerThread; ++r) {
        finish(row(r), col_group() * kQuad, sums_[r]);
      }
    } else {
      constexpr int kTileFloats = Tile::kRows * Tile::kCols;
#pragma unroll
      for (int r = 0; r < Tile::kRowsPerThread; ++r) {
        *reinterpret_cast<Quad<float>*>(scratch + slice() * kTileFloats + row(r) * Tile::kCols +
                                        col_group() * kQuad) = sums_[r];
      }
      // The slices' sums are in scratch before any of them is read. The next tile's sums come after
      // a barrier of its first stage, so that they cannot overtake these reads.
      __syncthreads();
      for (int at = static_cast<int>(threadIdx.x) * kQuad; at < kTileFloats;
           at += kThreads * kQuad) {
        Quad<float> total = load(scratch + at);
#pragma unroll
        for (int s = 1; s < Tile::kSlices; ++s) {
          const Quad<float> part = load(scratch + s * kTileFloats + at);
#pragma unroll
          for (int c = 0; c < kQuad; ++c) {
            total.at[c] += part.at[c];
          }
        }
        finish(at / Tile::kCols, at % Tile::kCols, total);
      }
    }
  }

 private:
  static __device__ int slice() {
    return static_cast<int>(threadIdx.x) / Tile::kSliceThreads;
  }
  static __device__ int col_group() {
    return static_cast<int>(threadIdx.x) % Tile::kColGroups;
  }
  static __device__ int row_group() {
    return static_cast<int>(threadIdx.x) % Tile::kSliceThreads / Tile::kColGroups;
  }
  // Row groups take every kRowGroups-th row: neighbours read neighbouring rows.
  static __device__ int row(int r) {
    return row_group() + r * Tile::kRowGroups;
  }
  static __device__ Quad<float> load(const float* shared) {
    return *reinterpret_cast<const Quad<float>*>(shared);
  }

  Quad<float> sums_[Tile::kRowsPerThread];
};

// Multiplies the left rows by each of the right operand's tiles and calls finish(tile, row, column,
// quad) for every quad of every product. The caller has fetched the first stage of both operands,
// and nobody uses the stages any more.
template <typename Tile, typename Left, typename Right, typename Finish>
__device__ void multiply(Left& left, Right& right, int tiles, std::int64_t depth, float* scratch,
                         const Finish& finish) {
  Sums<Tile> sums;
  int tile = 0;
  std::int64_t from = 0;
  int place = 0;
  while (tile < tiles) {
    const bool last_of_tile = from + Tile::kDepth >= depth;
    const int next_tile = last_of_tile ? tile + 1 : tile;
    const std::int64_t next_from = last_of_tile ? 0 : from + Tile::kDepth;
    left.commit(place);
    right.commit(place);
    // This stage is written (and, the first time, the latent); and after this barrier nobody reads
    // the stage before it, whose place the next commit takes.
    __syncthreads();
    if (next_tile < tiles) {
      left.fetch(next_from);
      right.fetch(next_tile, next_from);
    }
    sums.add_product(left.stage(place, from), left.pitch(), right.stage(place),
                     clamp_to(depth - from, Tile::kDepth));
    if (last_of_tile) {
      sums.finish(scratch, [&](int row, int column, const Quad<float>& quad) {
        finish(tile, row, column, quad);
      });
      sums.clear();
    }
    place ^= 1;
    tile = next_tile;
    from = next_from;
  }
}

// Tiles of `tile_columns` columns in so many columns. An int: no memory holds a w_up of 2^31 tiles.
__host__ __device__ constexpr int column_tiles(std::int64_t columns, int tile_columns) {
  return static_cast<int>(ceil_div(columns, tile_columns));
}

// Columns [first, end) of the latent of the block's rows; `first` is a multiple of four. The
// constructor starts the first loads.
template <typename Tile, typename Layout, bool Aligned, typename T>
class DownProjection {
 public:
  __device__ DownProjection(const Arguments<T>& args, std::int64_t first_row, int first, int end,
                            float* shared)
      : args_(args),
        panels_{args, first, end},
        shared_(shared),
        rows_(args.hidden + first_row * args.model_dim, args.rows - first_row, args.model_dim,
              shared),
        weights_(panels_, args.model_dim, args.rank, shared + Layout::kWeights) {
    rows_.fetch(0);
    weights_.fetch(0, 0);
  }

  // Calls keep(row, column, quad) for each quad of them. Columns beyond the rank are zero.
  template <typename Keep>
  __device__ void run(const Keep& keep) {
    const int tiles = column_tiles(panels_.end - panels_.first, Tile::kCols);
    multiply<Tile>(rows_, weights_, tiles, args_.model_dim, shared_ + Layout::kScratch,
                   [&](int tile, int row, int column_in_tile, Quad<float> quad) {
                     const int column = panels_.column(tile) + column_in_tile;
                     if (column < panels_.end) {
#pragma unroll
                       for (int c = 0; c < kQuad; ++c) {
                         // Not left to 0 * weight: an infinite hidden value would make it NaN.
                         quad.at[c] = column + c < args_.rank ? quad.at[c] : 0.0f;
                       }
                       keep(row, column, quad);
                     }
                   });
  }

 private:
  struct Panels {
    const Arguments<T>& args;
    int first;
    int end;

    __device__ int column(int tile) const { return first + tile * Tile::kCols; }
    __device__ Panel<T> operator()(int tile) const {
      return {args.w_down + column(tile), min(end, static_cast<int>(args.rank)) - column(tile)};
    }
  };

  const Arguments<T>& args_;
  Panels panels_;
  float* shared_;
  StreamedRows<Tile, Aligned, T> rows_;
  StreamedWeights<Tile, Aligned, T, Panels> weights_;
};

// The up-projection of the block's rows. Its column tiles are those of k, then those of v; the
// block takes `first_tile` and every `stride`-th after it. The constructor starts the loads of the
// first weights, which do not depend on the latent.
template <typename Tile, typename Layout, bool Aligned, typename T>
class UpProjection {
 public:
  __device__ UpProjection(const Arguments<T>& args, int first_tile, int stride, float* shared)
      : args_(args),
        panels_{args, column_tiles(args.columns, Tile::kCols), first_tile, stride},
        shared_(shared),
        weights_(panels_, args.rank, args.columns, shared + Layout::kWeights) {
    weights_.fetch(0, 0);
  }

  // The latent is in shared memory, or will be after the next barrier, and the stages are free.
  __device__ void run(std::int64_t first_row) {
    ResidentRows rows(shared_ + Layout::kLatent, static_cast<int>(row_pitch(args_.rank)));
    const std::int64_t valid_rows = args_.rows - first_row;
    const int tiles = (2 * panels_.per_half - panels_.first + panels_.stride - 1) / panels_.stride;
    multiply<Tile>(rows, weights_, tiles, args_.rank, shared_ + Layout::kScratch,
                   [&](int tile, int row, int column_in_tile, const Quad<float>& quad) {
                     const std::int64_t column = panels_.column(tile) + column_in_tile;
                     if (row < valid_rows) {
                       const std::int64_t half = panels_.is_v(tile) ? args_.rows : 0;
                       store_quad<Aligned>(
                           args_.kv + (half + first_row + row) * args_.columns + column,
                           clamp_to(args_.columns - column, kQuad), quad);
                     }
                   });
  }

 private:
  struct Panels {
    const Arguments<T>& args;
    int per_half;
    int first;
    int stride;

    __device__ bool is_v(int tile) const { return first + tile * stride >= per_half; }
    __device__ std::int64_t column(int tile) const {
      return std::int64_t{first + tile * stride - (is_v(tile) ? per_half : 0)} * Tile::kCols;
    }
    __device__ Panel<T> operator()(int tile) const {
      return {(is_v(tile) ? args.w_up_v : args.w_up_k) + column(tile), args.columns - column(tile)};
    }
  };

  const Arguments<T>& args_;
  Panels panels_;
  float* shared_;
  StreamedWeights<Tile, Aligned, T, Panels> weights_;
};

// Where a quad of the latent lies in a block's shared memory.
template <typename Layout>
__device__ Quad<float>* latent_quad(float* shared, std::int64_t rank, int row, int column) {
  return reinterpret_cast<Quad<float>*>(shared + Layout::kLatent +
                                        row * static_cast<int>(row_pitch(rank)) + column);
}

// One way to cut a problem into blocks of kThreads.
struct Cut {
  int rows = 0;            // of a block's (or its cluster's) tile
  int latent_columns = 0;  // of the down-projection's tile
  LaunchShape shape;
};

// Of the cuts that fit the device, in order of falling rows (more rows load fewer weights): the
// first whose blocks fill half of the multiprocessors, or else the one with the most blocks.
inline std::optional<Cut> choose(std::span<const Cut> cuts, const Device& device) {
  std::optional<Cut> best;
  for (const Cut& cut : cuts) {
    if (cut.shape.shared_bytes > device.shared_memory_per_block) {
      continue;
    }
    if (2 * cut.shape.blocks >= device.multiprocessors) {
      return cut;
    }
    if (!best || cut.shape.blocks >= best->shape.blocks) {
      best = cut;
    }
  }
  return best;
}

// Why none of the cuts can run, or why the chosen one cannot.
inline std::optional<std::string> why_not_cuts(std::span<const Cut> cuts, const Device& device) {
  const std::optional<Cut> cut = choose(cuts, device);
  if (!cut) {
    const Cut& smallest = cuts.back();
    return "keeps the latent of at least " + std::to_string(smallest.rows) +
           " rows on chip, for which a block needs " + std::to_string(smallest.shape.shared_bytes) +
           " bytes of shared memory; this device has " +
           std::to_string(device.shared_memory_per_block);
  }
  return why_not_blocks(static_cast<double>(cut->shape.blocks));
}

// Quads need rows that start at multiples of four elements in every tensor.
inline bool rows_are_aligned(const Problem& problem) {
  return problem.model_dim % kQuad == 0 && problem.rank % kQuad == 0 &&
         problem.columns() % kQuad == 0;
}

}  // namespace mla_bench::cuda
