// Cells made ready, timed and checked in this process, on shared tensors.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "calibration.hpp"
#include "environment.hpp"
#include "executor.hpp"
#include "measure.hpp"
#include "result.hpp"

namespace mla_bench {

// The tensors of one (device, problem, precision, inputs), and the cells that are open on them.
class Session {
 public:
  // `environment` may be null: then rounds say nothing of clocks and throttling.
  Session(DeviceList devices, std::unique_ptr<Environment> environment);
  ~Session();

  // What this device can do at best, and how it is set up.
  Calibration calibrate(const Device& device);
  std::optional<GpuSetup> setup(const Device& device);

  // Prepares a cell, launches it once on poisoned output, checks that, measures the floors under it
  // (unless the effort leaves them out), plans its timing, and plants what the cell says. A result
  // that is kPassed is open; any other is final and says why. Cells on other tensors are dropped
  // first. Writes inputs and kv to `save` where that is set. Throws CudaError for what the device
  // did, UsageError for a bad input file.
  Result open(const Cell& cell, const Effort& effort, const std::optional<std::string>& save);

  // One round of an open cell.
  Round measure(const std::string& id);

  // Poisons every operand set, replays the timed launches once more on negated hidden, so that no
  // result kept from before is right, and checks what they wrote: status kPassed or kIncorrect,
  // with `recheck` and `reason`; then proves a cold cell cold.
  Result close(const std::string& id);

  // Times the frozen launches on the device of the open cells, briefly; nothing where their memory
  // is not free.
  std::optional<Anchors> anchors();

  // Asks the second witness, after which this process must time nothing more; the cell is no longer
  // open.
  Referee witness(const std::string& id);

  // Launches a cell once inside the NVTX range mla_bench_cell, for an outside profiler, with its
  // operands in the cache or out of it as the cell says: nothing is checked or timed. kPassed,
  // kSkipped or kFailed.
  Result profile(const Cell& cell);

 private:
  struct Tensors;
  struct OpenCell;

  // What a spin takes beside other launches: ns = fixed_ns + by_ns * the length asked for.
  struct SpinCost {
    double fixed_ns = 0;
    double by_ns = 1;
  };

  Tensors& tensors_for(const Cell& cell);
  Reference& reference_for(Tensors& tensors);
  void ensure_sets(Tensors& tensors, std::size_t count);
  OpenCell prepare(const Cell& cell);
  std::vector<Launch> bind(const OpenCell& open, std::size_t sets);
  Launch bind_set(const OpenCell& open, std::size_t set);
  SpinCost spin_cost();
  PlantedWork plant_work(OpenCell& open, bool verify);
  std::int64_t unwritten(std::size_t set) const;
  CheckContext context_of(const OpenCell& open) const;
  Check check(const OpenCell& open, std::size_t set);
  void negate_answers();
  Check recheck(const OpenCell& open, std::size_t& set);
  bool is_answer_of_before(const OpenCell& open, std::size_t set);
  double touch_ns(const OpenCell& open);
  ColdProof prove_cold(const OpenCell& open);
  double gap_ns(const std::vector<Launch>& ring, double period_ns, std::int64_t launches,
                std::string& missing);
  double gap_band_ns();

  DeviceList devices_;
  std::unique_ptr<Environment> environment_;
  std::unique_ptr<Tensors> tensors_;
  std::map<std::string, OpenCell> open_;
  std::map<std::string, SpinCost> spin_costs_;  // by device
};

}  // namespace mla_bench
