// The register tile's code, included by register_tile.hpp once for each instruction set: a function
// is compiled for the set that its own attribute names, which a template parameter cannot choose,
// so the including file says it in macros. No include guard, on purpose.
//   MLA_BENCH_TILE_NAMESPACE  also the set's name
//   MLA_BENCH_TILE_TARGET     the attribute of its functions
//   MLA_BENCH_TILE_BYTES      of a vector register
//   MLA_BENCH_TILE_SUMS, _ROWS, _VECTORS, _DEEP_VECTORS  as in InstructionSet
namespace MLA_BENCH_TILE_NAMESPACE {

inline constexpr int kSums = MLA_BENCH_TILE_SUMS;
inline constexpr int kRows = MLA_BENCH_TILE_ROWS;
inline constexpr int kVectors = MLA_BENCH_TILE_VECTORS;
inline constexpr int kLanes = MLA_BENCH_TILE_BYTES / sizeof(float);

using Vector = float __attribute__((vector_size(MLA_BENCH_TILE_BYTES)));
// The same at any float's address. Clang heeds the alignment only before the equals sign.
using Loose __attribute__((vector_size(MLA_BENCH_TILE_BYTES), aligned(4), may_alias)) = float;

// All sums stay in registers while k runs: one load of b serves Rows rows, one value of a serves
// Vectors vectors, and every element is one chain of multiply-adds in the order of k. GCC keeps the
// array of sums in registers only if told early to unroll (8 is beyond every tile extent). One call
// makes the tiles of all rows, since a call for each took 4 % of a Zen 3's time at a depth of 48,
// and takes a copy of the product, which stores to c cannot touch.
template <int Rows, int Vectors>
MLA_BENCH_TILE_TARGET void multiply(const TileProduct& product) {
  const TileProduct tile = product;
  for (std::int64_t row = 0; row < tile.rows; row += Rows) {
    float* const to = tile.c + row * tile.c_stride;
    Vector sum[Rows][Vectors];
#pragma GCC unroll 8
    for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 8
      for (int j = 0; j < Vectors; ++j) {
        const float* c = to + i * tile.c_stride + j * kLanes;
        sum[i][j] = tile.accumulate ? *reinterpret_cast<const Loose*>(c) : Vector{};
      }
    }
    const float* a = tile.a + row * tile.a_stride;
    const float* b = tile.b;
    for (std::int64_t k = 0; k < tile.depth; ++k) {
      Vector right[Vectors];
#pragma GCC unroll 8
      for (int j = 0; j < Vectors; ++j) {
        right[j] = *reinterpret_cast<const Loose*>(b + j * kLanes);
      }
#pragma GCC unroll 8
      for (int i = 0; i < Rows; ++i) {
        const float left = a[i * tile.a_stride];
#pragma GCC unroll 8
        for (int j = 0; j < Vectors; ++j) {
          sum[i][j] += left * right[j];
        }
      }
      a += 1;
      b += tile.b_stride;
    }
#pragma GCC unroll 8
    for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 8
      for (int j = 0; j < Vectors; ++j) {
        *reinterpret_cast<Loose*>(to + i * tile.c_stride + j * kLanes) = sum[i][j];
      }
    }
  }
}

// Null where the registers would not hold the sums.
template <int Rows, int Vectors>
constexpr TileFunction function_of() {
  if constexpr (Rows * Vectors <= kSums) {
    return &multiply<Rows, Vectors>;
  }
  return nullptr;
}

template <std::size_t... Index>
constexpr auto make_functions(std::index_sequence<Index...>) {
  return std::array<TileFunction, sizeof...(Index)>{
      function_of<Index / kVectors + 1, Index % kVectors + 1>()...};
}

inline constexpr auto kFunctions = make_functions(std::make_index_sequence<kRows * kVectors>{});

inline InstructionSet instruction_set(std::string_view name) {
  return {.name = name,
          .sums = kSums,
          .rows = kRows,
          .vectors = kVectors,
          .deep_vectors = MLA_BENCH_TILE_DEEP_VECTORS,
          .lanes = kLanes,
          .functions = kFunctions};
}

}  // namespace MLA_BENCH_TILE_NAMESPACE

#undef MLA_BENCH_TILE_NAMESPACE
#undef MLA_BENCH_TILE_TARGET
#undef MLA_BENCH_TILE_BYTES
#undef MLA_BENCH_TILE_SUMS
#undef MLA_BENCH_TILE_ROWS
#undef MLA_BENCH_TILE_VECTORS
#undef MLA_BENCH_TILE_DEEP_VECTORS
