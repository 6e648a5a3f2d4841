// The innermost product of the CPU's fast variants: tiles of a few rows times a few vectors of
// columns, held in registers, one below the other, compiled for several instruction sets of which
// the processor's best is picked at run time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace mla_bench::cpu {

// c (rows, columns) = a (rows, depth) @ b (depth, columns), or += where `accumulate`. All fp32 and
// row-major; a stride is the distance of two rows in elements. The function fixes the columns, and
// the rows of a tile, of which `rows` is a multiple.
struct TileProduct {
  std::int64_t rows;
  std::int64_t depth;
  const float* a;
  std::int64_t a_stride;
  const float* b;
  std::int64_t b_stride;
  float* c;
  std::int64_t c_stride;
  bool accumulate;
};

using TileFunction = void (*)(const TileProduct&);

// Tile sizes: as many sums as the registers hold beside the vectors of b and one value of a, and at
// least the 8 to 12 independent chains that two pipelined multiply-adders need.
// 16 registers: 6 x 2 sums.
#define MLA_BENCH_TILE_NAMESPACE generic
#define MLA_BENCH_TILE_TARGET
#define MLA_BENCH_TILE_BYTES 16
#define MLA_BENCH_TILE_ROWS 6
#define MLA_BENCH_TILE_VECTORS 2
#include "register_tile_body.hpp"

#ifdef __x86_64__
#define MLA_BENCH_TILE_NAMESPACE avx2
#define MLA_BENCH_TILE_TARGET __attribute__((target("avx2,fma")))
#define MLA_BENCH_TILE_BYTES 32
#define MLA_BENCH_TILE_ROWS 6
#define MLA_BENCH_TILE_VECTORS 2
#include "register_tile_body.hpp"

// 32 registers: 8 x 3 sums.
#define MLA_BENCH_TILE_NAMESPACE avx512
#define MLA_BENCH_TILE_TARGET __attribute__((target("avx512f")))
#define MLA_BENCH_TILE_BYTES 64
#define MLA_BENCH_TILE_ROWS 8
#define MLA_BENCH_TILE_VECTORS 3
#include "register_tile_body.hpp"
#endif

// The tile functions of one instruction set.
struct InstructionSet {
  std::string_view name;
  std::int64_t rows;     // of the largest tile
  std::int64_t vectors;  // a row of the largest tile
  std::int64_t lanes;    // columns of a vector
  std::span<const TileFunction> functions;

  std::int64_t columns() const { return vectors * lanes; }

  // For tiles of up to `rows` x `vectors`, each from 1.
  TileFunction function(std::int64_t tile_rows, std::int64_t tile_vectors) const {
    return functions[static_cast<std::size_t>((tile_rows - 1) * vectors + tile_vectors - 1)];
  }
};

// Those that this processor runs, the best first. Never empty.
inline std::vector<InstructionSet> usable_instruction_sets() {
  std::vector<InstructionSet> usable;
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512f")) {
    usable.push_back(
        {"avx512", avx512::kRows, avx512::kVectors, avx512::kLanes, avx512::kFunctions});
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    usable.push_back({"avx2", avx2::kRows, avx2::kVectors, avx2::kLanes, avx2::kFunctions});
  }
#endif
  usable.push_back(
      {"generic", generic::kRows, generic::kVectors, generic::kLanes, generic::kFunctions});
  return usable;
}

}  // namespace mla_bench::cpu
