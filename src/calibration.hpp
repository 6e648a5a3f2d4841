// What a device can do at best today, and how finely it can be timed: the yardsticks beside every
// time of a document.
#pragma once

#include <optional>
#include <string>

#include "executor.hpp"
#include "result.hpp"

namespace mla_bench {

// Measured on the device by kernels of known work. Unset where the device has no such unit.
struct Calibration {
  std::string measured_at;         // ISO 8601, UTC
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

// The cell's FLOPs on the unit that the variant uses, or its compulsory bytes from where they lie,
// whichever takes longer (Williams, Waterman and Patterson, "Roofline", 2009). fp32 on tensor cores
// is credited at the rate of one TF32 and two BF16 products, the fewest cycles that tensor_core
// makes of it. Hot bytes come from the cache where they fit it. Unset where the unit's ceiling is
// not known.
std::optional<Roofline> roofline(const Calibration& calibration, const Device& device,
                                 const Cell& cell, Unit unit);

}  // namespace mla_bench
