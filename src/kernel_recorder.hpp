// How long each kernel itself ran, as the GPU's own time stamps tell it: a second witness beside
// the period that graph replays give. It slows what it watches, so it never runs while anything is
// timed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace mla_bench {

// One kernel that ran.
struct KernelRecord {
  std::uint32_t correlation =
      0;                // the API call that caused it: one for all nodes of a graph launch
  double start_ns = 0;  // GPU time stamps
  double end_ns = 0;
};

class KernelRecorder {
 public:
  virtual ~KernelRecorder() = default;

  // Runs `work`, which launches something, and throws its records away: the first session of a
  // process may record nothing, or damaged stamps.
  virtual void discard_first_session(const std::function<void()>& work) = 0;

  // Runs `work` (which must wait for what it launches) and returns every kernel that ran meanwhile,
  // on whatever stream, in the order in which they began. Throws std::runtime_error where records
  // were dropped or cannot be had.
  virtual std::vector<KernelRecord> record(const std::function<void()>& work) = 0;
};

// The recorder, or why there is none: no libcupti on this machine, or another profiler has it.
struct LoadedRecorder {
  std::unique_ptr<KernelRecorder> recorder;
  std::string missing;
};

// By CUPTI, loaded at run time. One for a process.
LoadedRecorder load_kernel_recorder();

}  // namespace mla_bench
