// Whose turn it is. Cells that share tensors take turns in random order, so that slow drifts of
// clocks and temperature fall on all of them alike, until each is known well enough.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "options.hpp"
#include "result.hpp"

namespace mla_bench {

// What the schedule sees of a cell.
struct Progress {
  bool open = false;              // it can still be measured
  std::span<const Round> rounds;  // so far
};

// The cells that get a round in this lap, in random order drawn from `seed`; none when all are
// done. With options.rounds, each open cell gets so many. Otherwise each gets kFewestRounds, and
// more while its 95 % interval is wider than the precision target, it has fewer than kMostRounds,
// and `seconds_left` lasts.
std::vector<std::size_t> next_lap(std::span<const Progress> cells, const MeasuringOptions& options,
                                  double seconds_left, std::uint64_t seed);

inline constexpr std::size_t kFewestRounds = 5;
inline constexpr std::size_t kMostRounds = 21;

}  // namespace mla_bench
