// cooperative: the blocks of a cluster compute the latent of their rows once, together, keep it on
// chip, and make k and v from it.
//
//    hidden (T, Dm)   w_down (Dm, R)       latent (rows, R)            w_up_k | w_up_v
//    [          ]     [  |  |  |  ]       [ 0| 1| 2| 3]             [0 |1 |2 |3 |0 |1 |2 |3 ]
//    [ row tile ]  @  [ 0| 1| 2| 3]   =   each block makes its   @  [  |  |  |  |  |  |  |  ]  = kv
//    [          ]     [  |  |  |  ]       columns and stores        64-column tiles, dealt out
//                      block of 4         them to all the others    to the blocks in turn
//
// Needs: sm_80, and shared memory for the latent of four rows (4 R floats and 38 KiB of stages);
// clusters from sm_90, before that a block works alone. Limits: one hop between blocks in the
// middle (0.2 us on an H200), every cluster streams all weights from the second-level cache, and
// FMA. Improves on tiled: no latent is computed twice, and each weight is loaded once a row tile.
//
// Few rows of the default widths have a form of their own (cuda/cooperative_cluster.cuh), which
// takes 4.3 us where the general one takes 4.9 (H200, 4x96x256 in fp32).

#include <array>

#include "cuda/cluster.cuh"
#include "cuda/cooperative_cluster.cuh"
#include "cuda/projection.cuh"

