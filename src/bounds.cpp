#include "bounds.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "mla_bench/float16.hpp"

namespace mla_bench {
namespace {

// Unit roundoffs: half the distance from 1 to the next larger number.
constexpr double kFp64Roundoff = 0x1p-53;
constexpr double kFp32Roundoff = 0x1p-24;
constexpr double kTf32Roundoff = 0x1p-11;

// A floating-point format that values are stored in.
struct Format {
  double roundoff;
  double smallest;  // subnormal
  double largest;   // finite
};

constexpr Format kFp32{kFp32Roundoff, 0x1p-149, 0x1.fffffep127};
constexpr Format kBf16{0x1p-8, 0x1p-133, 0x1.fep127};
constexpr Format kFp16{0x1p-11, 0x1p-24, 65504};

constexpr Format format_of(StoredType type) {
  switch (type) {
    case StoredType::kBf16:
      return kBf16;
    case StoredType::kF16:
      return kFp16;
    default:
      return kFp32;
  }
}

// The relative error that n roundings of size u can add up to: gamma_n of N. Higham, "Accuracy and
// Stability of Numerical Algorithms", section 3.1. It bounds a sum of n products in any order.
double gamma(double n, double u) {
  return n * u / (1 - n * u);
}

// Relative errors one after another: the first's result is what the second is relative to.
double composed(std::initializer_list<double> errors) {
  double factor = 1;
  for (const double error : errors) {
    factor *= 1 + error;
  }
  return factor - 1;
}

// One step of a tensor core adds `width` exact products to the accumulator: all are cut to
// 2^-(23 + extra_bits) of the largest's exponent, then the sum to 24 bits. So a step loses less
// than (width + 1) * 2^-(23 + extra_bits) + 2^-23 of the magnitudes summed so far. Widths and bits:
// TF32 4 and 1, 16-bit 8 and 1 on sm_80 (F. Khattak and M. Mikaitis, "Accurate Models of NVIDIA
// Tensor Cores", arXiv 2512.07004); wider and with 2 bits from sm_90 on (on an H200 2^-25 survives
// in a TF32 sum next to 1, 2^-26 does not), which loses less for the same depth.
struct TensorCoreStep {
  double width;
  double extra_bits;
};

constexpr TensorCoreStep kTf32Step{4, 1};
constexpr TensorCoreStep kHalfStep{8, 1};

double step_error(TensorCoreStep step) {
  const double last_bit = 2 * kFp32Roundoff;
  return last_bit * ((step.width + 1) * std::exp2(-step.extra_bits) + 1);
}

// Error of a sum of `depth` exact products in `chains` interleaved chains of one tensor core
// accumulator. Each step also counts once as a plain fp32 addition, for sums split over warps.
double tensor_core_sum(double depth, double chains, TensorCoreStep step) {
  const double steps = chains * std::ceil(depth / step.width);
  return gamma(steps, step_error(step) + kFp32Roundoff);
}

// Relative errors of one matrix product and of rounding its result for the next use.
struct Arithmetic {
  double down_product;  // of hidden @ w_down, operands' roundings included
  double latent;        // rounding of the latent, and of w_up
  double up_product;    // of latent @ w_up
};

Arithmetic arithmetic_of(const Problem& problem, Precision precision, Unit unit) {
  const auto model_dim = static_cast<double>(problem.model_dim);
  const auto rank = static_cast<double>(problem.rank);
  const double u = kFp32Roundoff;
  const double fma_down = gamma(model_dim, u);
  const double fma_up = gamma(rank, u);
  const bool on_tensor_core = unit == Unit::kTensorCore;
  switch (precision) {
    case Precision::kFp32: {
      if (!on_tensor_core) {
        return {fma_down, 0, fma_up};
      }
      // Operands split into a TF32 part and a rest, of whose four products rest * rest is dropped.
      // 3xTF32 may cut: a rest is below 2^-10, 2^-20 is dropped, and of a rest's 13 bits two are
      // cut again, 3 * 2^-23: 7 * 2^-22 a product. With the two products of a rest in BF16, a rest
      // is rounded to below 2^-11, and two roundings of 2^-8 each make 4 * 2^-19 of them.
      const double cut = 7 * kTf32Roundoff * kTf32Roundoff;
      const double rounded = 4 * kTf32Roundoff * kBf16.roundoff + kTf32Roundoff * kTf32Roundoff;
      const double split = std::max(cut, rounded);
      const double chains = 3;
      return {composed({split, std::max(fma_down, tensor_core_sum(model_dim, chains, kTf32Step))}),
              0, composed({split, std::max(fma_up, tensor_core_sum(rank, chains, kTf32Step))})};
    }
    case Precision::kTf32: {
      // All four operands may be rounded to TF32, to nearest, in whatever unit.
      const double rounded = composed({kTf32Roundoff, kTf32Roundoff});
      const double down = std::max(fma_down, tensor_core_sum(model_dim, 1, kTf32Step));
      const double up = std::max(fma_up, tensor_core_sum(rank, 1, kTf32Step));
      return {composed({rounded, on_tensor_core ? down : fma_down}), rounded,
              on_tensor_core ? up : fma_up};
    }
    default: {
      const double down = std::max(fma_down, tensor_core_sum(model_dim, 1, kHalfStep));
      const double up = std::max(fma_up, tensor_core_sum(rank, 1, kHalfStep));
      return {on_tensor_core ? down : fma_down, format_of(stored_type(precision)).roundoff,
              on_tensor_core ? up : fma_up};
    }
  }
}

// 4 (sqrt(Dm) + sqrt(R)) u: roundings to nearest are as good as independent, and their sum stays
// within a few standard deviations of a random walk. N. Higham and T. Mary, "A new approach to
// probabilistic rounding error analysis", SIAM J. Sci. Comput. 41(5), 2019: their lambda is
// kLambda.
double probabilistic_fma(const Problem& problem) {
  constexpr double kLambda = 4;
  return kLambda *
         (std::sqrt(static_cast<double>(problem.model_dim)) +
          std::sqrt(static_cast<double>(problem.rank))) *
         kFp32Roundoff;
}

// Sums of the absolute values in each column of a (rows, columns) tensor.
template <typename T>
std::vector<double> column_sums(const std::vector<std::byte>& tensor, std::int64_t rows,
                                std::int64_t columns) {
  const T* const data = reinterpret_cast<const T*>(tensor.data());
  std::vector<double> sums(static_cast<std::size_t>(columns));
  constexpr std::int64_t kColumns = 256;  // of one thread at a time: they stay in its L1 cache
#pragma omp parallel for schedule(static)
  for (std::int64_t first = 0; first < columns; first += kColumns) {
    const std::int64_t last = std::min(first + kColumns, columns);
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t column = first; column < last; ++column) {
        sums[column] += std::abs(static_cast<double>(to_float(data[row * columns + column])));
      }
    }
  }
  return sums;
}

