// The stored types on the device: loads widen to fp32, stores round once to nearest even, and four
// neighbouring elements travel in one access where every row of every tensor allows it.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "mla_bench/precision.hpp"

namespace mla_bench::cuda {

__device__ inline float widen(float value) {
  return value;
}
__device__ inline float widen(__nv_bfloat16 value) {
  return __bfloat162float(value);
}
__device__ inline float widen(__half value) {
  return __half2float(value);
}

template <typename T>
__device__ T narrow(float value);

template <>
__device__ inline float narrow<float>(float value) {
  return value;
}

template <>
__device__ inline __nv_bfloat16 narrow<__nv_bfloat16>(float value) {
  return __float2bfloat16_rn(value);
}

template <>
__device__ inline __half narrow<__half>(float value) {
  return __float2half_rn(value);
}

// Elements that one access moves: 16 bytes of fp32, 8 of a 16-bit type.
inline constexpr int kQuad = 4;

template <typename T>
struct alignas(kQuad * sizeof(T)) Quad {
  T at[kQuad];
};

template <typename T>
struct alignas(2 * sizeof(T)) Pair {
  T at[2];
};

// A quad as loaded and not yet widened. Words, so that 16-bit elements share registers.
template <typename T>
struct alignas(kQuad * sizeof(T)) Packed {
  std::uint32_t words[sizeof(T)];
};

// `source` is a multiple of four elements.
template <typename T>
__device__ Packed<T> load_packed(const T* source) {
  return *reinterpret_cast<const Packed<T>*>(source);
}

template <typename T>
__device__ Quad<float> widen(const Packed<T>& packed) {
  const auto quad = __builtin_bit_cast(Quad<T>, packed);
  return {widen(quad.at[0]), widen(quad.at[1]), widen(quad.at[2]), widen(quad.at[3])};
}

// Rounds and stores the first `valid` of four neighbours. Aligned promises that rows start at
// multiples of four elements, so that four are valid or none.
template <bool Aligned, typename T>
__device__ void store_quad(T* target, int valid, const Quad<float>& values) {
  const Quad<T> quad{narrow<T>(values.at[0]), narrow<T>(values.at[1]), narrow<T>(values.at[2]),
                     narrow<T>(values.at[3])};
  if constexpr (Aligned) {
    if (valid > 0) {
      *reinterpret_cast<Quad<T>*>(target) = quad;
    }
  } else {
#pragma unroll
    for (int i = 0; i < kQuad; ++i) {
      if (i < valid) {
        target[i] = quad.at[i];
      }
    }
  }
}

// Calls `make` with a value of the device type that stores `type`, and returns what it returns.
template <typename Make>
auto with_element(StoredType type, const Make& make) {
  switch (type) {
    case StoredType::kBf16:
      return make(__nv_bfloat16{});
    case StoredType::kF16:
      return make(__half{});
    default:
      return make(float{});
  }
}

}  // namespace mla_bench::cuda
