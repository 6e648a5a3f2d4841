// The fp64 reference against the plainest loops in extended precision, its projection against
// itself, and the choice of rows.
#include "reference.hpp"

#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "mla_bench/float16.hpp"

namespace mla_bench {
namespace {

// Every extent straddles a tile or a block of the reference, or is smaller than one.
const Problem kRagged{
    .batch = 3, .seq = 23, .model_dim = 300, .rank = 67, .kv_heads = 3, .head_dim = 27};
const Problem kTiny{.batch = 1, .seq = 1, .model_dim = 1, .rank = 1, .kv_heads = 1, .head_dim = 1};

Inputs make(const Problem& problem, Precision precision) {
  return make_inputs({.distribution = Distribution::kNormal, .seed = 5, .file = {}}, problem,
                     precision);
}

template <typename T>
long double at(const std::vector<std::byte>& tensor, std::int64_t index) {
  return to_float(reinterpret_cast<const T*>(tensor.data())[index]);
}

template <typename T>
void expect_plain_product(const Problem& problem, Precision precision) {
  const Inputs inputs = make(problem, precision);
  const std::vector<std::int64_t> rows = all_rows(problem);
  const Reference reference = reference_rows(inputs, rows);
  const std::int64_t columns = problem.columns();
  EXPECT_EQ(reference.rows, rows);
  ASSERT_EQ(reference.value.size(), static_cast<std::size_t>(problem.kv_count()));
  ASSERT_EQ(reference.magnitude.size(), reference.value.size());
  // gamma of Higham, with the roundoff of fp64: see bounds.cpp.
  const double tolerance = static_cast<double>(problem.model_dim + problem.rank) * 0x1p-52;
  for (const std::int64_t row : rows) {
    for (std::int64_t j = 0; j < 2 * columns; ++j) {
      const std::vector<std::byte>& up = j < columns ? inputs.w_up_k : inputs.w_up_v;
      long double value = 0;
      long double magnitude = 0;
      for (std::int64_t r = 0; r < problem.rank; ++r) {
        long double latent = 0;
        long double latent_magnitude = 0;
        for (std::int64_t d = 0; d < problem.model_dim; ++d) {
          const long double term = at<T>(inputs.hidden, row * problem.model_dim + d) *
                                   at<T>(inputs.w_down, d * problem.rank + r);
          latent += term;
          latent_magnitude += std::abs(term);
        }
        const long double weight = at<T>(up, r * columns + j % columns);
        value += latent * weight;
        magnitude += latent_magnitude * std::abs(weight);
      }
      const auto i = static_cast<std::size_t>(row * 2 * columns + j);
      ASSERT_NEAR(reference.value[i], static_cast<double>(value),
                  tolerance * static_cast<double>(magnitude));
      ASSERT_NEAR(reference.magnitude[i] / static_cast<double>(magnitude), 1, tolerance);
    }
  }
}

TEST(Reference, IsThePlainProductOfTheStoredValues) {
  // Long double loops over all of it: the smaller ranks keep it short.
  Problem problem = kRagged;
  problem.batch = 1;
  expect_plain_product<float>(problem, Precision::kFp32);
  problem.seq = 3;
  expect_plain_product<float>(problem, Precision::kTf32);
  expect_plain_product<Bf16>(problem, Precision::kBf16);
  expect_plain_product<F16>(problem, Precision::kFp16);
  expect_plain_product<float>(kTiny, Precision::kFp32);
}

TEST(Reference, OfSampledRowsIsThoseRowsBitByBit) {
  const Inputs inputs = make(kRagged, Precision::kFp32);
  const Reference all = reference_rows(inputs, all_rows(kRagged));
  const std::vector<std::int64_t> rows{0, 1, 40, 68};
  const Reference some = reference_rows(inputs, rows);
  const auto width = static_cast<std::size_t>(2 * kRagged.columns());
  ASSERT_EQ(some.value.size(), rows.size() * width);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t j = 0; j < width; ++j) {
      const std::size_t in_all = static_cast<std::size_t>(rows[i]) * width + j;
      ASSERT_EQ(some.value[i * width + j], all.value[in_all]);
      ASSERT_EQ(some.magnitude[i * width + j], all.magnitude[in_all]);
    }
  }
}

TEST(Reference, BitsDoNotDependOnTheNumberOfThreads) {
  const Inputs inputs = make(kRagged, Precision::kFp32);
  const int threads = omp_get_max_threads();
  omp_set_num_threads(1);
  const Reference alone = reference_rows(inputs, all_rows(kRagged));
  omp_set_num_threads(5);
  const Reference together = reference_rows(inputs, all_rows(kRagged));
  omp_set_num_threads(threads);
  EXPECT_EQ(alone.value, together.value);
  EXPECT_EQ(alone.magnitude, together.magnitude);
}

