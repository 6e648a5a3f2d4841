// A run's results as a table for people.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "executor.hpp"
#include "result.hpp"

namespace mla_bench {

// One block for each device, problem, precision and cache state, its cells in plan order: median
// (to the digit that the passes resolve), spread, multiple of the floor (every byte touched once),
// part of the roofline, GFLOP/s, GB/s, speed against `reference` (a variant; unset: the block's
// slowest), check. Cells without a time follow with their reason. No trailing spaces, no colours.
std::string table(const std::vector<Result>& results, const std::vector<Device>& devices,
                  const std::optional<std::string>& reference);

}  // namespace mla_bench
