// tensor_core: the cooperative idea on tensor cores, by mma.sync, in four forms.
//
//   cluster   few rows of a low rank, from sm_90: four blocks share the latent of sixteen rows
//   panel     some thousands: all weights in shared memory, a block makes 32 or 64 rows together
//   streamed  more: all weights stay in shared memory, hidden streams past them, warp by warp
//   tiled     everything else: two products with the latent in global memory between them
//
// fp32 splits its operands (cuda/mma.cuh): 3xTF32 in the cluster form, where preparing operands
// costs more than multiplying them, TF32 with BF16 for the rests in the others. tf32 rounds its
// operands to nearest; 16-bit types round the latent. Sums are made in a fixed order: a run repeats
// bit by bit.
//
// Needs: sm_80. Limits: mma.sync reaches half of what wgmma does on an H200, which shows where
// `tiled` is bound by arithmetic (DeepSeek-V3's shape in bf16 takes twice cuBLASLt's time), and
// forms with resident weights pay 2 us or more for them. Improves on cooperative: arithmetic costs
// a tenth, so that what remains at few rows is the way through the memories.

#include <array>
#include <optional>
#include <string>

#include "cuda/device_memory.cuh"
#include "cuda/launch.cuh"
#include "cuda/tensor_core_cluster.cuh"
#include "cuda/tensor_core_panel.cuh"
#include "cuda/tensor_core_streamed.cuh"
#include "cuda/tensor_core_tiled.cuh"

