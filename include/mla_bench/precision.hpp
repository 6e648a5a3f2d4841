// What is stored and what arithmetic is allowed on it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace mla_bench {

// The contract between a user and a variant:
//   fp32  fp32 stored, fp32-level error (plain FMA, or split operands that reach it)
//   tf32  fp32 stored, operands may be rounded to TF32
//   bf16  bfloat16 stored, fp32 accumulation, the latent may be rounded to bfloat16
//   fp16  binary16 stored, fp32 accumulation, the latent may be rounded to binary16
enum class Precision { kFp32, kTf32, kBf16, kFp16 };

// Element type of every tensor in memory.
enum class StoredType { kF32, kBf16, kF16 };

inline constexpr std::array kPrecisions{Precision::kFp32, Precision::kTf32, Precision::kBf16,
                                        Precision::kFp16};

// The value of --precision and of the document's "precision".
constexpr std::string_view name_of(Precision precision) {
  switch (precision) {
    case Precision::kFp32:
      return "fp32";
    case Precision::kTf32:
      return "tf32";
    case Precision::kBf16:
      return "bf16";
    case Precision::kFp16:
      return "fp16";
  }
  return "?";
}

constexpr StoredType stored_type(Precision precision) {
  switch (precision) {
    case Precision::kBf16:
      return StoredType::kBf16;
    case Precision::kFp16:
      return StoredType::kF16;
    default:
      return StoredType::kF32;
  }
}

// Bytes of one element.
constexpr std::int64_t size_of(StoredType type) { return type == StoredType::kF32 ? 4 : 2; }

}  // namespace mla_bench
