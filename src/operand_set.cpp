#include "operand_set.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace mla_bench {
namespace {

// Wide enough for a vector store that runs over, and a multiple of every alignment that kernels
// use.
constexpr std::int64_t kGuardBytes = 4096;
constexpr std::byte kGuardPattern{0xA5};
// What an allocation, or the first of two tensors in one, may be rounded up to.
constexpr std::int64_t kAllocationUnit = 512;

std::int64_t rounded_up(std::int64_t bytes) {
  return (bytes + kAllocationUnit - 1) / kAllocationUnit * kAllocationUnit;
}

}  // namespace

OperandSet::OperandSet(Executor& executor, const Problem& problem, StoredType type)
    : executor_(&executor),
      hidden_bytes_(problem.hidden_count() * size_of(type)),
      down_bytes_(problem.down_count() * size_of(type)),
      up_bytes_(problem.up_count() * size_of(type)),
      kv_bytes_(problem.kv_count() * size_of(type)),
      hidden_(executor.allocate(hidden_bytes_)),
      w_down_(executor.allocate(down_bytes_)),
      up_pitch_(rounded_up(up_bytes_)),
      w_up_(executor.allocate(up_pitch_ + up_bytes_)),
      guarded_kv_(executor.allocate(kv_bytes_ + 2 * kGuardBytes)) {}

OperandSet::OperandSet(Executor& executor, const Inputs& inputs)
    : OperandSet(executor, inputs.problem, inputs.type) {
  reset(inputs);
}

Operands OperandSet::operands() const {
  return {.hidden = hidden_.get(),
          .w_down = w_down_.get(),
          .w_up_k = w_up_.get(),
          .w_up_v = w_up_.get() + up_pitch_,
          .kv = guarded_kv_.get() + kGuardBytes};
}

void OperandSet::reset(const Inputs& inputs) {
  executor_->upload(hidden_.get(), inputs.hidden);
  executor_->upload(w_down_.get(), inputs.w_down);
  executor_->upload(w_up_.get(), inputs.w_up_k);
  executor_->upload(w_up_.get() + up_pitch_, inputs.w_up_v);
  executor_->fill(guarded_kv_.get(), kGuardPattern, kv_bytes_ + 2 * kGuardBytes);
  executor_->fill(guarded_kv_.get() + kGuardBytes, kPoison, kv_bytes_);
}

std::array<OperandSet::Part, 5> OperandSet::parts() const {
  return {{{.data = hidden_.get(), .bytes = hidden_bytes_},
           {.data = w_down_.get(), .bytes = down_bytes_},
           {.data = w_up_.get(), .bytes = up_bytes_},
           {.data = w_up_.get() + up_pitch_, .bytes = up_bytes_},
           {.data = guarded_kv_.get(), .bytes = kv_bytes_ + 2 * kGuardBytes}}};
}

void OperandSet::copy_from(const OperandSet& other) {
  const auto to = parts();
  const auto from = other.parts();
  for (std::size_t i = 0; i < to.size(); ++i) {
    executor_->copy(to[i].data, from[i].data, to[i].bytes);
  }
}

bool OperandSet::equals(const OperandSet& other) const {
  const auto ours = parts();
  const auto theirs = other.parts();
  std::array<BytePair, std::tuple_size_v<decltype(ours)>> pairs;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    pairs[i] = {.a = ours[i].data, .b = theirs[i].data, .bytes = ours[i].bytes};
  }
  return executor_->equal(pairs);
}

std::vector<std::byte> OperandSet::download_kv() const {
  std::vector<std::byte> kv(static_cast<std::size_t>(kv_bytes_));
  executor_->download(kv, guarded_kv_.get() + kGuardBytes);
  return kv;
}

std::string OperandSet::trespass(const Inputs& inputs) const {
  std::array<std::byte, kGuardBytes> guard;
  for (const auto& [offset, place] :
       {std::pair<std::int64_t, std::string>{0, "before"}, {kGuardBytes + kv_bytes_, "after"}}) {
    executor_->download(guard, guarded_kv_.get() + offset);
    const bool intact =
        std::all_of(guard.begin(), guard.end(), [](std::byte b) { return b == kGuardPattern; });
    if (!intact) {
      return "it wrote outside kv, into the guard band " + place + " it";
    }
  }
  const std::array<std::pair<const std::byte*, const std::vector<std::byte>*>, 4> tensors{
      {{hidden_.get(), &inputs.hidden},
       {w_down_.get(), &inputs.w_down},
       {w_up_.get(), &inputs.w_up_k},
       {w_up_.get() + up_pitch_, &inputs.w_up_v}}};
  static constexpr std::array kNames{"hidden", "w_down", "w_up_k", "w_up_v"};
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    std::vector<std::byte> now(tensors[i].second->size());
    executor_->download(now, tensors[i].first);
    if (now != *tensors[i].second) {
      return std::string("it changed its input ") + kNames[i];
    }
  }
  return "";
}

std::int64_t OperandSet::operand_bytes(const Problem& problem, StoredType type) {
  return (problem.hidden_count() + problem.down_count() + 2 * problem.up_count() +
          problem.kv_count()) *
         size_of(type);
}

std::int64_t OperandSet::allocated_bytes(const Problem& problem, StoredType type) {
  constexpr std::int64_t kTensors = 5;
  return operand_bytes(problem, type) + 2 * kGuardBytes + kTensors * kAllocationUnit;
}

}  // namespace mla_bench
