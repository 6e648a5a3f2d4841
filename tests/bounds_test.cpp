// The bounds, tried on emulated kernels: honest ones of every precision and unit must pass, and the
// same with one precision too few must not.
#include "bounds.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "check.hpp"
#include "mla_bench/float16.hpp"
#include "reference.hpp"

namespace mla_bench {
namespace {

// ---- emulated arithmetic ------------------------------------------------------------------------

using Round = std::function<float(float)>;
// A sum of products of two vectors.
using Dot = std::function<float(const float* a, const float* b, std::int64_t depth)>;

float keep(float x) {
  return x;
}

// TF32 keeps 10 bits of the fraction: cvt.rna rounds to nearest, ties away from zero.
constexpr std::uint32_t kTf32Mask = 0xffffe000;

float tf32_nearest(float x) {
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(x) + 0x1000) & kTf32Mask);
}

float tf32_truncated(float x) {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & kTf32Mask);
}

float bf16_nearest(float x) {
  return to_float(from_float<Bf16>(x));
}

float fp16_nearest(float x) {
  return to_float(from_float<F16>(x));
}

// Each product and each sum rounded by `round`: fp32 where that is `keep`.
Dot sequential(Round round) {
  return [round = std::move(round)](const float* a, const float* b, std::int64_t depth) {
    float sum = 0;
    for (std::int64_t i = 0; i < depth; ++i) {
      sum = round(sum + round(a[i] * b[i]));
    }
    return sum;
  };
}

float toward_zero(double x) {
  const auto nearest = static_cast<float>(x);
  return std::abs(static_cast<double>(nearest)) > std::abs(x) ? std::nextafter(nearest, 0.0f)
                                                              : nearest;
}

// How a tensor core adds: see step_error in bounds.cpp.
struct TensorCore {
  std::int64_t width;
  double last_bit;  // that is kept, as a part of the largest term's power of two
};

constexpr TensorCore kAmpereTf32{4, 0x1p-24};
constexpr TensorCore kHopperTf32{8, 0x1p-25};
constexpr TensorCore kAmpereHalf{8, 0x1p-24};
constexpr TensorCore kHopperHalf{16, 0x1p-25};

constexpr std::uint64_t kExponent = std::uint64_t{0x7ff} << 52;  // of a double

// accumulator + a . b, `width` exact products at once: all cut at one bit position, the sum cut to
// fp32.
float tensor_core_step(TensorCore core, float accumulator, const float* a, const float* b,
                       std::int64_t width) {
  double largest = std::abs(static_cast<double>(accumulator));
  for (std::int64_t i = 0; i < width; ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(a[i]) * b[i]));
  }
  if (largest == 0) {
    return 0;
  }
  // Powers of two by their bits, and truncation by a cast, because libm's are slow: |largest| is a
  // normal number, and below 2^53 parts of the unit.
  const double power = std::bit_cast<double>(std::bit_cast<std::uint64_t>(largest) & kExponent);
  const double unit = power * core.last_bit;
  const double per_unit = 1 / unit;
  const auto cut = [per_unit](double x) { return static_cast<std::int64_t>(x * per_unit); };
  std::int64_t sum = cut(accumulator);
  for (std::int64_t i = 0; i < width; ++i) {
    sum += cut(static_cast<double>(a[i]) * b[i]);
  }
  return toward_zero(static_cast<double>(sum) * unit);
}

Dot tensor_core(TensorCore core) {
  return [core](const float* a, const float* b, std::int64_t depth) {
    float sum = 0;
    for (std::int64_t i = 0; i < depth; i += core.width) {
      sum = tensor_core_step(core, sum, a + i, b + i, std::min(core.width, depth - i));
    }
    return sum;
  };
}

// 3xTF32: each operand as a sum of two TF32 values, the product of the small ones left out.
Dot three_tf32(TensorCore core) {
  return [core](const float* a, const float* b, std::int64_t depth) {
    float sum = 0;
    std::array<float, 8> big_a, big_b, small_a, small_b;
    for (std::int64_t i = 0; i < depth; i += core.width) {
      const std::int64_t width = std::min(core.width, depth - i);
      for (std::int64_t j = 0; j < width; ++j) {
        big_a[j] = tf32_nearest(a[i + j]);
        big_b[j] = tf32_nearest(b[i + j]);
        small_a[j] = tf32_nearest(a[i + j] - big_a[j]);
        small_b[j] = tf32_nearest(b[i + j] - big_b[j]);
      }
      sum = tensor_core_step(core, sum, small_a.data(), big_b.data(), width);
      sum = tensor_core_step(core, sum, big_a.data(), small_b.data(), width);
      sum = tensor_core_step(core, sum, big_a.data(), big_b.data(), width);
    }
    return sum;
  };
}

