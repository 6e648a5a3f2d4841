// The 16-bit stored types on the host: bfloat16 and IEEE binary16 as bit patterns, with conversions
// that are the same bits on every platform. Round to nearest, ties to even; NaN stays NaN.
#pragma once

#include <bit>
#include <cstdint>

namespace mla_bench {

// bfloat16: the upper half of a float.
struct Bf16 {
  std::uint16_t bits;
};

// IEEE 754 binary16.
struct F16 {
  std::uint16_t bits;
};

constexpr float to_float(float value) {
  return value;
}

constexpr float to_float(Bf16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

// The exponent is moved by a multiplication, which also normalises subnormals.
constexpr float to_float(F16 value) {
  const std::uint32_t sign = static_cast<std::uint32_t>(value.bits & 0x8000u) << 16;
  const std::uint32_t magnitude = value.bits & 0x7fffu;
  constexpr float kRebias = 0x1p112f;  // 2^(127 - 15)
  const float scaled = std::bit_cast<float>(magnitude << 13) * kRebias;
  const std::uint32_t finite = std::bit_cast<std::uint32_t>(scaled);
  const std::uint32_t special = 0x7f800000u | (magnitude << 13);  // infinity and NaN
  return std::bit_cast<float>(sign | (magnitude >= 0x7c00u ? special : finite));
}

template <typename T>
constexpr T from_float(float value);

template <>
constexpr float from_float<float>(float value) {
  return value;
}

template <>
constexpr Bf16 from_float<Bf16>(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
  const std::uint32_t quiet_nan = bits | 0x400000u;
  const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return Bf16{static_cast<std::uint16_t>((is_nan ? quiet_nan : rounded) >> 16)};
}

template <>
constexpr F16 from_float<F16>(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  std::uint32_t half = 0;
  if (magnitude > 0x7f800000u) {
    half = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
  } else if (magnitude >= 0x477ff000u) {  // 65520, halfway past the largest finite value
    half = 0x7c00u;
  } else if (magnitude >= 0x38800000u) {  // 2^-14, the smallest normal value
    const std::uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    half = (rounded - 0x38000000u) >> 13;
  } else {
    // Adding 0.5 leaves the subnormal's bits, rounded by the addition, in the low mantissa.
    constexpr float kAlign = 0.5f;
    half = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + kAlign) -
           std::bit_cast<std::uint32_t>(kAlign);
  }
  return F16{static_cast<std::uint16_t>(sign | half)};
}

}  // namespace mla_bench
