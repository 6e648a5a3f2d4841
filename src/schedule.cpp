#include "schedule.hpp"

#include <random>
#include <utility>

namespace mla_bench {
namespace {

bool wants_round(const Progress& cell, const MeasuringOptions& options, double seconds_left) {
  const std::size_t done = cell.rounds.size();
  if (!cell.open) {
    return false;
  }
  if (options.rounds) {
    return done < static_cast<std::size_t>(*options.rounds);
  }
  if (done == 0) {
    return true;  // a cell that was let in is measured once, whatever the budget says
  }
  if (seconds_left <= 0 || done >= kMostRounds) {
    return false;
  }
  if (done < kFewestRounds) {
    return true;
  }
  const Summary summary = summarize(std::vector<Round>(cell.rounds.begin(), cell.rounds.end()));
  const double half_width = (summary.ci95_high_ns - summary.ci95_low_ns) / 2;
  return !(half_width <= options.precision_target * summary.median_ns);
}

}  // namespace

std::vector<std::size_t> next_lap(std::span<const Progress> cells, const MeasuringOptions& options,
                                  double seconds_left, std::uint64_t seed) {
  std::vector<std::size_t> lap;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (wants_round(cells[i], options, seconds_left)) {
      lap.push_back(i);
    }
  }
  // Fisher and Yates with an engine whose output the standard fixes: std::shuffle differs by
  // library.
  std::mt19937_64 engine(seed);
  for (std::size_t i = lap.size(); i > 1; --i) {
    std::swap(lap[i - 1], lap[engine() % i]);
  }
  return lap;
}

}  // namespace mla_bench
