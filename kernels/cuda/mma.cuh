// Matrix products of one warp on tensor cores: operands, their rounding or splitting, and sums. A
// step multiplies a left operand of 16 rows by right operands of 8 columns, kStepDepth deep. Lane
// 4 g + q (g 0..7, q 0..3) holds, in the PTX manual's terms for m16n8k8 and m16n8k16,
//
//   left   words 0, 2: row g,  words 1, 3: row g + 8;   words 0, 1: the first half of the depth,
//   right  column g;           word 0: the first half     words 2, 3 and word 1: the second half
//   sums   0, 1: row g, columns 2 q and 2 q + 1;        2, 3: row g + 8, the same columns
//
// of one instruction, and as many words again of the second where a step is two. A half is four
// fp32 values, one a word, or eight 16-bit values, two a word: lane q holds the q-th word. Which k
// an instruction means by the q-th word is for the caller to choose, as long as both operands
// agree: a sum does not care about its order.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "mla_bench/precision.hpp"

namespace mla_bench::cuda {

// How products are made.
enum class Math {
  kTf32,
  kBf16,
  kFp16,
  // fp32 from TF32: x = large + rest, and of (large + rest) (large + rest) all but rest * rest.
  // Three TF32 instructions.
  k3xTf32,
  // The same with the two products of a rest in BF16, whose roundings to 2^-8 are 2^-19 of the
  // whole. A TF32 instruction of mma.sync costs twice a BF16 one of twice the depth (H200), so that
  // this takes half the time of 3xTF32, for more preparation of the operands.
  kTf32AndBf16,
};

template <Math M>
using StoredElement = std::conditional_t<M == Math::kBf16, __nv_bfloat16,
                                         std::conditional_t<M == Math::kFp16, __half, float>>;

template <Math M>
inline constexpr bool kIs16Bit = sizeof(StoredElement<M>) == 2;

inline constexpr int kStepRows = 16;
inline constexpr int kStepColumns = 8;

template <Math M>
inline constexpr int kStepDepth = kIs16Bit<M> || M == Math::kTf32AndBf16 ? 16 : 8;

// Words of a lane in a step.
template <Math M>
inline constexpr int kLeftWords = M == Math::kTf32AndBf16 ? 8 : 4;
template <Math M>
inline constexpr int kRightWords = kLeftWords<M> / 2;

// The bits of fp32 that a tensor core reads of a TF32 operand; it ignores the other 13.
inline constexpr std::uint32_t kTf32Bits = 0xffffe000u;

// x rounded to TF32, to nearest, ties away from zero, as cvt.rna.tf32 would, in two instructions
// instead of its three: cut(x) + 2 (x - cut(x)) carries into TF32's last bit exactly when the rest
// is half of it or more, and nothing rounds on the way. NaN stays NaN; an infinity becomes one. The
// low 13 bits are not cleared.
__device__ inline std::uint32_t round_to_tf32(std::uint32_t x) {
  const float cut = __uint_as_float(x & kTf32Bits);
  return __float_as_uint(fmaf(2.0f, __uint_as_float(x), -cut));
}

// Two values as one word of a 16-bit type, the first in the low half, rounded to nearest even.
template <Math M>
__device__ std::uint32_t pack(float first, float second) {
  std::uint32_t packed;
  if constexpr (M == Math::kFp16) {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(second), "f"(first));
  } else {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(second), "f"(first));
  }
  return packed;
}

// Of two words with two 16-bit values each, the first or the second of both: a column of two rows.
template <int Which>
__device__ std::uint32_t pair_of(std::uint32_t first, std::uint32_t second) {
  return __byte_perm(first, second, Which == 0 ? 0x5410 : 0x7632);
}

// A lane's words of an operand, as the instructions want them.
template <Math M, int Words>
struct Operand {
  std::uint32_t words[Words];

  Operand() = default;
  __device__ explicit Operand(const std::uint32_t (&stored)[Words]) {
#pragma unroll
    for (int i = 0; i < Words; ++i) {
      words[i] = M == Math::kTf32 ? round_to_tf32(stored[i]) : stored[i];
    }
  }
};

template <int Words>
struct Operand<Math::k3xTf32, Words> {
  std::uint32_t words[Words];  // uncut: the tensor core does that itself
  std::uint32_t rest[Words];

  Operand() = default;
  __device__ explicit Operand(const std::uint32_t (&stored)[Words]) {
#pragma unroll
    for (int i = 0; i < Words; ++i) {
      const float x = __uint_as_float(stored[i]);
      words[i] = stored[i];
      rest[i] = __float_as_uint(x - __uint_as_float(stored[i] & kTf32Bits));
    }
  }
};

template <int Words>
struct Operand<Math::kTf32AndBf16, Words> {
  static constexpr int kHalf = Words / 2;

  std::uint32_t words[2][kHalf];  // of the two TF32 instructions
  std::uint32_t all[kHalf];       // of a BF16 instruction: x
  std::uint32_t rest[kHalf];      // and what TF32 leaves of it