// ---- emulated kernels ---------------------------------------------------------------------------

struct Kernel {
  std::string name;
  Round operand;  // of hidden and the weights, and of the latent
  Dot dot;
};

template <typename T>
std::vector<float> rounded(const std::vector<std::byte>& tensor, const Round& round) {
  const T* const data = reinterpret_cast<const T*>(tensor.data());
  std::vector<float> values;
  for (std::size_t i = 0; i < tensor.size() / sizeof(T); ++i) {
    values.push_back(round(to_float(data[i])));
  }
  return values;
}

// (rows, columns) as (columns, rows).
std::vector<float> transposed(const std::vector<float>& matrix, std::int64_t columns) {
  const auto rows = static_cast<std::int64_t>(matrix.size()) / columns;
  std::vector<float> result(matrix.size());
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      result[column * rows + row] = matrix[row * columns + column];
    }
  }
  return result;
}

std::vector<float> product(const std::vector<float>& a, const std::vector<float>& b_transposed,
                           std::int64_t depth, const Dot& dot) {
  const auto rows = static_cast<std::int64_t>(a.size()) / depth;
  const auto columns = static_cast<std::int64_t>(b_transposed.size()) / depth;
  std::vector<float> result(static_cast<std::size_t>(rows * columns));
#pragma omp parallel for
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      result[row * columns + column] =
          dot(a.data() + row * depth, b_transposed.data() + column * depth, depth);
    }
  }
  return result;
}

template <typename T>
std::vector<std::byte> run(const Kernel& kernel, const Inputs& inputs) {
  const Problem& p = inputs.problem;
  const std::vector<float> hidden = rounded<T>(inputs.hidden, kernel.operand);
  const std::vector<float> down = transposed(rounded<T>(inputs.w_down, kernel.operand), p.rank);
  std::vector<float> latent = product(hidden, down, p.model_dim, kernel.dot);
  for (float& value : latent) {
    value = kernel.operand(value);
  }
  std::vector<std::byte> kv;
  for (const auto* weight : {&inputs.w_up_k, &inputs.w_up_v}) {
    const std::vector<float> up = transposed(rounded<T>(*weight, kernel.operand), p.columns());
    for (const float value : product(latent, up, p.rank, kernel.dot)) {
      const auto bytes = std::bit_cast<std::array<std::byte, sizeof(T)>>(from_float<T>(value));
      kv.insert(kv.end(), bytes.begin(), bytes.end());
    }
  }
  return kv;
}

std::vector<std::byte> run(const Kernel& kernel, const Inputs& inputs) {
  switch (inputs.type) {
    case StoredType::kBf16:
      return run<Bf16>(kernel, inputs);
    case StoredType::kF16:
      return run<F16>(kernel, inputs);
    default:
      return run<float>(kernel, inputs);
  }
}

// As deep as the headline problem and as DeepSeek-V3, with few rows and columns.
const Problem kHeadline{
    .batch = 1, .seq = 32, .model_dim = 256, .rank = 48, .kv_heads = 1, .head_dim = 128};
const Problem kDeep{
    .batch = 1, .seq = 4, .model_dim = 7168, .rank = 128, .kv_heads = 1, .head_dim = 48};

Check checked(const Kernel& kernel, const Inputs& inputs, Precision precision, Unit unit) {
  const Reference reference = reference_rows(inputs, all_rows(inputs.problem));
  return check_output(run(kernel, inputs), reference, nullptr,
                      {.inputs = inputs, .precision = precision, .unit = unit});
}

Inputs make(Distribution distribution, const Problem& problem, Precision precision) {
  return make_inputs({.distribution = distribution, .seed = 11, .file = {}}, problem, precision);
}

// What a correct kernel's Frobenius error comes to at most, as a part of the expectation:
// bounds.hpp says so of kFrobeniusAllowance.
constexpr double kObserved = 2.2;

