// The rule by which an element passes, and how comparisons add up.
#include "compare_element.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

namespace mla_bench {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr float kFloatInfinity = std::numeric_limits<float>::infinity();
constexpr float kFloatNan = std::numeric_limits<float>::quiet_NaN();
constexpr ElementRule kRule{
    .relative_to_magnitude = 0.25, .relative_to_value = 0, .largest_finite = 1000};

Comparison compare(float actual, double expected, double magnitude, std::int64_t index = 0) {
  return compare_element(index, actual, {.value = expected, .magnitude = magnitude}, kRule);
}

TEST(CompareElement, PassesWithinTheBoundAndNotBeyond) {
  EXPECT_EQ(compare(10.0f, 9.0, 4.0).wrong_elements, 0);
  EXPECT_DOUBLE_EQ(compare(10.0f, 9.0, 4.0).max_error_over_bound, 1.0);
  EXPECT_EQ(compare(10.0f, 8.5, 4.0).wrong_elements, 1);
  EXPECT_DOUBLE_EQ(compare(10.0f, 8.5, 4.0).max_error_over_bound, 1.5);
}

TEST(CompareElement, AddsTheThreeTermsOfTheBound) {
  const ElementRule rule{.relative_to_magnitude = 0.5, .relative_to_value = 0.25};
  const Comparison comparison =
      compare_element(0, 0.0f, {.value = -8, .magnitude = 16, .absolute = 3}, rule);
  EXPECT_DOUBLE_EQ(comparison.worst_bound, 8 + 2 + 3);
}

TEST(CompareElement, NoNanPassesForANumber) {
  EXPECT_EQ(compare(kFloatNan, 1.0, 1.0).wrong_elements, 1);
  EXPECT_EQ(compare(kFloatNan, 1.0, kNan).wrong_elements, 0);  // an overflow on the way
  EXPECT_EQ(compare(kFloatNan, 1.0, 1.0).max_error_over_bound, 0);
  EXPECT_EQ(compare(kFloatNan, 1.0, 1.0).squared_error, 0);
}

TEST(CompareElement, AnOverflowPassesOnlyWhereTheMagnitudeAllowsIt) {
  EXPECT_EQ(compare(kFloatInfinity, 999.0, 1000.0).wrong_elements, 1);
  EXPECT_EQ(compare(kFloatInfinity, 999.0, 1001.0).wrong_elements, 0);
  EXPECT_EQ(compare(kFloatInfinity, 999.0, 1001.0).worst_index, -1);
  EXPECT_EQ(compare(1500.0f, 999.0, 1001.0).wrong_elements, 1);
}

TEST(CompareElement, WhatIsNoNumberMustShow) {
  EXPECT_EQ(compare(1.0f, kNan, kNan).wrong_elements, 1);
  EXPECT_EQ(compare(kFloatInfinity, kNan, kNan).wrong_elements, 1);
  EXPECT_EQ(compare(kFloatNan, kNan, kNan).wrong_elements, 0);
  EXPECT_EQ(compare(1.0f, kInfinity, kInfinity).wrong_elements, 1);
  EXPECT_EQ(compare(-kFloatInfinity, kInfinity, kInfinity).wrong_elements, 1);
  EXPECT_EQ(compare(kFloatInfinity, kInfinity, kInfinity).wrong_elements, 0);
  EXPECT_EQ(compare(kFloatNan, kInfinity, kInfinity).wrong_elements, 0);
}

TEST(CompareElement, KnowsWhatWasNeverWritten) {
  const ElementRule rule = kRule;
  const auto unwritten = [&](auto stored) {
    return compare_element(0, stored, {.value = 1, .magnitude = 1}, rule).unwritten_elements;
  };
  EXPECT_EQ(unwritten(std::bit_cast<float>(0xffffffffu)), 1);
  EXPECT_EQ(unwritten(Bf16{0xffff}), 1);
  EXPECT_EQ(unwritten(F16{0xffff}), 1);
  EXPECT_EQ(unwritten(kFloatNan), 0);
  EXPECT_EQ(unwritten(Bf16{0xff80}), 0);
}

TEST(CompareElement, ABoundOfZeroTakesTheExactValueAlone) {
  EXPECT_EQ(compare(0.0f, 0.0, 0.0).wrong_elements, 0);
  EXPECT_EQ(compare(-0.0f, 0.0, 0.0).inexact_elements, 0);
  EXPECT_EQ(compare(1e-30f, 0.0, 0.0).wrong_elements, 1);
}

TEST(CompareElement, CountsWhatIsNotTheReferenceRoundedOnce) {
  EXPECT_EQ(compare(1.0f, 1.0 + 0x1p-25, 1.0).inexact_elements, 0);
  EXPECT_EQ(compare(1.0f, 1.0 + 0x1p-23, 1.0).inexact_elements, 1);
}

TEST(RoundOnce, DiffersFromRoundingTwice) {
  // Just above halfway between 1 and the next value: a float in between would lose "just above".
  EXPECT_EQ(to_float(round_once<Bf16>(1.0 + 0x1p-8 + 0x1p-40)), 1.0f + 0x1p-7f);
  EXPECT_EQ(to_float(round_once<F16>(1.0 + 0x1p-11 + 0x1p-40)), 1.0f + 0x1p-10f);
  EXPECT_EQ(to_float(round_once<Bf16>(1.0 + 0x1p-8)), 1.0f);
  EXPECT_EQ(to_float(round_once<F16>(-1.0 - 0x1p-11 - 0x1p-40)), -1.0f - 0x1p-10f);
  // Just below halfway, where the float nearest to the value is halfway itself.
  EXPECT_EQ(to_float(round_once<Bf16>(1.0 + 3 * 0x1p-8 - 0x1p-40)), 1.0f + 0x1p-7f);
}

TEST(RoundOnce, KeepsTheEndsOfTheRange) {
  EXPECT_TRUE(std::isnan(to_float(round_once<Bf16>(kNan))));
  EXPECT_EQ(to_float(round_once<Bf16>(1e300)), std::numeric_limits<float>::infinity());
  EXPECT_EQ(to_float(round_once<F16>(-65520.0)), -std::numeric_limits<float>::infinity());
  EXPECT_EQ(to_float(round_once<F16>(65519.999)), 65504.0f);
  EXPECT_EQ(to_float(round_once<F16>(0x1p-25)), 0.0f);  // halfway to the smallest subnormal
  EXPECT_EQ(to_float(round_once<F16>(0x1p-25 + 0x1p-60)), 0x1p-24f);
  EXPECT_EQ(to_float(round_once<Bf16>(1e-300)), 0.0f);
}

TEST(Merge, IsTheSameInAnyOrderButForTheSums) {
  const std::vector<Comparison> parts{compare(1.0f, 1.0, 1.0, 4), compare(3.0f, 1.0, 1.0, 7),
                                      compare(kFloatNan, 1.0, 1.0, 9),
                                      compare(kFloatNan, 2.0, 1.0, 2)};
  Comparison forward;
  Comparison backward;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    forward = merge(forward, parts[i]);
    backward = merge(parts[parts.size() - 1 - i], backward);
  }
  for (const Comparison& sum : {forward, backward}) {
    EXPECT_EQ(sum.elements, 4);
    EXPECT_EQ(sum.wrong_elements, 3);
    EXPECT_EQ(sum.inexact_elements, 3);
    EXPECT_EQ(sum.worst_index, 2);  // the first that is no number
    EXPECT_DOUBLE_EQ(sum.max_error_over_bound, 8.0);
    EXPECT_DOUBLE_EQ(sum.squared_error, 4.0);
    EXPECT_DOUBLE_EQ(sum.squared_reference, 2.0);
  }
}

TEST(Merge, NothingIsNeutral) {
  const Comparison one = compare(3.0f, 1.0, 1.0, 7);
  EXPECT_EQ(merge(Comparison{}, one).worst_index, 7);
  EXPECT_EQ(merge(one, Comparison{}).worst_index, 7);
  EXPECT_EQ(merge(Comparison{}, Comparison{}).worst_index, -1);
}

}  // namespace
}  // namespace mla_bench