  Operand() = default;
  __device__ explicit Operand(const std::uint32_t (&stored)[Words]) {
    float rests[Words];
#pragma unroll
    for (int i = 0; i < Words; ++i) {
      const std::uint32_t large = round_to_tf32(stored[i]) & kTf32Bits;
      words[i / kHalf][i % kHalf] = large;
      rests[i] = __uint_as_float(stored[i]) - __uint_as_float(large);
    }
#pragma unroll
    for (int i = 0; i < kHalf; ++i) {
      const auto [first, second] = pair(i);
      all[i] = pack<Math::kBf16>(__uint_as_float(stored[first]), __uint_as_float(stored[second]));
      rest[i] = pack<Math::kBf16>(rests[first], rests[second]);
    }
  }

  // From words and rests of an operand that was made before.
  __device__ Operand(const std::uint32_t (&large)[Words], const std::uint32_t (&rests)[kHalf]) {
#pragma unroll
    for (int i = 0; i < Words; ++i) {
      words[i / kHalf][i % kHalf] = large[i];
    }
#pragma unroll
    for (int i = 0; i < kHalf; ++i) {
      const auto [first, second] = pair(i);
      all[i] = pack<Math::kBf16>(__uint_as_float(large[first]), __uint_as_float(large[second]));
      rest[i] = rests[i];
    }
  }

 private:
  struct Pair {
    int first;
    int second;
  };
  // The two of a lane's words that share a word of a 16-bit type: neighbours in depth of a row.
  static __device__ constexpr Pair pair(int i) {
    constexpr int kRows = kHalf / 2;  // of a lane
    const int first = i / kRows * kHalf + i % kRows;
    return {first, first + kRows};
  }
};

template <Math M>
using LeftOperand = Operand<M, kLeftWords<M>>;
template <Math M>
using RightOperand = Operand<M, kRightWords<M>>;

__device__ inline void multiply_tf32(float (&sums)[4], const std::uint32_t (&left)[4],
                                     const std::uint32_t (&right)[2]) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right[0]), "r"(right[1]));
}

__device__ inline void multiply_bf16(float (&sums)[4], const std::uint32_t (&left)[4],
                                     const std::uint32_t (&right)[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right[0]), "r"(right[1]));
}

__device__ inline void multiply_fp16(float (&sums)[4], const std::uint32_t (&left)[4],
                                     const std::uint32_t (&right)[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right[0]), "r"(right[1]));
}

// The sums of one 16 x 8 tile. Those of fp32 keep small products apart from large ones, so that
// they are not cut off against them, and so that neither waits for the other.
template <Math M>
class TileSums {
 public:
  static constexpr int kInstructions = M == Math::k3xTf32 ? 3 : M == Math::kTf32AndBf16 ? 4 : 1;

  // One of a step's instructions.
  template <int Which>
  __device__ void add(const LeftOperand<M>& left, const RightOperand<M>& right) {
    if constexpr (M == Math::k3xTf32) {
      if constexpr (Which == 0) {
        multiply_tf32(small_, left.rest, right.words);
      } else if constexpr (Which == 1) {
        multiply_tf32(small_, left.words, right.rest);
      } else {
        multiply_tf32(large_, left.words, right.words);
      }
    } else if constexpr (M == Math::kTf32AndBf16) {
      if constexpr (Which == 0) {
        multiply_bf16(small_, left.rest, right.all);
      } else if constexpr (Which == 1) {
        multiply_tf32(large_, left.words[0], right.words[0]);
      } else if constexpr (Which == 2) {
        multiply_bf16(small_, left.all, right.rest);
      } else {
        multiply_tf32(large_, left.words[1], right.words[1]);
      }
    } else if constexpr (M == Math::kTf32) {
      multiply_tf32(large_, left.words, right.words);
    } else if constexpr (M == Math::kBf16) {
      multiply_bf16(large_, left.words, right.words);
    } else {
      multiply_fp16(large_, left.words, right.words);
    }
  }

  __device__ float total(int at) const {
    if constexpr (kInstructions > 1) {
      return large_[at] + small_[at];
    } else {
      return large_[at];
    }
  }

 private:
  float large_[4] = {};
  float small_[4] = {};
};

// A step of one left operand with several right ones. Each instruction goes through all tiles
// before the next, so that no sum is needed again at once.
template <Math M, int Which = 0, typename Sums, int Tiles>
__device__ void add_products(Sums (&sums)[Tiles], const LeftOperand<M>& left,
                             const RightOperand<M>* right) {
#pragma unroll
  for (int tile = 0; tile < Tiles; ++tile) {
    sums[tile].template add<Which>(left, right[tile]);
  }
  if constexpr (Which + 1 < TileSums<M>::kInstructions) {
    add_products<M, Which + 1>(sums, left, right);
  }
}

}  // namespace mla_bench::cuda
