#include "session.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "check.hpp"
#include "errors.hpp"
#include "measure.hpp"
#include "operand_set.hpp"
#include "reference.hpp"
#include "statistics.hpp"

namespace mla_bench {
namespace {

// Rows and projections that a check samples are drawn from this, so that a repeated run checks
// alike.
constexpr std::uint64_t kSamplingSeed = 0x6d6c615f63686b;

// How far the gap between period and duration may stray from the empty kernel's, beyond what the
// kernels of known work stray: the ramp and the drain of blocks that do different work overlap the
// gap differently (0.45 us was the most on an H200), and between long launches that write tens of
// megabytes it grows with them (to 4 % of the period with library kernels there).
constexpr double kGapSlackNs = 500;
constexpr double kGapSlackOfPeriod = 0.05;

// Launches whose durations are asked for, at least: their mean is as stable as need be.
constexpr std::int64_t kWitnessedLaunches = 64;
constexpr std::int64_t kMostWitnessedLaunches = 2000;

// Seconds after which a power limit has found the clock for the work that it limits, and what the
// witness gives to it.
constexpr double kPowerSettles = 0.3;
constexpr double kWitnessSettlesNs = 1e8;

// Seconds of warm-up for what is measured right after a warm cell.
constexpr double kStaysWarm = 0;

// What an outside profiler is told to look for.
constexpr const char* kProfiledRange = "mla_bench_cell";

// Host calls whose latency is measured, fewer where one takes long.
constexpr int kApiCalls = 31;
constexpr int kFewestApiCalls = 3;
constexpr double kApiSeconds = 0.05;

const Variant& find_variant(const Cell& cell) {
  for (const Listed& listed : registry()) {
    if (listed.name == cell.variant && listed.backend == cell.backend && listed.variant) {
      return *listed.variant;
    }
  }
  throw UsageError("variant '" + cell.variant + "' is not in this build");
}

// By its UUID: the asking process may count the GPUs otherwise.
Device find_device(const DeviceList& devices, Backend backend, const std::string& uuid) {
  for (const Device& device : devices.devices) {
    if (device.backend == backend && device.uuid == uuid) {
      return device;
    }
  }
  throw NoDeviceError("device " + uuid + " is gone");
}

Device find_device(const DeviceList& devices, const Cell& cell) {
  Device device = find_device(devices, cell.backend, cell.device);
  if (cell.backend == Backend::kCpu) {
    device.threads = cell.threads;
  }
  return device;
}

// Host call to completion, the median of some calls.
double api_latency_ns(Executor& executor, const Launch& launch) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point first = Clock::now();
  std::vector<double> times;
  while (times.size() < kApiCalls) {
    const Clock::time_point start = Clock::now();
    executor.run(launch);
    times.push_back(std::chrono::duration<double, std::nano>(Clock::now() - start).count());
    const std::chrono::duration<double> spent = Clock::now() - first;
    if (times.size() >= kFewestApiCalls && spent.count() > kApiSeconds) {
      break;
    }
  }
  return median(times);
}

}  // namespace

struct Session::Tensors {
  Cell key;
  Inputs inputs;
  std::unique_ptr<Executor> executor;
  // All rows, or a sample where that would take too long; a projection only where no device checks
  // all.
  std::optional<Reference> reference;
  bool is_sample = false;
  std::optional<Projection> projection;
  std::vector<OperandSet> sets;
  std::map<L2State, double> touch_ns;
  std::optional<double> gap_band_ns;
};

struct Session::OpenCell {
  Cell cell;
  const Variant* variant = nullptr;
  Prepared prepared;
  std::size_t ring = 1;  // operand sets
  std::vector<KernelFacts> kernels;
  Floors floors;
  bool is_at_power_limit = false;
  bool times_only = false;
  std::unique_ptr<Timer> timer;
  TimingPlan plan;
  double period_ns = 0;  // median of the last round
};

Session::Session(DeviceList devices, std::unique_ptr<Environment> environment)
    : devices_(std::move(devices)), environment_(std::move(environment)) {}
Session::~Session() = default;

