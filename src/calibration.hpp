// What a device can do at best today, and how finely it can be timed: the yardsticks beside every time
// of a document.
#pragma once

#include <optional>
#include <string>

#include "executor.hpp"
#include "result.hpp"

namespace mla_bench {

// Measured on the device by kernels of known work. Unset where the device has no such unit.
struct Calibration {
  std::string measured_at;  // ISO 8601, UTC
  double tick_ns = 0;              // smallest step between two times of the timer
  double empty_launch_ns = 0;      // period of an empty kernel of one warp, or of an empty region
  double replay_intercept_ns = 0;  // fixed cost of a timed pass
  double enqueue_ns = 0;           // host time to put one launch on a stream
  double launch_and_wait_ns = 0;   // host time of one launch and the wait for its end
  // Read plus written by a copy: far larger than the last-level cache, and well inside it.
  double memory_bytes_per_s = 0;
  double cache_bytes_per_s = 0;
  std::optional<double> fma_flop_per_s;   // fp32
  std::optional<double> tf32_flop_per_s;  // tensor cores
  std::optional<double> bf16_flop_per_s;
  std::optional<double> fp16_flop_per_s;
};

Calibration calibrate(Executor& executor);

// The least time that a cell's credited work can take: its FLOPs on the unit that the variant uses, or
// its compulsory bytes from where they lie, whichever takes longer (Williams, Waterman and Patterson,
// "Roofline", 2009). fp32 on tensor cores is credited at a third of the TF32 rate, since 3xTF32 makes
// three products of one. Unset where the unit's ceiling is not known.
struct Roofline {
  double ns = 0;
  bool by_memory = false;  // bytes bind, not arithmetic
};
std::optional<Roofline> roofline(const Calibration& calibration, const Cell& cell, Unit unit);

// The calibration of a GPU is kept for a day in $XDG_CACHE_HOME/mla-bench (or ~/.cache/mla-bench), by
// uuid, driver and this program's version. Nothing where there is none that is fresh and readable.
std::optional<Calibration> cached_calibration(const std::string& uuid, const std::string& driver);
// Keeps it; a folder that cannot be written is no error.
void cache_calibration(const std::string& uuid, const std::string& driver,
                       const Calibration& calibration);

}  // namespace mla_bench