void expect_passes(const Kernel& kernel, Precision precision, Unit unit) {
  for (const Problem& problem : {kHeadline, kDeep}) {
    for (const Distribution distribution : {Distribution::kNormal, Distribution::kPositive}) {
      const Inputs inputs = make(distribution, problem, precision);
      const Check check = checked(kernel, inputs, precision, unit);
      const std::string what = kernel.name + ", " + std::string(name_of(distribution)) +
                               ", model_dim " + std::to_string(problem.model_dim);
      EXPECT_TRUE(check.passed) << what << ": " << check.reason;
      ASSERT_TRUE(check.frobenius_error_limit.has_value()) << what;
      EXPECT_LE(check.frobenius_error,
                *check.frobenius_error_limit * kObserved / kFrobeniusAllowance)
          << what;
    }
  }
}

void expect_fails(const Kernel& kernel, Precision precision, Unit unit, const Problem& problem,
                  Distribution distribution) {
  const Check check = checked(kernel, make(distribution, problem, precision), precision, unit);
  EXPECT_FALSE(check.passed) << kernel.name << ", " << name_of(distribution) << ", model_dim "
                             << problem.model_dim << ": frobenius " << check.frobenius_error
                             << " of " << check.frobenius_error_limit.value_or(0)
                             << ", error over bound " << check.max_error_over_bound;
}

void expect_fails(const Kernel& kernel, Precision precision, Unit unit) {
  for (const Problem& problem : {kHeadline, kDeep}) {
    for (const Distribution distribution : {Distribution::kNormal, Distribution::kPositive}) {
      expect_fails(kernel, precision, unit, problem, distribution);
    }
  }
}

const Kernel kPlainFp32{"fp32", keep, sequential(keep)};
const Kernel kThreeTf32Hopper{"3xTF32, sm_90", keep, three_tf32(kHopperTf32)};
const Kernel kThreeTf32Ampere{"3xTF32, sm_80", keep, three_tf32(kAmpereTf32)};
const Kernel kTf32Hopper{"TF32, sm_90", tf32_nearest, tensor_core(kHopperTf32)};
const Kernel kTf32Ampere{"TF32, sm_80", tf32_nearest, tensor_core(kAmpereTf32)};
const Kernel kTf32Truncated{"TF32, operands truncated", tf32_truncated, tensor_core(kHopperTf32)};

TEST(Bounds, PlainFp32PassesAsFp32AndAsTf32) {
  expect_passes(kPlainFp32, Precision::kFp32, Unit::kFma);
}

TEST(Bounds, Tf32AllowsPlainFp32) {
  const Inputs inputs = make(Distribution::kNormal, kHeadline, Precision::kTf32);
  EXPECT_TRUE(checked(kPlainFp32, inputs, Precision::kTf32, Unit::kFma).passed);
  EXPECT_TRUE(checked(kPlainFp32, inputs, Precision::kTf32, Unit::kTensorCore).passed);
}

TEST(Bounds, ThreeTf32PassesAsFp32OnTensorCores) {
  expect_passes(kThreeTf32Hopper, Precision::kFp32, Unit::kTensorCore);
  expect_passes(kThreeTf32Ampere, Precision::kFp32, Unit::kTensorCore);
}

TEST(Bounds, RoundedTf32PassesAsTf32) {
  expect_passes(kTf32Hopper, Precision::kTf32, Unit::kTensorCore);
  expect_passes(kTf32Ampere, Precision::kTf32, Unit::kTensorCore);
  expect_passes({"TF32 on FMA", tf32_nearest, sequential(keep)}, Precision::kTf32, Unit::kFma);
}

TEST(Bounds, SixteenBitWithFp32SumsPasses) {
  expect_passes({"bf16 on FMA", bf16_nearest, sequential(keep)}, Precision::kBf16, Unit::kFma);
  expect_passes({"fp16 on FMA", fp16_nearest, sequential(keep)}, Precision::kFp16, Unit::kFma);
  for (const TensorCore core : {kAmpereHalf, kHopperHalf}) {
    const std::string where = core.width == kAmpereHalf.width ? ", sm_80" : ", sm_90";
    expect_passes({"bf16" + where, bf16_nearest, tensor_core(core)}, Precision::kBf16,
                  Unit::kTensorCore);
    expect_passes({"fp16" + where, fp16_nearest, tensor_core(core)}, Precision::kFp16,
                  Unit::kTensorCore);
  }
}

TEST(Bounds, Tf32InsideFp32Fails) {
  expect_fails(kTf32Hopper, Precision::kFp32, Unit::kFma);
  expect_fails({"TF32 on FMA", tf32_nearest, sequential(keep)}, Precision::kFp32, Unit::kFma);
  expect_fails({"bf16 on FMA", bf16_nearest, sequential(keep)}, Precision::kFp32, Unit::kFma);
}

