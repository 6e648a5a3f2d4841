// Cells made ready, timed and checked in this process, on shared tensors.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "executor.hpp"
#include "options.hpp"
#include "result.hpp"

namespace mla_bench {

// The tensors of one (device, problem, precision, inputs), and the cells that are open on them.
class Session {
 public:
  explicit Session(DeviceList devices);
  ~Session();

  // Prepares a cell, launches it once on poisoned output, checks that, and plans its timing. A
  // result that is kPassed is open for `measure`; any other is final and says why. Cells on other
  // tensors are dropped first. Writes inputs and kv to `save` where that is set. Throws CudaError
  // for what the device did, UsageError for a bad input file.
  Result open(const Cell& cell, double warmup_s, const std::optional<std::string>& save);

  // One round of an open cell.
  Round measure(const std::string& id);

  // Poisons every operand set, replays the timed launches once more, and checks what they wrote:
  // status kPassed or kIncorrect, with `recheck` and `reason`. The cell is no longer open.
  Result close(const std::string& id);

 private:
  struct Tensors;
  struct OpenCell;

  Tensors& tensors_for(const Cell& cell);
  void ensure_sets(Tensors& tensors, std::size_t count);
  Check check(Tensors& tensors, const OpenCell& open, std::size_t set) const;

  DeviceList devices_;
  std::unique_ptr<Tensors> tensors_;
  std::map<std::string, OpenCell> open_;
};

}  // namespace mla_bench