Calibration Session::calibrate(const Device& device) {
  const std::unique_ptr<Executor> executor =
      make_executor(find_device(devices_, device.backend, device.uuid));
  return mla_bench::calibrate(*executor);
}

std::optional<GpuSetup> Session::setup(const Device& device) {
  return environment_ ? environment_->setup(device.uuid) : std::nullopt;
}

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
  tensors_ = std::move(fresh);
  return *tensors_;
}

Reference& Session::reference_for(Tensors& tensors) {
  if (tensors.reference) {
    return *tensors.reference;
  }
  const Problem& problem = tensors.key.problem;
  tensors.is_sample = too_large_for_full_reference(problem);
  std::vector<std::int64_t> rows;
  if (tensors.is_sample) {
    rows = sample_rows(problem, kSamplingSeed);
  } else {
    for (std::int64_t row = 0; row < problem.rows(); ++row) {
      rows.push_back(row);
    }
  }
  if (tensors.is_sample && tensors.key.backend == Backend::kCpu) {
    tensors.projection = project(tensors.inputs, kSamplingSeed);
  }
  return tensors.reference.emplace(reference_rows(tensors.inputs, rows));
}

void Session::ensure_sets(Tensors& tensors, std::size_t count) {
  if (tensors.sets.empty()) {
    tensors.sets.emplace_back(*tensors.executor, tensors.inputs);
  }
  if (tensors.sets.size() < count) {
    tensors.sets.front().reset(tensors.inputs);  // whatever a launch did to it
  }
  while (tensors.sets.size() < count) {
    tensors.sets.emplace_back(*tensors.executor, tensors.inputs.problem, tensors.inputs.type);
    tensors.sets.back().copy_from(tensors.sets.front());
  }
}

Session::OpenCell Session::prepare(const Cell& cell) {
  Tensors& tensors = tensors_for(cell);
  const Variant& variant = find_variant(cell);
  const Device& device = tensors.executor->device();
  const std::int64_t ring =
      ring_size(cell.l2, OperandSet::operand_bytes(cell.problem, tensors.inputs.type),
                device.last_level_cache);
  ensure_sets(tensors, static_cast<std::size_t>(ring));
  return {.cell = cell,
          .variant = &variant,
          .prepared = variant.prepare(cell.problem, cell.precision, device),
          .ring = static_cast<std::size_t>(ring),
          .kernels = {},
          .floors = {},
          .timer = nullptr,
          .plan = {},
          .period_ns = 0};
}

// The variant's launch on one operand set, with the fault that is planted in it.
Launch Session::bind_set(const OpenCell& open, std::size_t set) {
  const Operands operands = tensors_->sets[set].operands();
  const Launch honest = open.prepared.bind(operands);
  Executor& executor = *tensors_->executor;
  switch (open.cell.planted.kind) {
    case PlantKind::kNothing:
    case PlantKind::kWork:  // beside the launches, by plant_work
      return honest;
    case PlantKind::kWrongElement: {
      // A number of the size that outputs have in every type: 0.75, or 1.81 in fp16.
      constexpr std::byte kPlausible{0x3F};
      const Launch overwrite = executor.fill_launch(static_cast<std::byte*>(operands.kv),
                                                    kPlausible, size_of(tensors_->inputs.type));
      return [honest, overwrite](Stream stream) {
        honest(stream);
        overwrite(stream);
      };
    }
    case PlantKind::kNothingWritten:
      return executor.empty_launch({KernelFacts{}});
    case PlantKind::kFirstCallOnly:
      return [honest, nothing = executor.empty_launch({KernelFacts{}}),
              is_done = std::make_shared<bool>(false)](Stream stream) {
        (*is_done ? nothing : honest)(stream);
        *is_done = true;
      };
  }
  throw std::invalid_argument("no such plant");
}

std::vector<Launch> Session::bind(const OpenCell& open, std::size_t sets) {
  std::vector<Launch> launches;
  for (std::size_t i = 0; i < sets; ++i) {
    launches.push_back(bind_set(open, i));
  }
  return launches;
}