namespace mla_bench::cuda {
namespace {

constexpr int kTileColumns = 64;
constexpr int kMaxCluster = 8;  // the largest that every device with clusters takes

// The two products of a cluster with `Rows` rows, `LatentColumns` of the latent at a time. Few sums
// a tile leave threads over, which share the depth out among them.
template <int Rows, int LatentColumns>
struct Tiles;

template <>
struct Tiles<64, 64> {
  using Down = Tile<64, 64, /*Depth*/ 32, /*Slices*/ 1>;
  using Up = Tile<64, kTileColumns, /*Depth*/ 32, /*Slices*/ 1>;
};

template <>
struct Tiles<16, 64> {
  using Down = Tile<16, 64, /*Depth*/ 64, /*Slices*/ 4>;
  using Up = Tile<16, kTileColumns, /*Depth*/ 64, /*Slices*/ 1>;
};

// For low ranks, where latency is all: the whole of a model dimension of 256 is in flight at once.
template <>
struct Tiles<16, 16> {
  using Down = Tile<16, 16, /*Depth*/ 256, /*Slices*/ 8>;
  using Up = Tile<16, kTileColumns, /*Depth*/ 64, /*Slices*/ 1>;
};

template <>
struct Tiles<4, 64> {
  using Down = Tile<4, 64, /*Depth*/ 64, /*Slices*/ 4>;
  using Up = Tile<4, kTileColumns, /*Depth*/ 64, /*Slices*/ 4>;
};

template <int Rows, int LatentColumns>
using Layout = SharedLayout<typename Tiles<Rows, LatentColumns>::Down,
                            typename Tiles<Rows, LatentColumns>::Up>;

// Columns of the latent that each block of a cluster computes.
__host__ __device__ constexpr int latent_share(std::int64_t rank, int cluster) {
  const int quads = static_cast<int>(ceil_div(rank, kQuad));
  return (quads + cluster - 1) / cluster * kQuad;
}

template <int Rows, int LatentColumns, bool Aligned, typename T>
__global__ void __launch_bounds__(kThreads, kMinBlocks)
    cooperative_kernel(const __grid_constant__ Arguments<T> args) {
  using Down = typename Tiles<Rows, LatentColumns>::Down;
  using Up = typename Tiles<Rows, LatentColumns>::Up;
  using Memory = Layout<Rows, LatentColumns>;
  extern __shared__ float4 shared_memory[];
  float* const shared = reinterpret_cast<float*>(shared_memory);
  // Peers' shared memory may be written only once they are there, which they say here.
  cluster_arrive_relaxed();
  const int blocks = cluster_size();
  const int block = rank_in_cluster();
  const std::int64_t first_row = std::int64_t{static_cast<int>(blockIdx.x) / blocks} * Rows;
  const int padded_rank = static_cast<int>(round_up(args.rank, kQuad));
  const int share = latent_share(args.rank, blocks);
  const int first = min(block * share, padded_rank);
  const int end = min(first + share, padded_rank);

  DownProjection<Down, Memory, Aligned, T> down(args, first_row, first, end, shared);
  UpProjection<Up, Memory, Aligned, T> up(args, block, /*stride*/ blocks, shared);
  cluster_wait();
  down.run([&](int row, int column, const Quad<float>& quad) {
    Quad<float>* const place = latent_quad<Memory>(shared, args.rank, row, column);
    for (int peer = 0; peer < blocks; ++peer) {
      store_to_rank(place, peer, quad);
    }
  });
  // Every block's latent is whole, and all reads of the down-projection's stages are done before
  // the up-projection refills them. Nothing is stored to a peer from here on, so none need wait to
  // leave.
  cluster_arrive();
  cluster_wait();
  up.run(first_row);
}

template <typename T>
Kernel<T> kernel_of(const Cut& cut, bool aligned) {
  switch (cut.rows) {
    case 64:
      return aligned ? cooperative_kernel<64, 64, true, T> : cooperative_kernel<64, 64, false, T>;
    case 16:
      if (cut.latent_columns == 16) {
        return cooperative_kernel<16, 16, true, T>;
      }
      return aligned ? cooperative_kernel<16, 64, true, T> : cooperative_kernel<16, 64, false, T>;
    default:
      return aligned ? cooperative_kernel<4, 64, true, T> : cooperative_kernel<4, 64, false, T>;
  }
}

// The largest cluster with which all blocks still run at once, each with a column tile to make.
int cluster_for(std::int64_t row_tiles, const Problem& problem, const Device& device) {
  const std::int64_t tiles = 2 * ceil_div(problem.columns(), kTileColumns);
  int cluster = device.sm >= kFirstWithClusters ? kMaxCluster : 1;
  while (cluster > 1 && (row_tiles * cluster > device.multiprocessors || cluster > tiles)) {
    cluster /= 2;
  }
  return cluster;
}

template <int Rows, int LatentColumns>
Cut cut(const Problem& problem, const Device& device) {
  const std::int64_t row_tiles = ceil_div(problem.rows(), Rows);
  const int cluster = cluster_for(row_tiles, problem, device);
  return {.rows = Rows,
          .latent_columns = LatentColumns,
          .shape = {.blocks = row_tiles * cluster,
                    .threads = kThreads,
                    .cluster = cluster,
                    .shared_bytes = Layout<Rows, LatentColumns>::bytes(problem.rank)}};
}

std::array<Cut, 3> cuts(const Problem& problem, const Device& device) {
  // Shares of up to two narrow tiles; wider ones load hidden fewer times in wide tiles. (And ragged
  // rows have no loads in flight, for which the narrow tile is.)
  const Cut narrow = cut<16, 16>(problem, device);
  const bool low_rank =
      rows_are_aligned(problem) &&
      latent_share(problem.rank, narrow.shape.cluster) <= 2 * narrow.latent_columns;
  return {cut<64, 64>(problem, device), low_rank ? narrow : cut<16, 64>(problem, device),
          cut<4, 64>(problem, device)};
}

std::optional<std::string> why_not(const Problem& problem, Precision precision,
                                   const Device& device) {
  if (auto reason = why_not_fma(precision, device)) {
    return reason;
  }
  return why_not_cuts(cuts(problem, device), device);
}

// The form for few rows of the widths that it is compiled for: those of the default problem.
template <typename T, int ModelDim, int Rank, int Columns>
std::optional<Prepared> prepare_cluster(const Problem& problem, const Device& device) {
  using Plan = CooperativeClusterPlan<ModelDim, Rank, Columns>;
  constexpr int kBlocksPerMultiprocessor = 4;
  const std::int64_t blocks = ceil_div(problem.rows(), Plan::kRows) * Plan::kBlocks;
  if (device.sm < kFirstWithClusters || problem.model_dim != ModelDim || problem.rank != Rank ||
      problem.columns() != Columns || blocks > kBlocksPerMultiprocessor * device.multiprocessors) {
    return std::nullopt;
  }
  return prepare_kernel<T>(
      cooperative_cluster_kernel<T, ModelDim, Rank, Columns>,
      std::to_string(Plan::kRows) + " rows a cluster of " + std::to_string(Plan::kBlocks) +
          ", compiled for these widths",
      {.blocks = blocks,
       .threads = Plan::kThreads,
       .cluster = Plan::kBlocks,
       .shared_bytes = sizeof(CooperativeClusterMemory<T, ModelDim, Rank, Columns>)},
      problem);
}

Prepared prepare(const Problem& problem, Precision precision, const Device& device) {
  const Cut cut = choose(cuts(problem, device), device).value();
  const std::string name = std::to_string(cut.rows) + " rows a cluster of " +
                           std::to_string(cut.shape.cluster) + ", latent in " +
                           std::to_string(cut.latent_columns) + "-column tiles";
  return with_element(stored_type(precision), [&]<typename T>(T) {
    if (auto cluster = prepare_cluster<T, 256, 48, 128>(problem, device)) {
      return *std::move(cluster);
    }
    return prepare_kernel<T>(kernel_of<T>(cut, rows_are_aligned(problem)), name, cut.shape,
                             problem);
  });
}

}  // namespace

extern const Variant cooperative;
constinit const Variant cooperative{
    .name = "cooperative",
    .summary = "a cluster computes the latent of its rows once, keeps it on chip, makes k and v",
    .backend = Backend::kCuda,
    .unit = fma_unit,
    .executed_flops = credited_flops,
    .workspace_bytes = no_workspace,
    .why_not = why_not,
    .prepare = prepare,
};

}  // namespace mla_bench::cuda
