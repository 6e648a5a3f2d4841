// The 16-bit types against their definition: every value one way, and the other way every value,
// every midpoint between neighbours and its nearest floats, which pins down a monotonic rounding
// entirely.
#include "mla_bench/float16.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace mla_bench {
namespace {

constexpr int kPatterns = 1 << 16;

// Width and bias of a format's exponent, and its fraction's width.
struct Layout {
  int exponent_bits;
  int fraction_bits;

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  int largest_exponent() const { return (1 << exponent_bits) - 1; }
};

constexpr Layout kBf16Layout{8, 7};
constexpr Layout kF16Layout{5, 10};

// IEEE 754-2019, 3.4, in fp64: exact for both formats.
double defined(int bits, Layout layout) {
  const double sign = bits >> 15 != 0 ? -1 : 1;
  const int exponent = bits >> layout.fraction_bits & layout.largest_exponent();
  const int fraction = bits & ((1 << layout.fraction_bits) - 1);
  if (exponent == layout.largest_exponent()) {
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  }
  const int implied = exponent == 0 ? 0 : 1 << layout.fraction_bits;
  const int scale = std::max(exponent, 1) - layout.bias() - layout.fraction_bits;
  return sign * std::ldexp(implied + fraction, scale);
}

template <typename T>
T pattern(int bits) {
  return T{static_cast<std::uint16_t>(bits)};
}

template <typename T>
void expect_every_value(Layout layout) {
  for (int bits = 0; bits < kPatterns; ++bits) {
    const double expected = defined(bits, layout);
    const float actual = to_float(pattern<T>(bits));
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(actual)) << bits;
      EXPECT_TRUE(std::isnan(to_float(from_float<T>(actual)))) << bits;
    } else {
      EXPECT_EQ(actual, expected) << bits;
      EXPECT_EQ(std::signbit(actual), std::signbit(expected)) << bits;
      EXPECT_EQ(from_float<T>(actual).bits, bits);
    }
  }
}

template <typename T>
void expect_every_midpoint(Layout layout) {
  const int infinity = layout.largest_exponent() << layout.fraction_bits;
  for (int bits = 0; bits < infinity; ++bits) {
    // Past the largest finite value comes, for rounding, what would follow with a wider exponent.
    const double low = defined(bits, layout);
    const double high =
        bits + 1 < infinity ? defined(bits + 1, layout) : std::ldexp(1, layout.bias() + 1);
    const auto middle = static_cast<float>((low + high) / 2);
    ASSERT_EQ(middle, (low + high) / 2);
    const int even = bits % 2 == 0 ? bits : bits + 1;
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    EXPECT_EQ(from_float<T>(middle).bits, even) << bits;
    EXPECT_EQ(from_float<T>(std::nextafter(middle, 0.0f)).bits, bits);
    EXPECT_EQ(from_float<T>(std::nextafter(middle, kInfinity)).bits, bits + 1);
    EXPECT_EQ(from_float<T>(-middle).bits, even | 0x8000) << bits;
  }
}

TEST(Float16, EveryBf16HasItsDefinedValue) {
  expect_every_value<Bf16>(kBf16Layout);
}

TEST(Float16, EveryF16HasItsDefinedValue) {
  expect_every_value<F16>(kF16Layout);
}

TEST(Float16, FloatsRoundToTheNearestBf16AndTiesToEven) {
  expect_every_midpoint<Bf16>(kBf16Layout);
}

TEST(Float16, FloatsRoundToTheNearestF16AndTiesToEven) {
  expect_every_midpoint<F16>(kF16Layout);
}

TEST(Float16, SpecialValuesStaySpecial) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(from_float<F16>(kInfinity).bits, 0x7c00);
  EXPECT_EQ(from_float<F16>(-kInfinity).bits, 0xfc00);
  EXPECT_EQ(from_float<Bf16>(-kInfinity).bits, 0xff80);
  EXPECT_EQ(from_float<F16>(std::numeric_limits<float>::max()).bits, 0x7c00);
  EXPECT_EQ(from_float<F16>(-0.0f).bits, 0x8000);
  // A NaN whose payload lies below what a 16-bit type keeps must not become an infinity.
  const float low_payload = std::bit_cast<float>(0x7f800001u);
  EXPECT_TRUE(std::isnan(to_float(from_float<F16>(low_payload))));
  EXPECT_TRUE(std::isnan(to_float(from_float<Bf16>(low_payload))));
}

TEST(Float16, WorksAtCompileTime) {
  static_assert(to_float(from_float<F16>(1.0f / 3)) == 0x1.554p-2f);
  static_assert(to_float(from_float<Bf16>(1.0f / 3)) == 0x1.56p-2f);
  static_assert(from_float<float>(to_float(0.1f)) == 0.1f);
}

}  // namespace
}  // namespace mla_bench