// By the periods of two lengths.
Session::SpinCost Session::spin_cost() {
  Executor& executor = *tensors_->executor;
  const auto known = spin_costs_.find(executor.device().uuid);
  if (known != spin_costs_.end()) {
    return known->second;
  }
  constexpr double kShortNs = 4000;
  constexpr double kLongNs = 16000;
  const double short_ns = period_ns(executor, {executor.spin_launch(kShortNs)}, kStaysWarm);
  const double long_ns = period_ns(executor, {executor.spin_launch(kLongNs)}, kStaysWarm);
  SpinCost cost;
  cost.by_ns = (long_ns - short_ns) / (kLongNs - kShortNs);
  cost.fixed_ns = short_ns - cost.by_ns * kShortNs;
  return spin_costs_.emplace(executor.device().uuid, cost).first->second;
}

// Makes the timed launches longer by the planted part. A spin is a kernel of its own on a GPU and
// costs a microsecond at least, so it comes after so many launches that their part of it is small
// enough: they are what the timer then takes turns with.
PlantedWork Session::plant_work(OpenCell& open, bool verify) {
  constexpr double kLeastSpinNs = 8000;
  constexpr std::int64_t kMostLaunchesBetween = 512;
  Executor& executor = *tensors_->executor;
  const double part = open.cell.planted.slow_down;
  const double honest_ns = period_ns(*open.timer, open.plan);
  const auto sets = static_cast<std::int64_t>(open.ring);
  const auto least = static_cast<std::int64_t>(std::ceil(kLeastSpinNs / (part * honest_ns)));
  const std::int64_t turns =
      (std::clamp<std::int64_t>(least, 1, kMostLaunchesBetween) + sets - 1) / sets;

  PlantedWork work{.launches = turns * sets};
  const SpinCost cost = spin_cost();
  const double added_ns = part * honest_ns * static_cast<double>(work.launches);
  work.spin_ns = std::max(0.0, (added_ns - cost.fixed_ns) / cost.by_ns);
  const std::vector<Launch> turn = bind(open, open.ring);
  std::vector<Launch> ring;
  for (std::int64_t i = 0; i < turns; ++i) {
    ring.insert(ring.end(), turn.begin(), turn.end());
  }
  ring.back() = [launch = ring.back(), spin = executor.spin_launch(work.spin_ns)](Stream stream) {
    launch(stream);
    spin(stream);
  };

  std::unique_ptr<Timer> slowed = executor.make_timer(std::move(ring));
  TimingPlan plan = plan_warm(*slowed, work.launches, kStaysWarm);
  plan.replays = std::min(plan.replays, open.plan.replays);
  if (verify) {
    // Between two measurements without spins, so that a drift falls on both.
    const double before_ns = period_ns(*open.timer, open.plan);
    const double slowed_ns = period_ns(*slowed, plan);
    const double after_ns = period_ns(*open.timer, open.plan);
    work.slow_down = 2 * slowed_ns / (before_ns + after_ns) - 1;
  }
  open.timer = std::move(slowed);
  open.plan = plan;
  return work;
}

// Elements of kv that are as `reset` left them.
std::int64_t Session::unwritten(std::size_t set) const {
  const std::vector<std::byte> kv = tensors_->sets[set].download_kv();
  const auto size = static_cast<std::ptrdiff_t>(size_of(tensors_->inputs.type));
  std::int64_t count = 0;
  for (auto element = kv.begin(); element != kv.end(); element += size) {
    count += std::all_of(element, element + size, [](std::byte b) { return b == kPoison; }) ? 1 : 0;
  }
  return count;
}

CheckContext Session::context_of(const OpenCell& open) const {
  const Cell& cell = open.cell;
  return {.inputs = tensors_->inputs,
          .precision = cell.precision,
          .unit = open.variant->unit(cell.precision),
          .demand_exact = !cell.inputs.file && cell.inputs.distribution == Distribution::kExact};
}

