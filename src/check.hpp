// Compares an output with the reference. A NaN never passes, and a wrong answer is a value here,
// not an exception.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "bounds.hpp"
#include "inputs.hpp"
#include "reference.hpp"

namespace mla_bench {

// How the output was compared.
//   full        every element with the fp64 reference of the CPU
//   device      every element with an fp64 product made on the GPU by an independent plain path,
//               whose sampled rows agree with the CPU's
//   projection  sampled rows exactly, and every row by a random projection
enum class CheckMethod { kFull, kDevice, kProjection };

std::string_view name_of(CheckMethod method);

// The element that is furthest beyond, or nearest to, its bound.
struct WorstElement {
  bool is_v = false;
  std::int64_t batch = 0;
  std::int64_t seq = 0;
  std::int64_t head = 0;
  std::int64_t dim = 0;
  double actual = 0;    // may be non-finite
  double expected = 0;  // fp64 reference
  double bound = 0;     // largest |actual - expected| that passes
};

struct Check {
  CheckMethod method = CheckMethod::kFull;
  bool passed = false;
  std::string reason;         // empty when passed; one line that a user can act on
  std::int64_t elements = 0;  // compared one by one
  std::int64_t wrong_elements =
      0;  // of those, beyond their bound or not finite where they should be
  std::int64_t projected_rows = 0;  // rows compared by projection
  double max_error_over_bound = 0;  // <= 1 passes; 0 where no element was finite
  std::optional<WorstElement> worst;
  double frobenius_error = 0;                   // ||y - ref|| / ||ref|| over the elements compared
  std::optional<double> frobenius_error_limit;  // where the statistics hold
  bool bit_exact =
      false;  // every element compared has the reference's bits; demanded of `exact` inputs
};

// What an output is held against. `kv` is (2, T, columns) in the inputs' stored type.
struct CheckContext {
  const Inputs& inputs;
  Precision precision;
  Unit unit;
  bool demand_exact = false;  // inputs are `exact`: every element must have the reference's bits
};

// What every byte of an output is set to before the launch that is checked.
inline constexpr std::byte kPoison{0xFF};

// Against the CPU's reference: all rows (kFull), or its rows plus the projection (kProjection).
Check check_output(std::span<const std::byte> kv, const Reference& reference,
                   const Projection* projection, const CheckContext& context);

// Sums over compared elements, from which both the host's and the device's comparison conclude.
struct Comparison {
  std::int64_t elements = 0;
  std::int64_t wrong_elements = 0;
  std::int64_t inexact_elements = 0;  // bits differ from the reference rounded to the stored type
  double max_error_over_bound = 0;
  std::int64_t worst_index = -1;  // element of kv, (2, T, columns)
  double worst_actual = 0;
  double worst_expected = 0;
  double worst_bound = 0;
  double squared_error = 0;
  double squared_reference = 0;
  std::int64_t unwritten_elements = 0;  // still the poison, where it was counted
  // The element whose error is largest against its magnitude, beyond what storing it may cost.
  double outlier_error = 0;  // as a part of its magnitude
  std::int64_t outlier_index = -1;
  double outlier_actual = 0;
  double outlier_expected = 0;
  double sum_of_magnitudes = 0;
};

// The verdict on a comparison.
Check conclude(const Comparison& comparison, CheckMethod method, const CheckContext& context);

}  // namespace mla_bench
