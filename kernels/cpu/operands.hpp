// What the CPU variants share: the operands with their element type, and the answers that are the
// same for all of them.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "mla_bench/float16.hpp"
#include "mla_bench/variant.hpp"

namespace mla_bench::cpu {

// k and v: they differ only in their weights and in their half of kv.
inline constexpr int kHalves = 2;

// Operands whose elements are of type T; `w_up` is {w_up_k, w_up_v}.
template <typename T>
struct TypedOperands {
  const T* hidden;
  const T* w_down;
  std::array<const T*, kHalves> w_up;
  T* kv;
};

template <typename T>
TypedOperands<T> typed(const Operands& operands) {
  return {.hidden = static_cast<const T*>(operands.hidden),
          .w_down = static_cast<const T*>(operands.w_down),
          .w_up = {static_cast<const T*>(operands.w_up_k), static_cast<const T*>(operands.w_up_v)},
          .kv = static_cast<T*>(operands.kv)};
}

// A Prepared::bind whose launches call run(TypedOperands<T>) with the precision's element type.
template <typename Run>
std::function<Launch(const Operands&)> bind_typed(Precision precision, Run run) {
  return [precision, run](const Operands& operands) -> Launch {
    switch (stored_type(precision)) {
      case StoredType::kBf16:
        return [run, bound = typed<Bf16>(operands)](Stream) { run(bound); };
      case StoredType::kF16:
        return [run, bound = typed<F16>(operands)](Stream) { run(bound); };
      case StoredType::kF32:
        break;
    }
    return [run, bound = typed<float>(operands)](Stream) { run(bound); };
  };
}

inline Unit fma_unit(Precision) {
  return Unit::kFma;
}

inline std::int64_t no_workspace(const Problem&, Precision, const Device&) {
  return 0;
}

// The one cell that no plain CPU variant takes.
inline std::optional<std::string> why_not_tf32(const Problem&, Precision precision, const Device&) {
  if (precision == Precision::kTf32) {
    return "tf32 is a tensor-core format, and this variant does plain fp32: use --precision fp32";
  }
  return std::nullopt;
}

inline std::string counted(std::int64_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

constexpr std::int64_t ceil_divide(std::int64_t value, std::int64_t divisor) {
  return (value + divisor - 1) / divisor;
}

constexpr std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return ceil_divide(value, multiple) * multiple;
}

}  // namespace mla_bench::cpu
