#include "session.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "check.hpp"
#include "errors.hpp"
#include "measure.hpp"
#include "operand_set.hpp"
#include "reference.hpp"

namespace mla_bench {
namespace {

// Rows and projections that a check samples are drawn from this, so that a repeated run checks
// alike.
constexpr std::uint64_t kSamplingSeed = 0x6d6c615f63686b;

const Variant& find_variant(const Cell& cell) {
  for (const Listed& listed : registry()) {
    if (listed.name == cell.variant && listed.backend == cell.backend && listed.variant) {
      return *listed.variant;
    }
  }
  throw UsageError("variant '" + cell.variant + "' is not in this build");
}

Device find_device(const DeviceList& devices, const Cell& cell) {
  for (Device device : devices.devices) {
    if (device.backend == cell.backend && device.uuid == cell.device) {
      if (cell.backend == Backend::kCpu) {
        device.threads = cell.threads;
      }
      return device;
    }
  }
  throw NoDeviceError("device " + cell.device + " is gone");
}

}  // namespace

struct Session::Tensors {
  Cell key;
  Inputs inputs;
  std::unique_ptr<Executor> executor;
  // All rows, or a sample where that would take too long; a projection only where no device checks
  // all.
  Reference reference;
  bool is_sample = false;
  std::optional<Projection> projection;
  std::vector<OperandSet> sets;
};

struct Session::OpenCell {
  Cell cell;
  const Variant* variant = nullptr;
  Prepared prepared;
  std::unique_ptr<Timer> timer;
  TimingPlan plan;
  std::size_t ring = 1;
};

Session::Session(DeviceList devices) : devices_(std::move(devices)) {}
Session::~Session() = default;

Session::Tensors& Session::tensors_for(const Cell& cell) {
  if (tensors_ && tensors_->key.shares_tensors_with(cell)) {
    return *tensors_;
  }
  // Timers and workspaces refer to the device and the sets: they go first.
  open_.clear();
  tensors_.reset();
  auto fresh = std::make_unique<Tensors>();
  fresh->key = cell;
  fresh->executor = make_executor(find_device(devices_, cell));
  fresh->inputs = make_inputs(cell.inputs, cell.problem, cell.precision);
  fresh->is_sample = too_large_for_full_reference(cell.problem);
  std::vector<std::int64_t> rows;
  if (fresh->is_sample) {
    rows = sample_rows(cell.problem, kSamplingSeed);
  } else {
    for (std::int64_t row = 0; row < cell.problem.rows(); ++row) {
      rows.push_back(row);
    }
  }
  fresh->reference = reference_rows(fresh->inputs, rows);
  if (fresh->is_sample && cell.backend == Backend::kCpu) {
    fresh->projection = project(fresh->inputs, kSamplingSeed);
  }
  tensors_ = std::move(fresh);
  return *tensors_;
}

void Session::ensure_sets(Tensors& tensors, std::size_t count) {
  while (tensors.sets.size() < count) {
    tensors.sets.emplace_back(*tensors.executor, tensors.inputs);
  }
}

Check Session::check(Tensors& tensors, const OpenCell& open, std::size_t set) const {
  const Cell& cell = open.cell;
  const CheckContext context{
      .inputs = tensors.inputs,
      .precision = cell.precision,
      .unit = open.variant->unit(cell.precision),
      .demand_exact = !cell.inputs.file && cell.inputs.distribution == Distribution::kExact};
  const OperandSet& operands = tensors.sets[set];
  std::optional<Check> outcome;
  if (tensors.is_sample) {
    outcome = tensors.executor->check_on_device(operands.operands(), tensors.reference, context);
  }
  if (!outcome) {
    outcome = check_output(operands.download_kv(), tensors.reference,
                           tensors.projection ? &*tensors.projection : nullptr, context);
  }
  const std::string trespass = operands.trespass(tensors.inputs);
  if (!trespass.empty()) {
    outcome->reason = outcome->passed ? trespass : outcome->reason + "; " + trespass;
    outcome->passed = false;
  }
  return *outcome;
}

Result Session::open(const Cell& cell, double warmup_s, const std::optional<std::string>& save) {
  Result result;
  result.cell = cell;
  const Variant& variant = find_variant(cell);
  const Device device = find_device(devices_, cell);
  if (const auto why = variant.why_not(cell.problem, cell.precision, device)) {
    result.status = Status::kSkipped;
    result.reason = *why;
    return result;
  }
  try {
    Tensors& tensors = tensors_for(cell);
    const std::int64_t ring =
        ring_size(cell.l2, OperandSet::operand_bytes(cell.problem, tensors.inputs.type),
                  device.last_level_cache);
    ensure_sets(tensors, static_cast<std::size_t>(ring));

    OpenCell open{.cell = cell,
                  .variant = &variant,
                  .prepared = variant.prepare(cell.problem, cell.precision, device),
                  .timer = nullptr,
                  .plan = {},
                  .ring = static_cast<std::size_t>(ring)};
    result.kernels = open.prepared.kernels;
    result.choice = open.prepared.choice;

    std::vector<Launch> launches;
    for (std::size_t i = 0; i < open.ring; ++i) {
      launches.push_back(open.prepared.bind(tensors.sets[i].operands()));
    }
    tensors.sets[0].reset(tensors.inputs);
    tensors.executor->run(launches[0]);
    result.check = check(tensors, open, 0);
    if (!result.check->passed) {
      result.status = Status::kIncorrect;
      result.reason = result.check->reason;
      return result;
    }
    if (save) {
      save_tensors(*save, tensors.inputs, tensors.sets[0].download_kv());
    }
    open.timer = tensors.executor->make_timer(std::move(launches));
    open.plan = plan_timing(estimate_launch_ns(*open.timer, ring), ring);
    warm_up(*open.timer, open.plan, warmup_s);
    result.status = Status::kPassed;
    open_.insert_or_assign(cell.id(), std::move(open));
  } catch (const OutOfMemoryError& error) {
    result.status = Status::kSkipped;
    result.reason = error.what();
  } catch (const std::bad_alloc&) {
    result.status = Status::kSkipped;
    result.reason = "this machine ran out of memory while the cell was made ready";
  }
  return result;
}

Round Session::measure(const std::string& id) {
  OpenCell& open = open_.at(id);
  return measure_round(*open.timer, open.plan, id);
}

Result Session::close(const std::string& id) {
  const OpenCell& open = open_.at(id);
  Result result;
  result.cell = open.cell;
  result.status = Status::kPassed;
  for (std::size_t i = 0; i < open.ring; ++i) {
    // Anew, since another cell's launches may have damaged what all share.
    tensors_->sets[i].reset(tensors_->inputs);
  }
  open.timer->replay(open.plan.long_launches);
  result.recheck = check(*tensors_, open, 0);
  const std::vector<std::byte> first = tensors_->sets[0].download_kv();
  // Every set holds the same inputs, so every copy of kv must hold the same bits.
  for (std::size_t i = 1; i < open.ring && result.recheck->passed; ++i) {
    if (tensors_->sets[i].download_kv() != first) {
      result.recheck = check(*tensors_, open, i);
      if (result.recheck->passed) {
        result.recheck->passed = false;
        result.recheck->reason = "operand sets with the same inputs got different bits in kv";
      }
    } else if (const std::string trespass = tensors_->sets[i].trespass(tensors_->inputs);
               !trespass.empty()) {
      result.recheck->passed = false;
      result.recheck->reason = trespass;
    }
  }
  if (!result.recheck->passed) {
    result.status = Status::kIncorrect;
    result.reason = "the timed launches: " + result.recheck->reason;
  }
  open_.erase(id);
  return result;
}

}  // namespace mla_bench