Check Session::check(const OpenCell& open, std::size_t set) {
  const Cell& cell = open.cell;
  const CheckContext context = context_of(open);
  const OperandSet& operands = tensors_->sets[set];
  const Reference& reference = reference_for(*tensors_);
  std::optional<Check> outcome;
  if (tensors_->is_sample) {
    outcome = tensors_->executor->check_on_device(operands.operands(), reference, context);
  }
  if (!outcome) {
    outcome = check_output(operands.download_kv(), reference,
                           tensors_->projection ? &*tensors_->projection : nullptr, context);
  }
  if (const std::int64_t left = outcome->passed ? 0 : unwritten(set); left > 0) {
    outcome->reason = "it left " + std::to_string(left) + " of " +
                      std::to_string(cell.problem.kv_count()) + " elements of kv unwritten; " +
                      outcome->reason;
  }
  const std::string trespass = operands.trespass(tensors_->inputs);
  if (!trespass.empty()) {
    outcome->reason = outcome->passed ? trespass : outcome->reason + "; " + trespass;
    outcome->passed = false;
  }
  return *outcome;
}

double Session::touch_ns(const OpenCell& open) {
  const auto known = tensors_->touch_ns.find(open.cell.l2);
  if (known != tensors_->touch_ns.end()) {
    return known->second;
  }
  std::vector<Launch> ring;
  for (std::size_t i = 0; i < open.ring; ++i) {
    ring.push_back(tensors_->executor->touch_launch(open.cell.problem, tensors_->inputs.type,
                                                    tensors_->sets[i].operands()));
  }
  const double ns = period_ns(*tensors_->executor, std::move(ring), kStaysWarm);
  tensors_->touch_ns.emplace(open.cell.l2, ns);
  return ns;
}