// Largest absolute value, and largest sum of absolute values of a row; infinite or NaN inputs give
// infinity.
struct Extremes {
  double value = 0;
  double row_sum = 0;
};

template <typename T>
Extremes extremes(const std::vector<std::byte>& tensor, std::int64_t rows, std::int64_t columns) {
  const T* const data = reinterpret_cast<const T*>(tensor.data());
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  double largest_value = 0;
  double largest_sum = 0;
#pragma omp parallel for schedule(static) reduction(max : largest_value, largest_sum)
  for (std::int64_t row = 0; row < rows; ++row) {
    double sum = 0;
    for (std::int64_t column = 0; column < columns; ++column) {
      const double value = std::abs(static_cast<double>(to_float(data[row * columns + column])));
      largest_value = std::max(largest_value, value);
      sum += value;
    }
    largest_sum = std::max(largest_sum, std::isfinite(sum) ? sum : kInfinity);
  }
  return {largest_value, largest_sum};
}

// What the data say about the edges of the formats.
struct DataFacts {
  std::vector<double> up_sums;  // (2, columns): column sums of |w_up_k|, |w_up_v|
  double latent_limit = 0;      // no |hidden| @ |w_down| is larger
};

template <typename T>
DataFacts data_facts(const Inputs& inputs) {
  const Problem& p = inputs.problem;
  std::vector<double> sums = column_sums<T>(inputs.w_up_k, p.rank, p.columns());
  const std::vector<double> of_v = column_sums<T>(inputs.w_up_v, p.rank, p.columns());
  sums.insert(sums.end(), of_v.begin(), of_v.end());
  const Extremes hidden = extremes<T>(inputs.hidden, p.rows(), p.model_dim);
  const Extremes down = extremes<T>(inputs.w_down, p.model_dim, p.rank);
  return {std::move(sums), hidden.row_sum * down.value};
}

DataFacts data_facts(const Inputs& inputs) {
  switch (inputs.type) {
    case StoredType::kBf16:
      return data_facts<Bf16>(inputs);
    case StoredType::kF16:
      return data_facts<F16>(inputs);
    default:
      return data_facts<float>(inputs);
  }
}

}  // namespace

double ErrorBound::of(double value, double magnitude, std::size_t column) const {
  return relative_to_magnitude * magnitude + relative_to_value * std::abs(value) + absolute[column];
}

