// The answer in fp64, from the stored inputs, with what is needed to bound a rounding error.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "inputs.hpp"

namespace mla_bench {

// The exact-enough answer for some rows of k and v. Row i of `value` is row rows[i] of k followed
// by the same row of v: (rows.size(), 2, columns).
struct Reference {
  std::vector<std::int64_t> rows;  // ascending row numbers, all of 0 .. T-1 or a sample
  std::vector<double> value;       // hidden @ w_down @ w_up in fp64
  std::vector<double> magnitude;   // |hidden| @ |w_down| @ |w_up|: what rounding errors scale with
};

// The answer times a random vector, row by row: tests every row at the cost of reading the output
// once. Two projections, one of k and one of v.
struct Projection {
  std::vector<double> signs;      // (2, columns), each +1 or -1
  std::vector<double> value;      // (T, 2): the fp64 answer's row times the signs
  std::vector<double> magnitude;  // (T, 2): the sum of the row's magnitudes
};

// Computes the given rows with all OpenMP threads; the same bits for any number of them.
Reference reference_rows(const Inputs& inputs, std::span<const std::int64_t> rows);

// hidden @ (w_down @ (w_up @ signs)), with signs drawn from `seed`.
Projection project(const Inputs& inputs, std::uint64_t seed);

// The answers to negated hidden.
void negate(Reference& reference);
void negate(Projection& projection);

// What a full reference may cost: about two seconds of two cores at the 7 GFLOP/s each that the
// plain SSE2 code reaches, values and magnitudes together, and the memory that a check may take.
inline constexpr double kMaxReferenceFlops = 30e9;
inline constexpr double kMaxReferenceBytes = 0x1p30;

// True where the full fp64 answer on the CPU would take longer or need more memory than a check
// may.
bool too_large_for_full_reference(const Problem& problem);

// Row numbers 0 .. T-1.
std::vector<std::int64_t> all_rows(const Problem& problem);

// Rows of a sample: enough that a fault in one row of 16 escapes it one time in 60, few enough that
// DeepSeek-V3's take 5 GFLOP.
inline constexpr std::int64_t kSampleRows = 64;

// Rows to sample: first, last, and others spread by a counter-based generator; ascending, distinct.
std::vector<std::int64_t> sample_rows(const Problem& problem, std::uint64_t seed);

}  // namespace mla_bench