TEST(Reference, NotANumberReachesItsRowAlone) {
  Inputs inputs = make(kRagged, Precision::kFp32);
  reinterpret_cast<float*>(inputs.hidden.data())[2 * kRagged.model_dim] =
      std::numeric_limits<float>::quiet_NaN();
  const Reference reference = reference_rows(inputs, all_rows(kRagged));
  const std::int64_t width = 2 * kRagged.columns();
  for (std::int64_t i = 0; i < 4 * width; ++i) {
    EXPECT_EQ(std::isnan(reference.value[i]), i / width == 2) << i;
  }
}

TEST(Projection, IsTheRowsTimesTheSigns) {
  for (const Precision precision : kPrecisions) {
    const Inputs inputs = make(kRagged, precision);
    const Reference reference = reference_rows(inputs, all_rows(kRagged));
    const Projection projection = project(inputs, 3);
    const std::int64_t columns = kRagged.columns();
    ASSERT_EQ(projection.signs.size(), static_cast<std::size_t>(2 * columns));
    ASSERT_EQ(projection.value.size(), static_cast<std::size_t>(2 * kRagged.rows()));
    for (std::int64_t i = 0; i < 2 * kRagged.rows(); ++i) {
      double value = 0;
      double magnitude = 0;
      for (std::int64_t j = 0; j < columns; ++j) {
        value += reference.value[i * columns + j] * projection.signs[i % 2 * columns + j];
        magnitude += reference.magnitude[i * columns + j];
      }
      const double roundings = static_cast<double>(kRagged.model_dim + kRagged.rank + columns);
      ASSERT_NEAR(projection.value[i], value, 2 * roundings * 0x1p-53 * magnitude);
      ASSERT_NEAR(projection.magnitude[i] / magnitude, 1, 2 * roundings * 0x1p-53);
    }
  }
}

TEST(Projection, SignsAreBothAndFollowTheSeed) {
  const Inputs inputs = make(kRagged, Precision::kFp32);
  const Projection one = project(inputs, 1);
  EXPECT_EQ(one.signs, project(inputs, 1).signs);
  EXPECT_NE(one.signs, project(inputs, 2).signs);
  EXPECT_EQ(std::set<double>(one.signs.begin(), one.signs.end()), (std::set<double>{-1, 1}));
}

TEST(SampleRows, AreAllRowsOfASmallProblem) {
  EXPECT_EQ(sample_rows(kTiny, 1), std::vector<std::int64_t>{0});
  Problem problem = kTiny;
  problem.seq = kSampleRows;
  EXPECT_EQ(sample_rows(problem, 1), all_rows(problem));
}

TEST(SampleRows, AreDistinctAscendingAndReachBothEnds) {
  Problem problem = kTiny;
  for (const std::int64_t rows : {kSampleRows + 1, std::int64_t{4096}, std::int64_t{1} << 40}) {
    problem.seq = rows;
    const std::vector<std::int64_t> sample = sample_rows(problem, 1);
    EXPECT_EQ(sample.size(), static_cast<std::size_t>(kSampleRows));
    EXPECT_EQ(sample.front(), 0);
    EXPECT_EQ(sample.back(), rows - 1);
    EXPECT_TRUE(std::is_sorted(sample.begin(), sample.end()));
    EXPECT_EQ(std::set<std::int64_t>(sample.begin(), sample.end()).size(), sample.size());
    EXPECT_EQ(sample, sample_rows(problem, 1));
  }
  EXPECT_NE(sample_rows(problem, 1), sample_rows(problem, 2));
}

TEST(FullReference, IsForProblemsThatTakeSecondsAndFitMemory) {
  EXPECT_FALSE(too_large_for_full_reference({}));
  const Problem deepseek_v3{
      .batch = 1, .seq = 4096, .model_dim = 7168, .rank = 512, .kv_heads = 128, .head_dim = 128};
  EXPECT_TRUE(too_large_for_full_reference(deepseek_v3));
  // Little to compute, but 2^31 results.
  const Problem wide{
      .batch = 1, .seq = 1 << 15, .model_dim = 1, .rank = 1, .kv_heads = 1, .head_dim = 1 << 15};
  EXPECT_TRUE(too_large_for_full_reference(wide));
}

}  // namespace
}  // namespace mla_bench
