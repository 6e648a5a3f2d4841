// Calibrations of GPUs kept for a day, so that most runs need not repeat them.
#pragma once

#include <optional>
#include <string>

#include "calibration.hpp"

namespace mla_bench {

// What tells one calibration from another: the GPU, its driver, and the program that measured.
struct CalibrationKey {
  std::string uuid;
  std::string driver;
};

// From $XDG_CACHE_HOME/mla-bench (or ~/.cache/mla-bench). Nothing where there is none, or none that
// is readable, of this program's version and less than a day old at `now` (ISO 8601, UTC).
std::optional<Calibration> cached_calibration(const CalibrationKey& key, const std::string& now);

// Keeps it. A folder that cannot be written is no error: the next run calibrates again.
void cache_calibration(const CalibrationKey& key, const Calibration& calibration);

}  // namespace mla_bench
