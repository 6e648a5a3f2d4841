// Estimators against values worked out by hand or taken from tables.
#include "statistics.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

namespace mla_bench {
namespace {

TEST(NormalQuantile, IsThatOfTables) {
  EXPECT_NEAR(normal_quantile(0.975), 1.959963984540054, 1e-12);
  EXPECT_NEAR(normal_quantile(0.95), 1.6448536269514722, 1e-12);
  EXPECT_NEAR(normal_quantile(0.999), 3.090232306167813, 1e-12);
  EXPECT_NEAR(normal_quantile(0.9), student_t_quantile(0.9, 3000), 1e-3);
  for (const double outside : {0.5, 1.0, -1.0}) {
    EXPECT_THROW(normal_quantile(outside), std::invalid_argument);
  }
}

using Values = std::vector<double>;

TEST(Statistics, MedianIsTheMiddleOrTheMeanOfTwo) {
  EXPECT_EQ(median(Values{7}), 7);
  EXPECT_EQ(median(Values{3, 1, 2}), 2);
  EXPECT_EQ(median(Values{4, 1, 3, 2}), 2.5);
  EXPECT_EQ(median(Values{5, 5, 5, 5}), 5);
  EXPECT_EQ(median(Values{1, 1000, 2, 3, 4}), 3) << "an outlier moves it little";
}

TEST(Statistics, MedianLeavesItsInputAlone) {
  const Values values{3, 1, 2};
  (void)median(values);
  EXPECT_EQ(values, (Values{3, 1, 2}));
}

TEST(Statistics, NothingHasNoMedian) {
  EXPECT_THROW(median(Values{}), std::invalid_argument);
  EXPECT_THROW(median_absolute_deviation(Values{}), std::invalid_argument);
}

TEST(Statistics, DeviationIsTheMedianDistance) {
  EXPECT_EQ(median_absolute_deviation(Values{1, 1, 2, 2, 4, 6, 9}), 1);
  EXPECT_EQ(median_absolute_deviation(Values{4}), 0);
}

TEST(Statistics, TheSmallestStepIsTheTick) {
  EXPECT_EQ(smallest_step(Values{96, 32, 320, 32, 128}, 1), 32);
  EXPECT_EQ(smallest_step(Values{64, 64.5, 96, 96.25}, 1), 31.5) << "closer is rounding";
  EXPECT_EQ(smallest_step(Values{3, 5}, 0), 2);
  for (const Values& values : {Values{}, Values{7}, Values{7, 7, 7}, Values{7, 7.5}}) {
    EXPECT_EQ(smallest_step(values, 1), 0);
  }
}

TEST(Statistics, StudentsQuantileMatchesTables) {
  EXPECT_NEAR(student_t_975(1), 12.706, 5e-4);
  EXPECT_NEAR(student_t_975(4), 2.776, 5e-4);
  EXPECT_NEAR(student_t_975(30), 2.042, 5e-4);
  EXPECT_NEAR(student_t_975(31), 2.03951, 1e-5);
  EXPECT_NEAR(student_t_975(60), 2.00030, 1e-5);
  EXPECT_NEAR(student_t_975(1000), 1.96234, 1e-5);
  // One-sided, from tables.
  EXPECT_NEAR(student_t_quantile(0.99, 4), 3.74695, 1e-5);
  EXPECT_NEAR(student_t_quantile(0.998, 20), 3.25116, 1e-5);
  EXPECT_NEAR(student_t_quantile(0.999, 1), 318.309, 1e-3);
  EXPECT_NEAR(student_t_quantile(0.75, 1), 1, 1e-12);  // tan(pi / 4)
  EXPECT_THROW(student_t_quantile(0.5, 7), std::invalid_argument);
  EXPECT_THROW(student_t_quantile(1, 7), std::invalid_argument);
  EXPECT_THROW(student_t_975(0), std::invalid_argument);
  EXPECT_THROW(student_t_975(-3), std::invalid_argument);
}

TEST(Statistics, StudentsQuantileFallsAllTheWay) {
  for (int n = 1; n < 200; ++n) {
    EXPECT_GT(student_t_975(n), student_t_975(n + 1)) << n;
  }
}

TEST(Statistics, HalfWidthIsStudentsTimesTheStandardError) {
  // Mean 3, s = sqrt(2.5), n = 5: 2.7764 * 1.58114 / 2.23607.
  EXPECT_NEAR(half_width_95(Values{1, 2, 3, 4, 5}), 1.96321, 1e-4);
  EXPECT_EQ(half_width_95(Values{2, 2, 2}), 0);
}

TEST(Statistics, OneValueSaysNothingOfItsSpread) {
  EXPECT_EQ(half_width_95(Values{1}), std::numeric_limits<double>::infinity());
  EXPECT_EQ(half_width_95(Values{}), std::numeric_limits<double>::infinity());
}

// The interval must hold the mean 95 times of 100, or a comparison built on it lies.
TEST(Statistics, IntervalCoversAsOftenAsItSays) {
  std::uint64_t state = 1;
  const auto uniform = [&state] {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<double>(state >> 33) / 0x1p31;
  };
  constexpr int kTrials = 4000;
  int covered = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    Values values;
    double sum = 0;
    for (int i = 0; i < 5; ++i) {
      double normal = -6;  // a sum of twelve uniforms has variance one
      for (int k = 0; k < 12; ++k) {
        normal += uniform();
      }
      values.push_back(normal);
      sum += normal;
    }
    covered += std::abs(sum / 5) <= half_width_95(values) ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(covered) / kTrials, 0.95, 0.012);  // 3.5 standard errors
}

}  // namespace
}  // namespace mla_bench
