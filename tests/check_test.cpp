// The check must fail on every kind of wrong output, say where and why, and pass what is right.
#include "check.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "compare_element.hpp"
#include "mla_bench/float16.hpp"

namespace mla_bench {
namespace {

const Problem kProblem{
    .batch = 3, .seq = 40, .model_dim = 64, .rank = 24, .kv_heads = 4, .head_dim = 8};
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The reference itself, rounded once, as an output in the inputs' stored type: as right as can be.
template <typename T>
std::vector<T> right_answer(const Inputs& inputs) {
  const Problem& p = inputs.problem;
  const Reference reference = reference_rows(inputs, all_rows(p));
  std::vector<T> kv(static_cast<std::size_t>(p.kv_count()));
  for (std::int64_t row = 0; row < 2 * p.rows(); ++row) {
    for (std::int64_t column = 0; column < p.columns(); ++column) {
      const std::int64_t to = (row % 2 * p.rows() + row / 2) * p.columns() + column;
      kv[to] = round_once<T>(reference.value[row * p.columns() + column]);
    }
  }
  return kv;
}

Inputs make(Distribution distribution, Precision precision = Precision::kFp32,
            const Problem& problem = kProblem) {
  return make_inputs({.distribution = distribution, .seed = 3, .file = {}}, problem, precision);
}

CheckContext context_of(const Inputs& inputs, Precision precision = Precision::kFp32) {
  return {.inputs = inputs,
          .precision = precision,
          .unit = Unit::kFma,
          .demand_exact = inputs.distribution == Distribution::kExact};
}

template <typename T>
Check full(const std::vector<T>& kv, const CheckContext& context) {
  const Reference reference = reference_rows(context.inputs, all_rows(context.inputs.problem));
  return check_output(std::as_bytes(std::span(kv)), reference, nullptr, context);
}

// Enough for the statistics to hold; neither row 20 nor 21 is among them.
constexpr std::int64_t kSampled[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 30, 119};

// As for a problem too large for a full reference: some rows exactly, all of them by projection.
template <typename T>
Check sampled(const std::vector<T>& kv, const CheckContext& context) {
  const Reference reference = reference_rows(context.inputs, kSampled);
  const Projection projection = project(context.inputs, 1);
  return check_output(std::as_bytes(std::span(kv)), reference, &projection, context);
}

bool mentions(const Check& check, const std::string& text) {
  return check.reason.find(text) != std::string::npos;
}

constexpr std::int64_t index_of(bool is_v, std::int64_t batch, std::int64_t seq, std::int64_t head,
                                std::int64_t dim) {
  return (((is_v * 3 + batch) * 40 + seq) * 4 + head) * 8 + dim;
}

class RightAnswers : public testing::TestWithParam<Distribution> {};

TEST_P(RightAnswers, PassFullAndSampled) {
  const auto expect_pass = []<typename T>(T, Precision precision) {
    const Inputs inputs = make(GetParam(), precision);
    const std::vector<T> kv = right_answer<T>(inputs);
    const Check all = full(kv, context_of(inputs, precision));
    EXPECT_TRUE(all.passed) << all.reason;
    EXPECT_EQ(all.reason, "");
    EXPECT_EQ(all.method, CheckMethod::kFull);
    EXPECT_EQ(all.elements, kProblem.kv_count());
    EXPECT_EQ(all.projected_rows, 0);
    EXPECT_TRUE(all.bit_exact);
    EXPECT_LE(all.max_error_over_bound, 1);
    ASSERT_TRUE(all.worst.has_value());

    const Check some = sampled(kv, context_of(inputs, precision));
    EXPECT_TRUE(some.passed) << some.reason;
    EXPECT_EQ(some.method, CheckMethod::kProjection);
    EXPECT_EQ(some.elements, 12 * 2 * kProblem.columns());
    EXPECT_EQ(some.projected_rows, kProblem.rows());
  };
  expect_pass(float{}, Precision::kFp32);
  expect_pass(float{}, Precision::kTf32);
  expect_pass(Bf16{}, Precision::kBf16);
  expect_pass(F16{}, Precision::kFp16);
}

INSTANTIATE_TEST_SUITE_P(All, RightAnswers,
                         testing::Values(Distribution::kNormal, Distribution::kPositive,
                                         Distribution::kExact),
                         [](const auto& test) { return std::string(name_of(test.param)); });

TEST(Check, NamesTheWrongElementAndBothValues) {
  const Inputs inputs = make(Distribution::kNormal);
  std::vector<float> kv = right_answer<float>(inputs);
  const std::int64_t index = index_of(true, 2, 5, 3, 7);
  kv[index] += 0.25f;
  const Check check = full(kv, context_of(inputs));
  EXPECT_FALSE(check.passed);
  EXPECT_EQ(check.wrong_elements, 1);
  EXPECT_TRUE(mentions(check, "1 of 7680 elements beyond their bound")) << check.reason;
  EXPECT_TRUE(mentions(check, "v[b=2,s=5,h=3,d=7]: got ")) << check.reason;
  EXPECT_GT(check.max_error_over_bound, 1);
  ASSERT_TRUE(check.worst.has_value());
  EXPECT_EQ(check.worst->actual, kv[index]);
  EXPECT_NEAR(check.worst->expected, kv[index] - 0.25, check.worst->bound);
}

TEST(Check, ALittleBeyondTheBoundFailsAndALittleWithinPasses) {
  // Of a file's data nothing but the bounds is asked.
  Inputs inputs = make(Distribution::kPositive);
  inputs.distribution = std::nullopt;
  const std::vector<float> right = right_answer<float>(inputs);
  const ErrorBound bound = error_bound(inputs, Precision::kFp32, Unit::kFma);
  const Reference reference = reference_rows(inputs, all_rows(kProblem));
  const double allowed = bound.of(reference.value[0], reference.magnitude[0], 0);
  for (const double part : {0.9, 1.1}) {
    std::vector<float> kv = right;
    kv[0] = static_cast<float>(reference.value[0] + part * allowed);
    const Check check = full(kv, context_of(inputs));
    EXPECT_EQ(check.passed, part < 1) << check.reason;
    EXPECT_NEAR(check.max_error_over_bound, part, 0.05);
  }
}

TEST(Check, NaNAndInfinityNeverPass) {
  for (const float wrong : {kNan, -kNan, kInfinity, -kInfinity}) {
    const Inputs inputs = make(Distribution::kNormal);
    std::vector<float> kv = right_answer<float>(inputs);
    kv[index_of(false, 1, 2, 3, 4)] = wrong;
    const Check check = full(kv, context_of(inputs));
    EXPECT_FALSE(check.passed);
    EXPECT_EQ(check.wrong_elements, 1);
    EXPECT_TRUE(mentions(check, "k[b=1,s=2,h=3,d=4]")) << check.reason;
    EXPECT_TRUE(std::isfinite(check.max_error_over_bound));
    EXPECT_TRUE(std::isfinite(check.frobenius_error));
    EXPECT_FALSE(sampled(kv, context_of(inputs)).passed);
  }
}

TEST(Check, PoisonIsNamed) {
  const auto expect_named = []<typename T>(T poison, Precision precision) {
    const Inputs inputs = make(Distribution::kNormal, precision);
    std::vector<T> kv = right_answer<T>(inputs);
    std::fill(kv.end() - 40, kv.end(), poison);
    const Check check = full(kv, context_of(inputs, precision));
    EXPECT_FALSE(check.passed);
    EXPECT_TRUE(mentions(check, "40 of 7680 elements were never written")) << check.reason;
    EXPECT_TRUE(mentions(check, "v[b=2,s=38,h=3,d=0]")) << check.reason;
  };
  expect_named(std::bit_cast<float>(0xffffffffu), Precision::kFp32);
  expect_named(Bf16{0xffff}, Precision::kBf16);
  expect_named(F16{0xffff}, Precision::kFp16);
}

TEST(Check, SwappedHalvesAndRowsFail) {
  for (const Distribution distribution : {Distribution::kNormal, Distribution::kExact}) {
    const Inputs inputs = make(distribution);
    std::vector<float> halves = right_answer<float>(inputs);
    std::rotate(halves.begin(), halves.begin() + halves.size() / 2, halves.end());
    EXPECT_FALSE(full(halves, context_of(inputs)).passed);
    EXPECT_FALSE(sampled(halves, context_of(inputs)).passed);

    // Two rows that no sample holds.
    std::vector<float> rows = right_answer<float>(inputs);
    const auto row = rows.begin() + 20 * kProblem.columns();
    std::swap_ranges(row, row + kProblem.columns(), row + kProblem.columns());
    const Check check = sampled(rows, context_of(inputs));
    EXPECT_FALSE(check.passed);
    EXPECT_TRUE(mentions(check, "2 of 240 rows differ in a random projection, first k[b=0,s=20]"))
        << check.reason;
  }
}

TEST(Check, ProjectionSeesOneWrongElementOfAnUnsampledRow) {
  const Inputs inputs = make(Distribution::kNormal);
  std::vector<float> kv = right_answer<float>(inputs);
  kv[index_of(true, 1, 10, 2, 2)] += 0.01f;
  const Check check = sampled(kv, context_of(inputs));
  EXPECT_FALSE(check.passed);
  EXPECT_TRUE(mentions(check, "first v[b=1,s=10]")) << check.reason;
  EXPECT_EQ(check.wrong_elements, 0);
}

TEST(Check, ProjectionSeesAWrongRowInSixteenBits) {
  const Inputs inputs = make(Distribution::kNormal, Precision::kBf16);
  std::vector<Bf16> kv = right_answer<Bf16>(inputs);
  std::fill_n(kv.begin() + index_of(false, 0, 20, 0, 0), kProblem.columns(), Bf16{0});
  EXPECT_FALSE(sampled(kv, context_of(inputs, Precision::kBf16)).passed);
}

// Errors in all elements, each within its bound: only their sum of squares tells.
TEST(Check, LowerPrecisionIsSeenInTheFrobeniusError) {
  const Inputs inputs = make(Distribution::kNormal);
  std::vector<float> kv = right_answer<float>(inputs);
  for (float& value : kv) {
    value *= 1 + 0x1p-19f;
  }
  const Check check = full(kv, context_of(inputs));
  EXPECT_FALSE(check.passed);
  EXPECT_EQ(check.wrong_elements, 0);
  EXPECT_NEAR(check.frobenius_error, 0x1p-19, 0x1p-22);
  EXPECT_TRUE(mentions(check, "lower precision")) << check.reason;

  Inputs file = inputs;
  file.distribution = std::nullopt;
  const Check unknown = full(kv, context_of(file));
  EXPECT_TRUE(unknown.passed) << unknown.reason;
  EXPECT_FALSE(unknown.frobenius_error_limit.has_value());
}

// One element off by far less than the bound of any data, and by far more than its neighbours: its
// square drowns in the sum of squares.
TEST(Check, AnElementThatStandsOutFails) {
  const Inputs inputs = make(Distribution::kNormal, Precision::kTf32);
  const CheckContext context = context_of(inputs, Precision::kTf32);
  const std::vector<float> right = right_answer<float>(inputs);
  const std::int64_t index = index_of(true, 1, 20, 0, 5);
  for (const auto& [offset, passes] : {std::pair{0x1p-5f, false}, std::pair{0x1p-11f, true}}) {
    std::vector<float> kv = right;
    kv[index] += offset;
    const Check check = full(kv, context);
    EXPECT_EQ(check.passed, passes) << check.reason;
    EXPECT_EQ(check.wrong_elements, 0);
    EXPECT_LE(check.frobenius_error, *check.frobenius_error_limit);
    EXPECT_EQ(mentions(check, "v[b=1,s=20,h=0,d=5]: got "), !passes) << check.reason;
  }

  Inputs file = inputs;
  file.distribution = std::nullopt;
  std::vector<float> kv = right;
  kv[index] += 0x1p-5f;
  const Check unknown = full(kv, context_of(file, Precision::kTf32));
  EXPECT_TRUE(unknown.passed) << unknown.reason;
}

TEST(Check, ExactInputsDemandTheBits) {
  const Inputs inputs = make(Distribution::kExact);
  std::vector<float> kv = right_answer<float>(inputs);
  float& changed = *std::find_if(kv.begin(), kv.end(), [](float x) { return x != 0; });
  changed = std::nextafter(changed, kInfinity);
  const Check check = full(kv, context_of(inputs));
  EXPECT_FALSE(check.passed);
  EXPECT_FALSE(check.bit_exact);
  EXPECT_TRUE(mentions(check, "1 of 7680 elements differ from the exact answer")) << check.reason;

  CheckContext lenient = context_of(inputs);
  lenient.demand_exact = false;
  EXPECT_TRUE(full(kv, lenient).passed);
}

// The sign of a zero sum depends on what the sum began with, so that it is no fault.
TEST(Check, ZerosOfEitherSignAreExact) {
  const Inputs inputs = make(Distribution::kExact);
  std::vector<float> kv = right_answer<float>(inputs);
  for (float& value : kv) {
    value = value == 0 ? -0.0f : value;
  }
  EXPECT_TRUE(full(kv, context_of(inputs)).passed);
}

// A NaN or infinity of a file's data must come out where it belongs, and nowhere else.
TEST(Check, NonFiniteInputsMustShow) {
  for (const float special : {kNan, kInfinity}) {
    Inputs inputs = make(Distribution::kPositive);
    inputs.distribution = std::nullopt;
    reinterpret_cast<float*>(inputs.hidden.data())[7 * kProblem.model_dim] = special;
    std::vector<float> kv = right_answer<float>(inputs);
    const auto row = kv.begin() + 7 * kProblem.columns();
    ASSERT_FALSE(std::isfinite(*row));
    EXPECT_TRUE(full(kv, context_of(inputs)).passed);
    EXPECT_TRUE(sampled(kv, context_of(inputs)).passed);

    *row = kNan;  // as 3xTF32 makes of an infinity
    EXPECT_TRUE(full(kv, context_of(inputs)).passed);
    *row = -kInfinity;
    EXPECT_FALSE(full(kv, context_of(inputs)).passed);
    *row = 1;
    EXPECT_FALSE(full(kv, context_of(inputs)).passed);
  }
}

TEST(Check, OverflowOfTheStoredTypeIsNoFault) {
  Inputs inputs = make(Distribution::kPositive, Precision::kFp16);
  inputs.distribution = std::nullopt;
  F16* const weights = reinterpret_cast<F16*>(inputs.w_up_k.data());
  for (std::int64_t i = 0; i < kProblem.up_count(); ++i) {
    weights[i] = from_float<F16>(20000);
  }
  const std::vector<F16> kv = right_answer<F16>(inputs);  // k is about 24 * 0.5 * 20000
  ASSERT_TRUE(std::isinf(to_float(kv.front())));
  const Check check = full(kv, context_of(inputs, Precision::kFp16));
  EXPECT_TRUE(check.passed) << check.reason;

  std::vector<F16> wrong = kv;
  wrong.back() = from_float<F16>(kInfinity);  // v is small, and must be finite
  EXPECT_FALSE(full(wrong, context_of(inputs, Precision::kFp16)).passed);
}

TEST(Check, NothingComparedIsNoPass) {
  const Inputs inputs = make(Distribution::kNormal);
  const Check check = conclude({}, CheckMethod::kDevice, context_of(inputs));
  EXPECT_FALSE(check.passed);
  EXPECT_FALSE(check.bit_exact);
  EXPECT_EQ(check.reason, "no element was compared");
}

TEST(Check, OutputOfAnotherSizeIsAnErrorOfTheCaller) {
  const Inputs inputs = make(Distribution::kNormal);
  const std::vector<float> kv(8);
  EXPECT_THROW(full(kv, context_of(inputs)), std::invalid_argument);
}

}  // namespace
}  // namespace mla_bench
