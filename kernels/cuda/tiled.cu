// tiled: a block owns one tile of kv and computes the latent of the tile's rows for itself, both
// projections through shared-memory tiles.
//
//     hidden (T, Dm)    w_down (Dm, R)    latent, on chip      w_up_k or w_up_v (R, HD)
//     [           ]                                             [      |64|       ]
//     [ row  tile ]  @  [          ]   =  [ row tile ]    @     [      |64|       ]  =  one tile of
//     kv [           ]                                             [      |64|       ]
//
// Needs: sm_80, and shared memory for the latent of four rows (4 R floats and 38 KiB of stages).
// Limits: the blocks of a row tile, one for 64 columns of k or of v, all compute the same latent.
// Improves on naive: a latent serves 64 columns instead of one, and a loaded value a whole tile.

#include <array>

#include "cuda/projection.cuh"

namespace mla_bench::cuda {
namespace {

constexpr int kTileColumns = 64;

// The two products of a block with `Rows` rows. Few rows are few sums, so the threads also share
// the depth out among them.
template <int Rows>
struct Tiles;

template <>
struct Tiles<64> {
  using Down = Tile<64, kTileColumns, /*Depth*/ 32, /*Slices*/ 1>;
  using Up = Tile<64, kTileColumns, /*Depth*/ 32, /*Slices*/ 1>;
};

template <>
struct Tiles<16> {
  using Down = Tile<16, kTileColumns, /*Depth*/ 64, /*Slices*/ 4>;
  using Up = Tile<16, kTileColumns, /*Depth*/ 64, /*Slices*/ 1>;
};

template <>
struct Tiles<4> {
  using Down = Tile<4, kTileColumns, /*Depth*/ 64, /*Slices*/ 4>;
  using Up = Tile<4, kTileColumns, /*Depth*/ 64, /*Slices*/ 4>;
};

template <int Rows>
using Layout = SharedLayout<typename Tiles<Rows>::Down, typename Tiles<Rows>::Up>;

// Blocks that share a row tile are neighbours in the grid, so that hidden's rows stay in the cache.
template <int Rows, bool Aligned, typename T>
__global__ void __launch_bounds__(kThreads, kMinBlocks)
    tiled_kernel(const __grid_constant__ Arguments<T> args) {
  using Down = typename Tiles<Rows>::Down;
  using Up = typename Tiles<Rows>::Up;
  extern __shared__ float4 shared_memory[];
  float* const shared = reinterpret_cast<float*>(shared_memory);
  const int tiles = 2 * column_tiles(args.columns, kTileColumns);
  const int row_tile = static_cast<int>(blockIdx.x) / tiles;
  const int own_tile = static_cast<int>(blockIdx.x) % tiles;
  const std::int64_t first_row = std::int64_t{row_tile} * Rows;

  UpProjection<Up, Layout<Rows>, Aligned, T> up(args, own_tile, /*stride*/ tiles, shared);
  DownProjection<Down, Layout<Rows>, Aligned, T> down(
      args, first_row, 0, static_cast<int>(round_up(args.rank, kQuad)), shared);
  down.run([&](int row, int column, const Quad<float>& quad) {
    *latent_quad<Layout<Rows>>(shared, args.rank, row, column) = quad;
  });
  // All reads of the down-projection's stages are done before the up-projection refills them.
  __syncthreads();
  up.run(first_row);
}

template <typename T>
Kernel<T> kernel_of(const Cut& cut, bool aligned) {
  switch (cut.rows) {
    case 64:
      return aligned ? tiled_kernel<64, true, T> : tiled_kernel<64, false, T>;
    case 16:
      return aligned ? tiled_kernel<16, true, T> : tiled_kernel<16, false, T>;
    default:
      return aligned ? tiled_kernel<4, true, T> : tiled_kernel<4, false, T>;
  }
}

template <int Rows>
Cut cut(const Problem& problem) {
  return {.rows = Rows,
          .latent_columns = Tiles<Rows>::Down::kCols,
          .shape = {.blocks = ceil_div(problem.rows(), Rows) * 2 *
                              ceil_div(problem.columns(), kTileColumns),
                    .threads = kThreads,
                    .shared_bytes = Layout<Rows>::bytes(problem.rank)}};
}

std::array<Cut, 3> cuts(const Problem& problem) {
  return {cut<64>(problem), cut<16>(problem), cut<4>(problem)};
}

double executed_flops(const Problem& problem) {
  const double times_latent = 2.0 * static_cast<double>(ceil_div(problem.columns(), kTileColumns));
  return 2.0 * static_cast<double>(problem.rows()) * static_cast<double>(problem.rank) *
         (times_latent * static_cast<double>(problem.model_dim) +
          2.0 * static_cast<double>(problem.columns()));
}

std::optional<std::string> why_not(const Problem& problem, Precision precision,
                                   const Device& device) {
  if (auto reason = why_not_fma(precision, device)) {
    return reason;
  }
  return why_not_cuts(cuts(problem), device);
}

Prepared prepare(const Problem& problem, Precision precision, const Device& device) {
  const Cut cut = choose(cuts(problem), device).value();
  const std::string name =
      std::to_string(cut.rows) + " rows x " + std::to_string(kTileColumns) + " columns a block";
  return with_element(stored_type(precision), [&]<typename T>(T) {
    return prepare_kernel<T>(kernel_of<T>(cut, rows_are_aligned(problem)), name, cut.shape,
                             problem);
  });
}

}  // namespace

extern const Variant tiled;
constinit const Variant tiled{
    .name = "tiled",
    .summary = "shared-memory tiles; the latent of a row tile is recomputed per column tile",
    .backend = Backend::kCuda,
    .unit = fma_unit,
    .executed_flops = executed_flops,
    .workspace_bytes = no_workspace,
    .why_not = why_not,
    .prepare = prepare,
};

}  // namespace mla_bench::cuda
