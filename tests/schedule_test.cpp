// Whose turn it is: a pure function of the rounds so far, the options, the time left and the seed.
#include "schedule.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

namespace mla_bench {
namespace {

using Lap = std::vector<std::size_t>;

constexpr double kPlenty = 1e6;

// Rounds whose medians spread around 100 ns by +-`spread`: 100 - spread, 100 + spread, ...
std::vector<Round> rounds(std::size_t count, double spread) {
  std::vector<Round> made;
  for (std::size_t i = 0; i < count; ++i) {
    const double ns = 100 + (i % 2 == 0 ? -spread : spread);
    Round round;
    round.long_launches = 1;
    round.long_ns = {ns, ns, ns};
    round.samples_ns = round.long_ns;
    made.push_back(round);
  }
  return made;
}

Lap sorted(Lap lap) {
  std::sort(lap.begin(), lap.end());
  return lap;
}

MeasuringOptions until_precise() {
  return {.rounds = std::nullopt, .precision_target = 0.005};
}

MeasuringOptions fixed_rounds(int count) {
  MeasuringOptions options;
  options.rounds = count;
  return options;
}

TEST(Schedule, FixedRoundsAreExactlySoMany) {
  const std::vector<Round> none;
  const std::vector<Round> one = rounds(1, 50);
  const std::vector<Round> two = rounds(2, 50);
  const std::vector<Progress> cells{{true, none}, {true, one}, {true, two}};
  EXPECT_EQ(sorted(next_lap(cells, fixed_rounds(2), kPlenty, 0)), (Lap{0, 1}));
  EXPECT_EQ(sorted(next_lap(cells, fixed_rounds(1), kPlenty, 0)), Lap{0});
}

TEST(Schedule, FixedRoundsOutlastTheBudget) {
  const std::vector<Round> one = rounds(1, 50);
  const std::vector<Progress> cells{{true, one}};
  EXPECT_EQ(next_lap(cells, fixed_rounds(3), -10, 0), Lap{0});
}

TEST(Schedule, FixedRoundsMayBeFewerThanTheFewestAndMoreThanTheMost) {
  const std::vector<Round> many = rounds(kMostRounds + 5, 0);
  const std::vector<Progress> cells{{true, many}};
  EXPECT_EQ(next_lap(cells, fixed_rounds(static_cast<int>(kMostRounds) + 6), kPlenty, 0), Lap{0});
  EXPECT_TRUE(next_lap(cells, fixed_rounds(1), kPlenty, 0).empty());
}

TEST(Schedule, ClosedCellsHaveNoTurn) {
  const std::vector<Round> none;
  const std::vector<Progress> cells{{false, none}, {true, none}, {false, none}};
  EXPECT_EQ(next_lap(cells, until_precise(), kPlenty, 0), Lap{1});
  EXPECT_EQ(next_lap(cells, fixed_rounds(3), kPlenty, 0), Lap{1});
  EXPECT_TRUE(next_lap(std::vector<Progress>{}, until_precise(), kPlenty, 0).empty());
}

TEST(Schedule, EachGetsTheFewestRoundsHoweverSteady) {
  for (std::size_t done = 0; done < kFewestRounds; ++done) {
    const std::vector<Round> steady = rounds(done, 0);
    EXPECT_EQ(next_lap(std::vector<Progress>{{true, steady}}, until_precise(), kPlenty, 0), Lap{0})
        << done;
  }
  const std::vector<Round> enough = rounds(kFewestRounds, 0);
  EXPECT_TRUE(next_lap(std::vector<Progress>{{true, enough}}, until_precise(), kPlenty, 0).empty());
}

TEST(Schedule, AnUnsteadyCellGoesOnToTheMost) {
  const std::vector<Round> some = rounds(kMostRounds - 1, 20);
  const std::vector<Round> most = rounds(kMostRounds, 20);
  const std::vector<Progress> cells{{true, some}, {true, most}};
  EXPECT_EQ(next_lap(cells, until_precise(), kPlenty, 0), Lap{0});
}

TEST(Schedule, ThePrecisionTargetDecidesInBetween) {
  // Medians 99, 101, 99, 101, 99, 101: s = 1.0954, half width 2.5706 * 1.0954 / sqrt(6) = 1.150.
  const std::vector<Round> six = rounds(6, 1);
  const std::vector<Progress> cells{{true, six}};
  MeasuringOptions options = until_precise();
  options.precision_target = 0.0114;
  EXPECT_EQ(next_lap(cells, options, kPlenty, 0), Lap{0});
  options.precision_target = 0.0116;
  EXPECT_TRUE(next_lap(cells, options, kPlenty, 0).empty());
}

TEST(Schedule, ASpentBudgetStillMeasuresEachOnce) {
  const std::vector<Round> none;
  const std::vector<Round> one = rounds(1, 0);
  const std::vector<Progress> cells{{true, none}, {true, one}};
  EXPECT_EQ(next_lap(cells, until_precise(), 0, 0), Lap{0});
  EXPECT_EQ(next_lap(cells, until_precise(), -5, 0), Lap{0});
  EXPECT_EQ(sorted(next_lap(cells, until_precise(), 1e-3, 0)), (Lap{0, 1}));
}

TEST(Schedule, OrderIsRandomByLapAndTheSameEverywhere) {
  const std::vector<Round> none;
  const std::vector<Progress> cells(8, {true, none});
  std::set<Lap> orders;
  for (std::uint64_t lap = 0; lap < 20; ++lap) {
    const Lap order = next_lap(cells, until_precise(), kPlenty, lap);
    EXPECT_EQ(order, next_lap(cells, until_precise(), kPlenty, lap));
    EXPECT_EQ(sorted(order), (Lap{0, 1, 2, 3, 4, 5, 6, 7}));
    orders.insert(order);
  }
  EXPECT_GE(orders.size(), 19u);
  // From the standard's mt19937_64: another platform must draw the same.
  EXPECT_EQ(next_lap(cells, until_precise(), kPlenty, 0), (Lap{4, 5, 2, 0, 7, 1, 3, 6}));
  EXPECT_EQ(next_lap(cells, until_precise(), kPlenty, 1), (Lap{4, 6, 3, 5, 1, 7, 2, 0}));
}

TEST(Schedule, NoPlaceInTheLapBelongsToACell) {
  const std::vector<Round> none;
  const std::vector<Progress> cells(4, {true, none});
  std::vector<int> first(4, 0);
  constexpr int kLaps = 4000;
  for (std::uint64_t lap = 0; lap < kLaps; ++lap) {
    ++first[next_lap(cells, until_precise(), kPlenty, lap).front()];
  }
  for (const int count : first) {
    EXPECT_NEAR(count, kLaps / 4, 110);  // four standard deviations of a binomial
  }
}

}  // namespace
}  // namespace mla_bench
