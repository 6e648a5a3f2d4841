// One set of the operator's tensors in a device's memory, with guard bands around the output.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "executor.hpp"
#include "inputs.hpp"

namespace mla_bench {

class OperandSet {
 public:
  // Allocates; what the tensors hold is undefined until `reset` or `copy_from`. The executor must
  // outlive the set. Throws OutOfMemoryError.
  OperandSet(Executor& executor, const Problem& problem, StoredType type);
  // Allocates and uploads.
  OperandSet(Executor& executor, const Inputs& inputs);

  Operands operands() const;

  // Inputs and guard bands whole, whatever a launch did to them, and
  // kv poisoned, so that what a kernel leaves out is seen.
  void reset(const Inputs& inputs);

  // As the other set of the same shape and device is, whatever a launch did to either.
  void copy_from(const OperandSet& other);

  // Whether the two hold the same bytes: inputs, kv and guard bands.
  bool equals(const OperandSet& other) const;

  std::vector<std::byte> download_kv() const;

  // In words what a launch did beside its output: an input changed, a guard band overwritten. Empty
  // where nothing was.
  std::string trespass(const Inputs& inputs) const;

  // Bytes that a launch reads and writes of one set.
  static std::int64_t operand_bytes(const Problem& problem, StoredType type);
  // Bytes that one set allocates: the operands, the guard bands and the allocator's rounding.
  static std::int64_t allocated_bytes(const Problem& problem, StoredType type);

 private:
  struct Part {
    std::byte* data;
    std::int64_t bytes;
  };
  // All that `reset` writes.
  std::array<Part, 5> parts() const;

  Executor* executor_;
  std::int64_t hidden_bytes_;
  std::int64_t down_bytes_;
  std::int64_t up_bytes_;  // of each of the two
  std::int64_t kv_bytes_;
  Memory hidden_;
  Memory w_down_;
  // w_up_k and, up_pitch_ bytes behind it, w_up_v: in one allocation as a model that keeps them in
  // one tensor has them, so that a library's batched product, which knows one stride, can take
  // both.
  std::int64_t up_pitch_;
  Memory w_up_;
  Memory guarded_kv_;  // guard, kv, guard
};

}  // namespace mla_bench
