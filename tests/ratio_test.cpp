// Ratios of times and how sure they are.
#include "ratio.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <stdexcept>
#include <vector>

namespace mla_bench {
namespace {

using Values = std::vector<double>;

TEST(Ratio, OfPairedRoundsIsStudentsTOnLogarithms) {
  // Logarithms of the ratios: ln 2 - 0.01, ln 2, ln 2 + 0.01; s = 0.01, t(2) = 4.3027.
  const Values denominator{100, 200, 300};
  const Values numerator{200 * std::exp(-0.01), 400, 600 * std::exp(0.01)};
  const Ratio ratio = paired_ratio(numerator, denominator);
  const double half = 4.302652729911275 * 0.01 / std::sqrt(3.0);
  EXPECT_TRUE(ratio.paired);
  EXPECT_NEAR(ratio.estimate, 2, 1e-12);
  ASSERT_TRUE(ratio.ci95);
  EXPECT_NEAR(ratio.ci95->low, 2 * std::exp(-half), 1e-9);
  EXPECT_NEAR(ratio.ci95->high, 2 * std::exp(half), 1e-9);
}

TEST(Ratio, OfPairedRoundsLosesWhatBothShare) {
  const Values drift{100, 150, 80, 120, 300};
  Values twice;
  for (const double ns : drift) {
    twice.push_back(2 * ns);
  }
  const Ratio paired = paired_ratio(twice, drift);
  EXPECT_NEAR(paired.ci95->high - paired.ci95->low, 0, 1e-9);
  EXPECT_TRUE(paired.is_decided());
  EXPECT_FALSE(independent_ratio(twice, drift).is_decided());
}

TEST(Ratio, OfPairedRoundsLeavesOutThoseWithoutAPartner) {
  const Ratio ratio = paired_ratio(Values{2, 4, 1000}, Values{1, 2});
  EXPECT_NEAR(ratio.estimate, 2, 1e-12);
}

TEST(Ratio, OfIndependentRoundsIsWelchsT) {
  // Logarithms 0, 1, 2 and 0, 4: means 1 and 2, variances 1 and 8, of the means 1/3 and 4.
  // Welch and Satterthwaite: (13/3)^2 / ((1/3)^2 / 2 + 4^2 / 1) = 1.17, rounded down to 1.
  const Values a{1, std::exp(1.0), std::exp(2.0)};
  const Values b{1, std::exp(4.0)};
  const Ratio ratio = independent_ratio(b, a);
  EXPECT_FALSE(ratio.paired);
  EXPECT_NEAR(std::log(ratio.estimate), 1, 1e-12);
  EXPECT_NEAR(std::log(ratio.ci95->high), 1 + 12.706204736432095 * std::sqrt(13.0 / 3.0), 1e-9);
}

TEST(Ratio, OneRoundSaysNothingOfItsSpread) {
  for (const Ratio& ratio :
       {paired_ratio(Values{3}, Values{2}), independent_ratio(Values{3}, Values{2, 2.1, 2.2})}) {
    EXPECT_FALSE(ratio.ci95);
    EXPECT_FALSE(ratio.is_decided());
  }
  EXPECT_THROW(paired_ratio(Values{}, Values{1}), std::invalid_argument);
  EXPECT_THROW(independent_ratio(Values{1}, Values{}), std::invalid_argument);
}

TEST(Ratio, TimesThatAllAgreeHaveAPoint) {
  const Ratio ratio = independent_ratio(Values{4, 4, 4}, Values{2, 2});
  EXPECT_EQ(ratio.ci95->low, ratio.ci95->high);
  EXPECT_NEAR(ratio.estimate, 2, 1e-12);
}

TEST(Ratio, InverseSaysTheSame) {
  const Values a{1.0, 1.1, 1.2};
  const Values b{2.0, 2.3, 2.1};
  for (const auto& [there, back] : {std::pair{paired_ratio(a, b), paired_ratio(b, a)},
                                    std::pair{independent_ratio(a, b), independent_ratio(b, a)}}) {
    EXPECT_NEAR(there.inverse().estimate, back.estimate, 1e-12);
    EXPECT_NEAR(there.inverse().ci95->low, back.ci95->low, 1e-12);
    EXPECT_NEAR(there.inverse().ci95->high, back.ci95->high, 1e-12);
  }
}

// Standard normal; by Box and Muller, since the standard does not fix std::normal_distribution.
class Normal {
 public:
  explicit Normal(std::uint64_t seed) : engine_(seed) {}

  double operator()() {
    constexpr double kPi = 3.14159265358979323846;
    const double u = (static_cast<double>(engine_() >> 11) + 0.5) * 0x1p-53;
    const double v = (static_cast<double>(engine_() >> 11) + 0.5) * 0x1p-53;
    return std::sqrt(-2 * std::log(u)) * std::cos(2 * kPi * v);
  }

 private:
  std::mt19937_64 engine_;
};

// How often the interval holds the true ratio when rounds spread by 1 % and, for pairs, share a
// drift of 3 %. Of n trials at 95 % the count's deviation is sqrt(0.05 * 0.95 / n); the bounds are
// four of them.
TEST(Ratio, IntervalsHoldTheTruthAsOftenAsTheySay) {
  constexpr int kTrials = 4000;
  constexpr double kTruth = 1.03;
  const double tolerance = 4 * std::sqrt(0.05 * 0.95 / kTrials);
  Normal normal(7);
  int paired_hits = 0;
  int independent_hits = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    Values a;
    Values b;
    Values far;
    for (int round = 0; round < 5; ++round) {
      const double drift = std::exp(0.03 * normal());
      a.push_back(kTruth * drift * std::exp(0.01 * normal()));
      b.push_back(drift * std::exp(0.01 * normal()));
      far.push_back(kTruth * std::exp(0.01 * normal()));
    }
    Values other;
    for (int round = 0; round < 9; ++round) {
      other.push_back(std::exp(0.01 * normal()));
    }
    const auto holds = [](const Ratio& ratio) {
      return ratio.ci95->low <= kTruth && kTruth <= ratio.ci95->high;
    };
    paired_hits += holds(paired_ratio(a, b)) ? 1 : 0;
    independent_hits += holds(independent_ratio(far, other)) ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(paired_hits) / kTrials, 0.95, tolerance);
  // Degrees of freedom are rounded down, so it may hold a little more often.
  EXPECT_NEAR(static_cast<double>(independent_hits) / kTrials, 0.953, tolerance);
}

}  // namespace
}  // namespace mla_bench