// Let L = |hidden| @ |w_down| and M = L @ |w_up|. With a, r, b the relative errors of the down
// product, the latent's rounding and the up product, e its underflow and S = column sums of |w_up|,
//   |latent' - latent| <= ((1 + a)(1 + r) - 1) L + e
//   |y' - y|           <= ((1 + a)(1 + r)(1 + b) - 1) M + (1 + b) e S
// and rounding y' to the stored type, with roundoff o and underflow f, adds o |y'| + f, where
// |y'| <= |y| + |y' - y|. Operands that are subnormal already, whose rounding to TF32 has no
// relative bound, are left out: no generated data have them.
ErrorBound error_bound(const Inputs& inputs, Precision precision, Unit unit) {
  const Problem& problem = inputs.problem;
  const auto model_dim = static_cast<double>(problem.model_dim);
  const auto rank = static_cast<double>(problem.rank);
  const Format stored = format_of(inputs.type);
  const Arithmetic arithmetic = arithmetic_of(problem, precision, unit);

  // An fp32 sum is not rounded again when it is stored as fp32.
  const double output = inputs.type == StoredType::kF32 ? 0 : stored.roundoff;
  const double reference = gamma(model_dim + rank, kFp64Roundoff);
  double relative =
      composed({arithmetic.down_product, arithmetic.latent, arithmetic.up_product}) + reference;
  const bool is_unbiased = precision == Precision::kFp32 && unit == Unit::kFma;
  if (is_unbiased && inputs.distribution) {
    relative = std::min(relative, probabilistic_fma(problem));
  }

  // Products may underflow one by one in fp32; stored 16-bit values round to half a subnormal.
  const double half = inputs.type == StoredType::kF32 ? 0 : stored.smallest / 2;
  const double latent_underflow = model_dim * kFp32.smallest + half;
  const double output_underflow = rank * kFp32.smallest + half;
  const DataFacts facts = data_facts(inputs);

  ErrorBound bound;
  bound.relative_to_magnitude = relative * (1 + output);
  bound.relative_to_value = output;
  for (const double up_sum : facts.up_sums) {
    bound.absolute.push_back(composed({arithmetic.up_product, output}) * latent_underflow * up_sum +
                             latent_underflow * up_sum + output_underflow);
  }
  const double growth = 1 + bound.relative_to_magnitude + bound.relative_to_value;
  const bool latent_may_overflow = !(facts.latent_limit * growth <= stored.largest);
  bound.largest_finite = latent_may_overflow ? 0 : stored.largest / growth;
  return bound;
}

std::optional<double> expected_frobenius_error(const Problem& problem, Precision precision,
                                               Unit unit) {
  // Of each tensor's elements there must be enough for its roundings, and the squares of its
  // values, to average out: with 256 the norm of a random vector is within a third of its
  // expectation (seven standard deviations).
  constexpr std::int64_t kEnough = 256;
  if (std::min({problem.hidden_count(), problem.down_count(), problem.up_count(),
                problem.latent_count(), problem.kv_count()}) < kEnough) {
    return std::nullopt;
  }
  // A rounding to nearest has this relative error in the root mean square, as a part of the unit
  // roundoff: uniform over half a unit in the last place, for significands spread logarithmically.
  constexpr double kRoundingRms = 0.425;
  // As parts of u: fp32 sums rounded to nearest add up like sqrt(depth), sums that a tensor core
  // truncates like the number of steps, since truncation is biased: tests/bounds_test.cpp
  // simulates both.
  constexpr double kNearestSum = 0.35;
  constexpr double kTruncatedStep = 0.36;
  constexpr double kTf32StepDepth = 8;  // of one mma instruction
  constexpr double kHalfStepDepth = 16;
  const auto depth = static_cast<double>(problem.model_dim + problem.rank);
  const double nearest = kNearestSum * kFp32Roundoff * std::sqrt(depth);
  const double truncated = kTruncatedStep * kFp32Roundoff * depth;
  const bool on_tensor_core = unit == Unit::kTensorCore;
  const auto rounded = [](double operands, double roundoff) {
    return std::sqrt(operands) * kRoundingRms * roundoff;
  };
  switch (precision) {
    case Precision::kFp32: {
      constexpr double kChains = 3;  // 3xTF32
      // The two products of a rest in BF16, in each of the two matrix products: eight roundings, as
      // large a part of the whole as a rest is.
      const double split = rounded(8, kBf16.roundoff) * kRoundingRms * kTf32Roundoff;
      return on_tensor_core
                 ? std::hypot(std::max(nearest, kChains * truncated / kTf32StepDepth), split)
                 : nearest;
    }
    case Precision::kTf32:
      return std::hypot(rounded(4, kTf32Roundoff),
                        on_tensor_core ? truncated / kTf32StepDepth : nearest);
    default:
      return std::hypot(rounded(2, format_of(stored_type(precision)).roundoff),
                        on_tensor_core ? truncated / kHalfStepDepth : nearest);
  }
}

double outlier_limit(double relative, double rms, double magnitude) {
  return kOutlierDeviations * relative * rms / magnitude;
}

}  // namespace mla_bench