namespace mla_bench::cuda {
namespace {

// Calls visit with the Math of a precision as a constant.
template <typename Visit>
auto with_math(Precision precision, const Visit& visit) {
  switch (precision) {
    case Precision::kTf32:
      return visit(std::integral_constant<Math, Math::kTf32>());
    case Precision::kBf16:
      return visit(std::integral_constant<Math, Math::kBf16>());
    case Precision::kFp16:
      return visit(std::integral_constant<Math, Math::kFp16>());
    default:
      return visit(std::integral_constant<Math, Math::kTf32AndBf16>());
  }
}

// A kernel that makes everything in one launch.
template <Math M>
struct Fused {
  Kernel<StoredElement<M>> kernel;
  LaunchShape shape;
  std::string name;
};

// ---- cluster ------------------------------------------------------------------------------------

template <Math M, int ModelDim, int Rank, int Columns>
std::optional<Fused<M>> cluster_form(const Problem& problem, const Device& device) {
  // Where latency is all, the least preparation wins, not the fewest cycles of the tensor core.
  constexpr Math kMath = M == Math::kTf32AndBf16 ? Math::k3xTf32 : M;
  using Plan = ClusterPlan<kMath, ModelDim, Rank, Columns>;
  // Above this many blocks a multiprocessor, weights that stay in shared memory are faster (H200).
  constexpr int kBlocksPerMultiprocessor = 5;
  const std::int64_t blocks = ceil_div(problem.rows(), Plan::kRows) * Plan::kBlocks;
  if (device.sm < kFirstWithClusters || problem.model_dim != ModelDim || problem.rank != Rank ||
      problem.columns() != Columns || blocks > kBlocksPerMultiprocessor * device.multiprocessors) {
    return std::nullopt;
  }
  return Fused<M>{.kernel = tensor_core_cluster_kernel<kMath, ModelDim, Rank, Columns>,
                  .shape = {.blocks = blocks, .threads = Plan::kThreads, .cluster = Plan::kBlocks},
                  .name = std::to_string(Plan::kRows) + " rows a cluster of " +
                          std::to_string(Plan::kBlocks) + ", depth and rank halved"};
}

// ---- streamed -----------------------------------------------------------------------------------

template <Math M, int MaxRank, bool IsSplit>
std::optional<Fused<M>> streamed_form(const Problem& problem, const Device& device) {
  using Plan = StreamedPlan<M, MaxRank, IsSplit>;
  if (!Plan::Resident::can_hold(problem)) {
    return std::nullopt;
  }
  const std::int64_t bytes = Plan::shared_bytes(problem);
  if (bytes > device.shared_memory_per_block) {
    return std::nullopt;
  }
  const std::int64_t tiles = ceil_div(problem.rows(), Plan::kRows);
  return Fused<M>{.kernel = tensor_core_streamed_kernel<M, MaxRank, IsSplit>,
                  .shape = {.blocks = std::min<std::int64_t>(tiles, device.multiprocessors),
                            .threads = Plan::kThreads,
                            .shared_bytes = bytes},
                  .name = std::to_string(Plan::kRows) + " rows a warp, " +
                          std::string(Plan::Weights::kName) + ", " + std::to_string(Plan::kStages) +
                          " stages"};
}

// ---- panel --------------------------------------------------------------------------------------

template <Math M, int MaxRank, int RowTiles, int Parts>
std::optional<Fused<M>> panel_form(const Problem& problem, const Device& device) {
  using Plan = PanelPlan<M, MaxRank, RowTiles, Parts>;
  const std::int64_t bytes = Plan::shared_bytes(problem);
  const std::int64_t panels = ceil_div(problem.rows(), Plan::kRows);
  if (!Plan::Weights::can_hold(problem) || bytes > device.shared_memory_per_block ||
      panels > device.multiprocessors) {
    return std::nullopt;
  }
  return Fused<M>{.kernel = tensor_core_panel_kernel<M, MaxRank, RowTiles, Parts>,
                  .shape = {.blocks = panels, .threads = Plan::kThreads, .shared_bytes = bytes},
                  .name = std::to_string(Plan::kRows) + " rows a block, weights resident"};
}

template <Math M>
std::optional<Fused<M>> fused_form(const Problem& problem, const Device& device) {
  // Widths that the cluster form is compiled for: those of the default problem.
  if (auto form = cluster_form<M, 256, 48, 128>(problem, device)) {
    return form;
  }
  // The smallest panels of which every multiprocessor gets one at most.
  if (auto form = panel_form<M, 48, 2, 4>(problem, device)) {
    return form;
  }
  if (auto form = panel_form<M, 48, 4, 4>(problem, device)) {
    return form;
  }
  if constexpr (M == Math::kTf32AndBf16) {
    if (auto form = streamed_form<M, 48, true>(problem, device)) {
      return form;
    }
  }
  if (auto form = streamed_form<M, 48, false>(problem, device)) {
    return form;
  }
  return streamed_form<M, 64, false>(problem, device);
}

// ---- tiled --------------------------------------------------------------------------------------

// One product of the two: its kernel, and how its tiles cover it.
template <Math M>
struct TiledProduct {
  void (*kernel)(Product<StoredElement<M>>);
  int row_tiles;
  int column_tiles;
  LaunchShape shape;
  std::string name;
};

template <typename Tile>
TiledProduct<Tile::M> tiled_product(std::int64_t rows, std::int64_t columns, int halves) {
  const auto row_tiles = static_cast<int>(ceil_div(rows, Tile::kRows));
  const auto column_tiles = static_cast<int>(halves * ceil_div(columns, Tile::kColumns));
  return {.kernel = tensor_core_product_kernel<Tile>,
          .row_tiles = row_tiles,
          .column_tiles = column_tiles,
          .shape = {.blocks = std::int64_t{row_tiles} * column_tiles,
                    .threads = Tile::kThreads,
                    .shared_bytes = Tile::kSharedBytes},
          .name = std::to_string(Tile::kRows) + "x" + std::to_string(Tile::kColumns)};
}

// The large tile where its blocks fill at least half of the device.
template <Math M>
TiledProduct<M> tiled_product(std::int64_t rows, std::int64_t depth, std::int64_t columns,
                              int halves, const Device& device) {
  // Split fp32 holds three sums where others hold one.
  using Large = std::conditional_t<M == Math::kTf32AndBf16, ProductTile<M, 128, 64, 32, 32, true>,
                                   ProductTile<M, 128, 128, 64, 64, true>>;
  using Small = ProductTile<M, 64, 64, 32, 32, true>;
  using Ragged = ProductTile<M, 64, 64, 32, 32, false>;
  if (depth % Small::kPiece != 0 || columns % Small::kPiece != 0) {
    return tiled_product<Ragged>(rows, columns, halves);
  }
  const TiledProduct<M> large = tiled_product<Large>(rows, columns, halves);
  const bool fills = 2 * large.shape.blocks >= device.multiprocessors;
  return fills && large.shape.shared_bytes <= device.shared_memory_per_block
             ? large
             : tiled_product<Small>(rows, columns, halves);
}

template <Math M>
std::array<TiledProduct<M>, 2> tiled_form(const Problem& problem, const Device& device) {
  return {tiled_product<M>(problem.rows(), problem.model_dim, problem.rank, 1, device),
          tiled_product<M>(problem.rows(), problem.rank, problem.columns(), 2, device)};
}

template <Math M>
Prepared prepare_tiled(const Problem& problem, const Device& device) {
  using Element = StoredElement<M>;
  const auto [down, up] = tiled_form<M>(problem, device);
  allow_shared_memory(down.kernel, down.shape.shared_bytes);
  allow_shared_memory(up.kernel, up.shape.shared_bytes);
  const DeviceMemory latent =
      device_memory(problem.latent_count() * static_cast<std::int64_t>(sizeof(Element)));
  const auto bind = [problem, down = down, up = up, latent](const Operands& operands) -> Launch {
    const auto args = arguments<Element>(problem, operands);
    auto* const latent_data = reinterpret_cast<Element*>(latent.get());
    const Product<Element> first{.rows = args.hidden,
                                 .weights = {args.w_down, nullptr},
                                 .products = {latent_data, nullptr},
                                 .row_count = args.rows,
                                 .depth = args.model_dim,
                                 .columns = args.rank,
                                 .row_tiles = down.row_tiles,
                                 .column_tiles = down.column_tiles};
    const Product<Element> second{.rows = latent_data,
                                  .weights = {args.w_up_k, args.w_up_v},
                                  .products = {args.kv, args.kv + args.rows * args.columns},
                                  .row_count = args.rows,
                                  .depth = args.rank,
                                  .columns = args.columns,
                                  .row_tiles = up.row_tiles,
                                  .column_tiles = up.column_tiles};
    return [first, second, down, up, latent](Stream stream) {
      launch_kernel(down.kernel, down.shape, stream, first);
      launch_kernel(up.kernel, up.shape, stream, second);
    };
  };
  return {.choice = "two products, tiles of " + down.name + " and " + up.name, .bind = bind};
}

// ---- the variant --------------------------------------------------------------------------------

Unit unit(Precision) {
  return Unit::kTensorCore;
}

// At most: only the tiled form keeps the latent in global memory.
std::int64_t workspace_bytes(const Problem& problem, Precision precision, const Device&) {
  return problem.latent_count() * size_of(stored_type(precision));
}

std::optional<std::string> why_not(const Problem& problem, Precision precision,
                                   const Device& device) {
  if (auto reason = why_not_so_old(device)) {
    return reason;
  }
  return with_math(precision, [&](auto math) -> std::optional<std::string> {
    if (fused_form<math()>(problem, device)) {
      return std::nullopt;
    }
    for (const auto& product : tiled_form<math()>(problem, device)) {
      if (auto reason = why_not_blocks(static_cast<double>(product.shape.blocks))) {
        return reason;
      }
    }
    return std::nullopt;
  });
}

Prepared prepare(const Problem& problem, Precision precision, const Device& device) {
  return with_math(precision, [&](auto math) -> Prepared {
    if (const auto fused = fused_form<math()>(problem, device)) {
      return prepare_kernel(fused->kernel, fused->name, fused->shape, problem);
    }
    return prepare_tiled<math()>(problem, device);
  });
}

}  // namespace

extern const Variant tensor_core;
constinit const Variant tensor_core{
    .name = "tensor_core",
    .summary = "the cooperative idea on tensor cores: split fp32, TF32, BF16, FP16",
    .backend = Backend::kCuda,
    .unit = unit,
    .executed_flops = credited_flops,
    .workspace_bytes = workspace_bytes,
    .why_not = why_not,
    .prepare = prepare,
};

}  // namespace mla_bench::cuda
