// The innermost product of the CPU's fast variants: tiles of a few rows times a few vectors of
// columns, held in registers, one below the other, compiled for several instruction sets of which
// the processor's best is picked at run time.
#pragma once

#include <algorithm>
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

// The tile functions of one instruction set.
struct InstructionSet {
  std::string_view name;
  std::int64_t sums;          // vectors of the largest tile
  std::int64_t rows;          // of the tallest tile
  std::int64_t vectors;       // a row of the widest tile
  std::int64_t deep_vectors;  // the same where a wider strip of b would crowd the L1 cache
  std::int64_t lanes;         // columns of a vector
  std::span<const TileFunction> functions;

  // Of the tallest tile that is `tile_vectors` wide.
  std::int64_t rows_of(std::int64_t tile_vectors) const {
    return std::min(rows, sums / tile_vectors);
  }

  // For tiles of up to `vectors` and rows_of() that many, each from 1.
  TileFunction function(std::int64_t tile_rows, std::int64_t tile_vectors) const {
    return functions[static_cast<std::size_t>((tile_rows - 1) * vectors + tile_vectors - 1)];
  }
};

// Tile sizes: as many sums as the registers hold beside the vectors of b and one value of a, and at
// least the 8 to 12 independent chains that two pipelined multiply-adders need.
// 16 registers, one of them for products: 6 x 2 sums.
#define MLA_BENCH_TILE_NAMESPACE generic
#define MLA_BENCH_TILE_TARGET
#define MLA_BENCH_TILE_BYTES 16
#define MLA_BENCH_TILE_SUMS 12
#define MLA_BENCH_TILE_ROWS 6
#define MLA_BENCH_TILE_VECTORS 2
#define MLA_BENCH_TILE_DEEP_VECTORS 2
#include "register_tile_body.hpp"

#ifdef __x86_64__
// 16 registers: 4 x 3 sums, which load least, or 6 x 2, whose strip of b is narrower.
#define MLA_BENCH_TILE_NAMESPACE avx2
#define MLA_BENCH_TILE_TARGET __attribute__((target("avx2,fma")))
#define MLA_BENCH_TILE_BYTES 32
#define MLA_BENCH_TILE_SUMS 12
#define MLA_BENCH_TILE_ROWS 6
#define MLA_BENCH_TILE_VECTORS 3
#define MLA_BENCH_TILE_DEEP_VECTORS 2
#include "register_tile_body.hpp"

// 32 registers: 8 x 3 sums.
#define MLA_BENCH_TILE_NAMESPACE avx512
#define MLA_BENCH_TILE_TARGET __attribute__((target("avx512f")))
#define MLA_BENCH_TILE_BYTES 64
#define MLA_BENCH_TILE_SUMS 24
#define MLA_BENCH_TILE_ROWS 8
#define MLA_BENCH_TILE_VECTORS 3
#define MLA_BENCH_TILE_DEEP_VECTORS 3
#include "register_tile_body.hpp"
#endif

// Those that this processor runs, the best first. Never empty.
inline std::vector<InstructionSet> usable_instruction_sets() {
  std::vector<InstructionSet> usable;
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512f")) {
    usable.push_back(avx512::instruction_set("avx512"));
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    usable.push_back(avx2::instruction_set("avx2"));
  }
#endif
  usable.push_back(generic::instruction_set("generic"));
  return usable;
}

}  // namespace mla_bench::cpu
