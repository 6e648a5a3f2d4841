#include "calibration.hpp"

#include <algorithm>
#include <chrono>
#include <vector>

#include "measure.hpp"
#include "statistics.hpp"

namespace mla_bench {
namespace {

constexpr double kWarmupSeconds = 0.2;
// A copy of both halves of half the cache stays in it; one of many times its size cannot.
constexpr std::int64_t kCachePart = 4;
constexpr std::int64_t kMemoryMultiple = 16;
constexpr std::int64_t kVectorBytes = 16;

double rate(Executor& executor, const Workload& workload) {
  constexpr double kNsPerSecond = 1e9;
  return workload.amount / period_ns(executor, {workload.launch}, kWarmupSeconds) * kNsPerSecond;
}

std::optional<double> rate_if_any(Executor& executor, const std::optional<Workload>& workload) {
  return workload ? std::optional(rate(executor, *workload)) : std::nullopt;
}

// The better of a few rounds: a ceiling is what the device can do, not what it does on average.
double copy_rate(Executor& executor, std::int64_t bytes) {
  const std::int64_t whole = std::max<std::int64_t>(bytes / kVectorBytes, 1) * kVectorBytes;
  const Memory from = executor.allocate(whole);
  const Memory to = executor.allocate(whole);
  executor.fill(from.get(), std::byte{0x5A}, whole);
  return rate(executor, executor.copy_workload(to.get(), from.get(), whole));
}

// The timer's tick, by the times of short passes.
double tick_ns(Timer& timer) {
  constexpr int kPasses = 200;
  std::vector<double> times;
  for (int i = 0; i < kPasses; ++i) {
    times.push_back(timer.replay(1).ns);
  }
  // Times come as float milliseconds: closer than a nanosecond is their rounding.
  constexpr double kRounding_ns = 1;
  return smallest_step(times, kRounding_ns);
}

double launch_and_wait_ns(Executor& executor, const Launch& launch) {
  constexpr int kLaunches = 101;
  std::vector<double> times;
  for (int i = 0; i < kLaunches; ++i) {
    const auto start = std::chrono::steady_clock::now();
    executor.run(launch);
    times.push_back(
        std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count());
  }
  return median(times);
}

// fp32 by tensor cores is a sum of products of parts: in the fewest cycles one product in TF32 and
// two of rests in BF16. Three in TF32 take longer.
std::optional<double> split_rate(const Calibration& calibration) {
  constexpr double kProductsOfRests = 2;
  if (!calibration.tf32_flop_per_s || !calibration.bf16_flop_per_s) {
    return std::nullopt;
  }
  return 1 / (1 / *calibration.tf32_flop_per_s + kProductsOfRests / *calibration.bf16_flop_per_s);
}

}  // namespace

Calibration calibrate(Executor& executor) {
  Calibration calibration;
  const Launch empty = executor.empty_launch({KernelFacts{.block = {.x = 32}}});
  const std::unique_ptr<Timer> timer = executor.make_timer({empty});
  calibration.tick_ns = tick_ns(*timer);
  const TimingPlan plan = plan_warm(*timer, 1, kWarmupSeconds);
  const Round round = measure_round(*timer, plan, "calibration");
  calibration.empty_launch_ns = median(round.samples_ns);
  calibration.replay_intercept_ns =
      median(round.long_ns) -
      calibration.empty_launch_ns * static_cast<double>(round.long_launches);
  calibration.launch_and_wait_ns = launch_and_wait_ns(executor, empty);
  calibration.enqueue_ns = executor.enqueue_ns(empty);

  const std::int64_t cache = executor.device().last_level_cache;
  calibration.cache_bytes_per_s = copy_rate(executor, cache / kCachePart);
  calibration.memory_bytes_per_s = copy_rate(executor, cache * kMemoryMultiple);
  calibration.fma_flop_per_s =
      rate_if_any(executor, executor.arithmetic_workload(Unit::kFma, Precision::kFp32));
  calibration.tf32_flop_per_s =
      rate_if_any(executor, executor.arithmetic_workload(Unit::kTensorCore, Precision::kTf32));
  calibration.bf16_flop_per_s =
      rate_if_any(executor, executor.arithmetic_workload(Unit::kTensorCore, Precision::kBf16));
  calibration.fp16_flop_per_s =
      rate_if_any(executor, executor.arithmetic_workload(Unit::kTensorCore, Precision::kFp16));
  return calibration;
}

std::optional<Roofline> roofline(const Calibration& calibration, const Device& device,
                                 const Cell& cell, Unit unit) {
  std::optional<double> flop_per_s = calibration.fma_flop_per_s;
  if (unit == Unit::kTensorCore) {
    switch (cell.precision) {
      case Precision::kFp32:
        flop_per_s = split_rate(calibration);
        break;
      case Precision::kTf32:
        flop_per_s = calibration.tf32_flop_per_s;
        break;
      case Precision::kBf16:
        flop_per_s = calibration.bf16_flop_per_s;
        break;
      case Precision::kFp16:
        flop_per_s = calibration.fp16_flop_per_s;
        break;
    }
  }
  const double bytes = cell.problem.compulsory_elements() *
                       static_cast<double>(size_of(stored_type(cell.precision)));
  const bool in_cache =
      cell.l2 == L2State::kHot && bytes <= static_cast<double>(device.last_level_cache);
  const double bytes_per_s =
      in_cache ? calibration.cache_bytes_per_s : calibration.memory_bytes_per_s;
  if (!flop_per_s || !(*flop_per_s > 0) || !(bytes_per_s > 0)) {
    return std::nullopt;
  }
  constexpr double kNsPerSecond = 1e9;
  const double arithmetic_ns = cell.problem.flops() / *flop_per_s * kNsPerSecond;
  const double memory_ns = bytes / bytes_per_s * kNsPerSecond;
  return Roofline{.ns = std::max(arithmetic_ns, memory_ns), .by_memory = memory_ns > arithmetic_ns};
}

}  // namespace mla_bench
