// The rule by which one element of an output passes, in one place for the host's check and the
// device's: constexpr throughout, so that CUDA code compiled with --expt-relaxed-constexpr calls
// it.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "check.hpp"
#include "mla_bench/float16.hpp"

namespace mla_bench {

// The part of an ErrorBound that all elements share.
struct ElementRule {
  double relative_to_magnitude = 0;
  double relative_to_value = 0;
  double largest_finite = 0;
};

constexpr ElementRule element_rule(const ErrorBound& bound) {
  return {bound.relative_to_magnitude, bound.relative_to_value, bound.largest_finite};
}

// What one element is held against.
struct Expected {
  double value = 0;      // the fp64 answer
  double magnitude = 0;  // the same with every operand's absolute value
  double absolute = 0;   // its column's part of the bound
};

constexpr double absolute_value(double x) {
  return x < 0 ? -x : x;
}

constexpr bool is_finite(double x) {
  return x - x == 0;
}

// `value` rounded once, to nearest even, to the stored type T (float, Bf16 or F16). A 16-bit type
// goes through a float rounded to odd, whose last bit keeps what a second rounding needs to know.
template <typename T>
constexpr T round_once(double value) {
  const float nearest = static_cast<float>(value);
  if constexpr (std::is_same_v<T, float>) {
    return nearest;
  } else {
    if (value != value || static_cast<double>(nearest) == value) {
      return from_float<T>(nearest);
    }
    const bool away = absolute_value(nearest) > absolute_value(value);
    const std::uint32_t toward_zero = std::bit_cast<std::uint32_t>(nearest) - (away ? 1u : 0u);
    return from_float<T>(std::bit_cast<float>(toward_zero | 1u));
  }
}

// |actual - expected| / bound; infinity where that is no number, never NaN.
constexpr double error_over_bound(double actual, double expected, double bound) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double error = absolute_value(actual - expected);
  if (error == 0) {
    return 0;
  }
  const double ratio = bound > 0 ? error / bound : kInfinity;
  return ratio < kInfinity ? ratio : kInfinity;
}

// True where every byte is the one that outputs are filled with before a launch.
template <typename T>
constexpr bool holds_poison(T stored) {
  using Bits = std::conditional_t<sizeof(T) == sizeof(std::uint32_t), std::uint32_t, std::uint16_t>;
  constexpr std::uint32_t kEveryByte = 0x01010101u;
  return std::bit_cast<Bits>(stored) ==
         static_cast<Bits>(kEveryByte * std::to_integer<std::uint32_t>(kPoison));
}

// The comparison of element `index` of kv (2, T, columns) alone. NaN makes every comparison below
// false, and so fails where a number is expected.
//   finite answer    a number within the bound, or none at all where the magnitude says that an
//                    overflow on the way is no error
//   infinite answer  itself, or the NaN that arithmetic with split operands (3xTF32) makes of it
//   NaN              NaN
template <typename T>
constexpr Comparison compare_element(std::int64_t index, T stored, const Expected& expected,
                                     const ElementRule& rule) {
  const double actual = to_float(stored);
  Comparison result;
  result.elements = 1;
  result.inexact_elements = actual == to_float(round_once<T>(expected.value)) ? 0 : 1;
  const bool may_overflow = !(expected.magnitude <= rule.largest_finite);
  const bool shows = actual != actual || actual == expected.value;
  if (is_finite(expected.value) ? !is_finite(actual) && may_overflow : shows) {
    return result;
  }
  const double bound = is_finite(expected.value)
                           ? rule.relative_to_magnitude * expected.magnitude +
                                 rule.relative_to_value * absolute_value(expected.value) +
                                 expected.absolute
                           : 0.0;
  const double error = absolute_value(actual - expected.value);
  const bool passes = is_finite(error) && error <= bound;
  const double ratio = error_over_bound(actual, expected.value, bound);
  result.wrong_elements = passes ? 0 : 1;
  result.unwritten_elements = !passes && holds_poison(stored) ? 1 : 0;
  result.max_error_over_bound = is_finite(ratio) ? ratio : 0;
  result.worst_index = index;
  result.worst_actual = actual;
  result.worst_expected = expected.value;
  result.worst_bound = bound;
  if (!is_finite(error)) {
    return result;
  }
  result.squared_error = error * error;
  result.squared_reference = expected.value * expected.value;
  result.sum_of_magnitudes = expected.magnitude;
  const double storing =
      rule.relative_to_value * absolute_value(expected.value) + expected.absolute;
  if (error > storing && expected.magnitude > 0) {
    result.outlier_error = (error - storing) / expected.magnitude;
    result.outlier_index = index;
    result.outlier_actual = actual;
    result.outlier_expected = expected.value;
  }
  return result;
}

// Whether a's outlier is further out than b's; of equals the one of the lower index is.
constexpr bool is_further_out(const Comparison& a, const Comparison& b) {
  if (a.outlier_index < 0 || b.outlier_index < 0) {
    return a.outlier_index >= 0;
  }
  return a.outlier_error > b.outlier_error ||
         (a.outlier_error == b.outlier_error && a.outlier_index < b.outlier_index);
}

// The comparison of two disjoint sets of elements together. The worst is the one of the largest
// error over its bound, with those that are no number first; of equals the one of the lowest index,
// so that only the sums' last bits depend on the order.
constexpr Comparison merge(const Comparison& a, const Comparison& b) {
  const double ratio_a = error_over_bound(a.worst_actual, a.worst_expected, a.worst_bound);
  const double ratio_b = error_over_bound(b.worst_actual, b.worst_expected, b.worst_bound);
  const bool b_is_worse =
      b.worst_index >= 0 && (a.worst_index < 0 || ratio_b > ratio_a ||
                             (ratio_b == ratio_a && b.worst_index < a.worst_index));
  Comparison result = b_is_worse ? b : a;
  result.elements = a.elements + b.elements;
  result.wrong_elements = a.wrong_elements + b.wrong_elements;
  result.unwritten_elements = a.unwritten_elements + b.unwritten_elements;
  result.inexact_elements = a.inexact_elements + b.inexact_elements;
  result.max_error_over_bound = a.max_error_over_bound < b.max_error_over_bound
                                    ? b.max_error_over_bound
                                    : a.max_error_over_bound;
  result.squared_error = a.squared_error + b.squared_error;
  result.squared_reference = a.squared_reference + b.squared_reference;
  const Comparison& outlier = is_further_out(b, a) ? b : a;
  result.outlier_error = outlier.outlier_error;
  result.outlier_index = outlier.outlier_index;
  result.outlier_actual = outlier.outlier_actual;
  result.outlier_expected = outlier.outlier_expected;
  result.sum_of_magnitudes = a.sum_of_magnitudes + b.sum_of_magnitudes;
  return result;
}

}  // namespace mla_bench