Result Session::open(const Cell& cell, const Effort& effort,
                     const std::optional<std::string>& save) {
  Result result;
  result.cell = cell;
  if (const auto why =
          find_variant(cell).why_not(cell.problem, cell.precision, find_device(devices_, cell))) {
    result.status = Status::kSkipped;
    result.reason = *why;
    return result;
  }
  try {
    OpenCell open = prepare(cell);
    open.times_only = effort.times_only;
    Executor& executor = *tensors_->executor;
    std::vector<Launch> launches = bind(open, open.ring);
    result.choice = open.prepared.choice;

    tensors_->sets[0].reset(tensors_->inputs);
    executor.run(launches[0]);
    result.check = check(open, 0);
    if (!result.check->passed) {
      result.status = Status::kIncorrect;
      result.reason = result.check->reason;
      return result;
    }
    if (save) {
      save_tensors(*save, tensors_->inputs, tensors_->sets[0].download_kv());
    }
    open.kernels = executor.kernels_of(launches[0]);
    result.kernels = open.kernels;
    if (!effort.times_only) {
      result.api_latency_ns = api_latency_ns(executor, launches[0]);
    }

    open.timer = executor.make_timer(std::move(launches));
    const auto ring = static_cast<std::int64_t>(open.ring);
    open.plan = plan_warm(*open.timer, ring, effort.warmup_s);
    open.plan.replays = std::min(open.plan.replays, effort.samples);
    // After the warm-up, so that the floors see the clocks that the cell sees.
    if (!effort.times_only) {
      open.floors = {
          .empty_ns = period_ns(executor, {executor.empty_launch(open.kernels)}, kStaysWarm),
          .touch_ns = touch_ns(open)};
      result.floors = open.floors;
    }
    if (cell.planted.kind == PlantKind::kWork) {
      result.planted_work = plant_work(open, effort.measure_plants);
    }
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
  const auto state = [this, &open] {
    return environment_ && open.cell.backend == Backend::kCuda
               ? environment_->state(open.cell.device)
               : std::nullopt;
  };
  const std::optional<GpuState> before = state();
  if (open.is_at_power_limit) {
    settle_power(*open.timer, open.plan, kPowerSettles);
  }
  Round round = measure_round(*open.timer, open.plan, id);
  round.before = before;
  round.after = state();
  open.period_ns = median(round.samples_ns);
  if (!open.is_at_power_limit && is_at_power_limit(round)) {
    // Its samples saw the clock fall: a round is to see the clock that stays.
    open.is_at_power_limit = true;
    return measure(id);
  }
  return round;
}

// Both rings now, side by side: an older period would differ by drift too.
ColdProof Session::prove_cold(const OpenCell& open) {
  ColdProof proof{.sets = static_cast<std::int64_t>(open.ring),
                  .period_ns = 0,
                  .more_sets = 0,
                  .more_sets_period_ns = 0};
  if (!fills_cache(proof.sets, OperandSet::operand_bytes(open.cell.problem, tensors_->inputs.type),
                   tensors_->executor->device().last_level_cache)) {
    return proof;
  }
  try {
    ensure_sets(*tensors_, 2 * open.ring);
  } catch (const OutOfMemoryError&) {
    return proof;  // there is no room for as many: unproven
  }
  // Of its own timer's launches, but for planted spins.
  proof.period_ns = open.cell.planted == Planted{}
                        ? period_ns(*open.timer, open.plan)
                        : period_ns(*tensors_->executor, bind(open, open.ring), kStaysWarm);
  proof.more_sets = 2 * proof.sets;
  proof.more_sets_period_ns = period_ns(*tensors_->executor, bind(open, 2 * open.ring), kStaysWarm);
  return proof;
}

// The answers to hidden of the other sign.
void Session::negate_answers() {
  negate(reference_for(*tensors_));
  if (tensors_->projection) {
    negate(*tensors_->projection);
  }
}

// What a pass of the timed launches wrote; `set` becomes the operand set that is at fault.
Check Session::recheck(const OpenCell& open, std::size_t& set) {
  // Anew, since another cell's launches may have damaged what all share.
  OperandSet& first = tensors_->sets.front();
  first.reset(tensors_->inputs);
  for (std::size_t i = 1; i < open.ring; ++i) {
    tensors_->sets[i].copy_from(first);
  }
  open.timer->replay(open.plan.long_launches);
  set = 0;
  Check outcome = check(open, set);
  // Every set held the same inputs, so every one must hold the same bits as the first, which is
  // right.
  for (std::size_t i = 1; i < open.ring && outcome.passed; ++i) {
    if (!tensors_->sets[i].equals(first)) {
      set = i;
      outcome = check(open, set);
      if (outcome.passed) {
        outcome.passed = false;
        outcome.reason = "operand sets with the same inputs got different bits in kv";
      }
    }
  }
  return outcome;
}

// Whether kv is right for the hidden that the timed launches had before this was negated.
bool Session::is_answer_of_before(const OpenCell& open, std::size_t set) {
  negate_answers();
  const Check outcome =
      check_output(tensors_->sets[set].download_kv(), reference_for(*tensors_),
                   tensors_->projection ? &*tensors_->projection : nullptr, context_of(open));
  negate_answers();
  return outcome.passed;
}

Result Session::close(const std::string& id) {
  const OpenCell& open = open_.at(id);
  Result result;
  result.cell = open.cell;
  result.status = Status::kPassed;
  // Launches that were replayed a thousand times with the same inputs may have kept their results,
  // or a part: of these inputs they have none.
  negate_hidden(tensors_->inputs);
  negate_answers();
  std::size_t checked = 0;
  result.recheck = recheck(open, checked);
  if (!result.recheck->passed) {
    result.status = Status::kIncorrect;
    result.reason = "the timed launches: " + result.recheck->reason;
    if (unwritten(checked) > 0) {
      result.reason +=
          "; a plain call wrote them, so work is missing in what is timed: it is done on a stream "
          "other than the one given, or not every time";
    } else if (is_answer_of_before(open, checked)) {
      result.reason +=
          "; this is the answer to the inputs of before, so results are kept between launches "
          "instead of made by each";
    }
  }
  negate_hidden(tensors_->inputs);
  negate_answers();
  if (result.status == Status::kPassed && open.cell.l2 == L2State::kCold && !open.times_only) {
    result.cold_proof = prove_cold(open);
  }
  return result;
}

std::optional<Anchors> Session::anchors() try {
  if (!tensors_) {
    throw std::invalid_argument("no cell is open");
  }
  constexpr double kWarmupSeconds = 0.05;
  Executor& executor = *tensors_->executor;
  const AnchorLaunches launches = executor.anchor_launches();
  const auto period = [&](const Launch& launch) {
    return period_ns(executor, {launch}, kWarmupSeconds);
  };
  return Anchors{.copy_ns = period(launches.copy),
                 .fma_ns = period(launches.fma),
                 .source = std::string(launches.source)};
} catch (const OutOfMemoryError&) {
  return std::nullopt;
}

// Period less duration; NaN and the reason in `missing` where there is no duration.
double Session::gap_ns(const std::vector<Launch>& ring, double period, std::int64_t launches,
                       std::string& missing) {
  const auto sets = static_cast<std::int64_t>(ring.size());
  const std::int64_t turns = std::max<std::int64_t>(1, launches / sets);
  const Durations durations = tensors_->executor->durations(ring, turns * sets);
  missing = durations.missing;
  return missing.empty() ? period - durations.launch_ns : NAN;
}

// How far the gaps of kernels of known work stray from those of empty kernels of the same shape.
double Session::gap_band_ns() {
  if (tensors_->gap_band_ns) {
    return *tensors_->gap_band_ns;
  }
  Executor& executor = *tensors_->executor;
  std::vector<Launch> known{executor.touch_launch(tensors_->key.problem, tensors_->inputs.type,
                                                  tensors_->sets[0].operands())};
  if (const auto arithmetic = executor.arithmetic_workload(Unit::kFma, Precision::kFp32)) {
    known.push_back(arithmetic->launch);
  }
  double widest = 0;
  std::string missing;
  for (const Launch& launch : known) {
    const Launch empty = executor.empty_launch(executor.kernels_of(launch));
    const double period = period_ns(executor, {launch}, kStaysWarm);
    const double empty_period = period_ns(executor, {empty}, kStaysWarm);
    const double stray = gap_ns({launch}, period, kWitnessedLaunches, missing) -
                         gap_ns({empty}, empty_period, kWitnessedLaunches, missing);
    widest = std::max(widest, std::abs(stray) - kGapSlackOfPeriod * period);
  }
  return tensors_->gap_band_ns.emplace(widest + kGapSlackNs);
}

Referee Session::witness(const std::string& id) {
  OpenCell& open = open_.at(id);
  Executor& executor = *tensors_->executor;
  Referee referee;
  if (open.period_ns == 0) {
    referee.missing = "no round was measured in the process that is left";
    open_.erase(id);
    return referee;
  }
  referee.counts = executor.count_kernels(bind(open, 1).front());
  const auto settling = static_cast<std::int64_t>(kWitnessSettlesNs / open.period_ns);
  const std::int64_t launches =
      open.is_at_power_limit ? std::clamp(settling, kWitnessedLaunches, kMostWitnessedLaunches)
                             : kWitnessedLaunches;
  const double gap = gap_ns(bind(open, open.ring), open.period_ns, launches, referee.missing);
  if (referee.missing.empty()) {
    referee.gap_ns = gap;
    referee.duration_ns = open.period_ns - gap;
    referee.empty_gap_ns = gap_ns({executor.empty_launch(open.kernels)}, open.floors.empty_ns,
                                  kWitnessedLaunches, referee.missing);
    const auto kernels = static_cast<double>(std::max<std::size_t>(1, open.kernels.size()));
    referee.band_ns = kernels * gap_band_ns() + kGapSlackOfPeriod * open.period_ns;
  }
  open_.erase(id);
  return referee;
}

Result Session::profile(const Cell& cell) {
  Result result;
  result.cell = cell;
  const OpenCell open = prepare(cell);
  const std::vector<Launch> ring = bind(open, open.ring);
  // Loads the kernels outside the range, and takes the operands of the next launch into the cache
  // (hot, a ring of one) or out of it (cold).
  for (const Launch& launch : ring) {
    tensors_->executor->run(launch);
  }
  tensors_->executor->run_in_range(ring.front(), kProfiledRange);
  result.status = Status::kPassed;
  result.choice = open.prepared.choice;
  return result;
}

}  // namespace mla_bench