// On positive data as deep as DeepSeek-V3's the roundings of TF32 average out below what a chain of
// 3 * 900 truncating steps may honestly cost: there, normal data are what tells them apart.
TEST(Bounds, Tf32InsideThreeTf32Fails) {
  for (const Kernel& kernel : {kTf32Hopper, kTf32Ampere}) {
    expect_fails(kernel, Precision::kFp32, Unit::kTensorCore, kHeadline, Distribution::kNormal);
    expect_fails(kernel, Precision::kFp32, Unit::kTensorCore, kHeadline, Distribution::kPositive);
    expect_fails(kernel, Precision::kFp32, Unit::kTensorCore, kDeep, Distribution::kNormal);
  }
  expect_fails({"bf16", bf16_nearest, tensor_core(kHopperHalf)}, Precision::kFp32,
               Unit::kTensorCore);
}

TEST(Bounds, TruncatedOperandsFailAsTf32) {
  expect_fails(kTf32Truncated, Precision::kTf32, Unit::kTensorCore);
}

TEST(Bounds, Bf16OperandsFailAsTf32) {
  const Kernel kernel{"bf16", bf16_nearest, tensor_core(kHopperHalf)};
  for (const Problem& problem : {kHeadline, kDeep}) {
    expect_fails(kernel, Precision::kTf32, Unit::kTensorCore, problem, Distribution::kNormal);
  }
}

TEST(Bounds, SixteenBitSumsFail) {
  expect_fails({"bf16 sums", bf16_nearest, sequential(bf16_nearest)}, Precision::kBf16, Unit::kFma);
  expect_fails({"bf16 sums", bf16_nearest, sequential(bf16_nearest)}, Precision::kBf16,
               Unit::kTensorCore);
  expect_fails({"fp16 sums", fp16_nearest, sequential(fp16_nearest)}, Precision::kFp16,
               Unit::kTensorCore);
}

// ---- the formulas -------------------------------------------------------------------------------

// Inputs of which no statistics are known, as from a file.
Inputs from_file(Inputs inputs) {
  inputs.distribution = std::nullopt;
  return inputs;
}

// First order in the roundoffs, as bounds.hpp derives them; the exact ones are larger by their
// products alone.
TEST(Bounds, AreTheirFirstOrderFormulas) {
  constexpr double kU = 0x1p-24;
  constexpr double kSecondOrder = 1.01;
  const auto relative = [](Precision precision, Unit unit) {
    return error_bound(from_file(make(Distribution::kNormal, kHeadline, precision)), precision,
                       unit)
        .relative_to_magnitude;
  };
  const auto expect_first_order = [](double actual, double first_order) {
    EXPECT_GE(actual, first_order);
    EXPECT_LE(actual, first_order * kSecondOrder);
  };
  expect_first_order(relative(Precision::kFp32, Unit::kFma), 304 * kU);
  expect_first_order(relative(Precision::kTf32, Unit::kFma), 4 * 0x1p-11 + 304 * kU);
  expect_first_order(relative(Precision::kBf16, Unit::kFma), 0x1p-8 + 304 * kU);
  expect_first_order(relative(Precision::kFp16, Unit::kFma), 0x1p-11 + 304 * kU);
  // A step of 4 or 8 products costs (5 / 2 + 1) or (9 / 2 + 1) last bits, and one rounding; split
  // operands cost 4 * 2^-19 + 2^-22 in each matrix product.
  expect_first_order(relative(Precision::kFp32, Unit::kTensorCore),
                     2 * 33 * 0x1p-22 + 3 * 76 * (7 + 1) * kU);
  expect_first_order(relative(Precision::kTf32, Unit::kTensorCore),
                     4 * 0x1p-11 + 304 * kU * (7 + 1) / 4);
  expect_first_order(relative(Precision::kBf16, Unit::kTensorCore), 0x1p-8 + 38 * (11 + 1) * kU);
}

TEST(Bounds, OfAddsTheThreeParts) {
  const ErrorBound bound{.relative_to_magnitude = 0.5,
                         .relative_to_value = 0.25,
                         .absolute = {1, 2},
                         .largest_finite = 0};
  EXPECT_EQ(bound.of(-8, 16, 1), 8 + 2 + 2);
}

