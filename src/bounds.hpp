// How wrong a correct kernel may be, from the shape, the unit roundoffs and the data. No literals:
// every constant is a roundoff or a count, and each formula names its source.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "inputs.hpp"
#include "mla_bench/variant.hpp"

namespace mla_bench {

// A correct output y of value `ref` and magnitude `mag` satisfies
//   |y - ref| <= relative_to_magnitude * mag + relative_to_value * |ref| + absolute[column]
struct ErrorBound {
  // Accumulation and operand rounding.
  double relative_to_magnitude = 0;
  // Rounding of the output to the stored type.
  double relative_to_value = 0;
  // Underflow of the latent and of the output, (2, columns): half a smallest subnormal for each.
  std::vector<double> absolute;
  // Largest magnitude whose output must be finite: the stored type's largest value less the bound,
  // or 0 where a latent may already overflow. Beyond it, an infinity or NaN is no error.
  double largest_finite = 0;

  double of(double value, double magnitude, std::size_t column) const;
};

// Componentwise bound for the arithmetic that `precision` allows on `unit`: the worst case, and for
// generated data on kFma, whose roundings are unbiased, the probabilistic one where it is smaller.
ErrorBound error_bound(const Inputs& inputs, Precision precision, Unit unit);

// Expected relative Frobenius error ||y - ref|| / ||ref|| of a correct kernel on generated data,
// whose roundings are independent; a kernel labelled with a higher precision than it computes in
// exceeds it many times over. Empty where the tensors are too small for the statistics to hold.
std::optional<double> expected_frobenius_error(const Problem& problem, Precision precision,
                                               Unit unit);

// How far above the expectation a correct kernel may come. Emulated ones (bounds_test.cpp) come to
// 1.3x of it at most, and to 2.1x with 3xTF32 on sm_80, whose steps are half as deep; TF32 whose
// operands are truncated instead of rounded comes to 3.5x, bf16 or TF32 inside fp32 to 100x and
// more.
inline constexpr double kFrobeniusAllowance = 3.0;

// How far one element may be off, as a part of its magnitude, where the elements together have the
// Frobenius error `relative` at most: an error is a sum of many roundings, hardly ever further out
// than kOutlierDeviations of them, and scales with the element's magnitude. The worst case's bound
// is up to 500 times this on data whose sums cancel, which hides a wrong element among right ones.
//   rms        root mean square of the answer's elements
//   magnitude  mean of their magnitudes
double outlier_limit(double relative, double rms, double magnitude);

// exp(-8^2 / 2) is 1e-14 an element (Hoeffding's inequality). It counts from kFrobeniusAllowance
// times the expectation, so that an element whose terms are fewer, or less alike, than those of the
// mean element has three times the room besides.
inline constexpr double kOutlierDeviations = 8.0;

}  // namespace mla_bench