TEST(Bounds, GeneratedDataNarrowOnlyUnbiasedSums) {
  const Inputs generated = make(Distribution::kNormal, kHeadline, Precision::kFp32);
  const auto relative = [](const Inputs& inputs, Unit unit) {
    return error_bound(inputs, Precision::kFp32, unit).relative_to_magnitude;
  };
  EXPECT_LT(relative(generated, Unit::kFma), 0.5 * relative(from_file(generated), Unit::kFma));
  EXPECT_EQ(relative(generated, Unit::kTensorCore),
            relative(from_file(generated), Unit::kTensorCore));
}

Inputs filled(const Problem& problem, Precision precision) {
  return from_file(make(Distribution::kExact, problem, precision));
}

template <typename T>
void set_all(std::vector<std::byte>& tensor, float value) {
  T* const data = reinterpret_cast<T*>(tensor.data());
  std::fill(data, data + tensor.size() / sizeof(T), from_float<T>(value));
}

// One large product, then small ones of which every step drops all: what truncation costs at worst.
TEST(Bounds, HoldWhereTruncationIsWorst) {
  const Problem problem{
      .batch = 1, .seq = 1, .model_dim = 4096, .rank = 1, .kv_heads = 1, .head_dim = 1};
  for (const TensorCore core : {kAmpereTf32, kHopperTf32}) {
    Inputs inputs = filled(problem, Precision::kTf32);
    set_all<float>(inputs.hidden, static_cast<float>(0.999 * core.last_bit));
    reinterpret_cast<float*>(inputs.hidden.data())[0] = 1;
    set_all<float>(inputs.w_down, 1);
    set_all<float>(inputs.w_up_k, 1);
    set_all<float>(inputs.w_up_v, 1);
    const Check three =
        checked({"", keep, three_tf32(core)}, inputs, Precision::kFp32, Unit::kTensorCore);
    EXPECT_TRUE(three.passed) << three.reason;
    EXPECT_GT(three.max_error_over_bound, 0.05);
    const Check tf32 =
        checked({"", tf32_nearest, tensor_core(core)}, inputs, Precision::kTf32, Unit::kTensorCore);
    EXPECT_TRUE(tf32.passed) << tf32.reason;
  }
}

// Latents and outputs among fp16's subnormals: their roundings have no relative bound.
TEST(Bounds, CoverUnderflow) {
  Inputs inputs = from_file(make(Distribution::kNormal, kHeadline, Precision::kFp16));
  F16* const hidden = reinterpret_cast<F16*>(inputs.hidden.data());
  for (std::int64_t i = 0; i < kHeadline.hidden_count(); ++i) {
    hidden[i] = from_float<F16>(to_float(hidden[i]) * 0x1p-21f);
  }
  const Kernel kernel{"fp16", fp16_nearest, sequential(keep)};
  const Check check = checked(kernel, inputs, Precision::kFp16, Unit::kFma);
  EXPECT_TRUE(check.passed) << check.reason;
  EXPECT_GT(check.max_error_over_bound, 0.1);
  // Without the absolute part it would not have passed.
  const ErrorBound bound = error_bound(inputs, Precision::kFp16, Unit::kFma);
  ASSERT_TRUE(check.worst.has_value());
  EXPECT_GT(bound.absolute[0], 0.5 * check.worst->bound);
}

TEST(Bounds, OverflowIsExcusedOnlyWhereItCanHappen) {
  const auto largest = [](const Inputs& inputs, Precision precision) {
    return error_bound(inputs, precision, Unit::kFma).largest_finite;
  };
  const Inputs normal = make(Distribution::kNormal, kHeadline, Precision::kFp16);
  EXPECT_LT(largest(normal, Precision::kFp16), 65504);
  EXPECT_GT(largest(normal, Precision::kFp16), 65000);

  // A latent of 256 * 1024 overflows fp16, whatever the weights after it.
  Inputs large = normal;
  set_all<F16>(large.hidden, 1024);
  set_all<F16>(large.w_down, 1);
  EXPECT_EQ(largest(large, Precision::kFp16), 0);

  Inputs infinite = normal;
  set_all<F16>(infinite.hidden, std::numeric_limits<float>::infinity());
  EXPECT_EQ(largest(infinite, Precision::kFp16), 0);
}

TEST(Bounds, StatisticsNeedEnoughElements) {
  EXPECT_TRUE(expected_frobenius_error(kHeadline, Precision::kFp32, Unit::kFma).has_value());
  Problem small = kHeadline;
  small.rank = 1;
  small.seq = 1;
  EXPECT_FALSE(expected_frobenius_error(small, Precision::kFp32, Unit::kFma).has_value());
}

}  // namespace
}  // namespace mla_bench
