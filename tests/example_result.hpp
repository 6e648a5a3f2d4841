// A result with every part filled, for the tests that write and show results.
#pragma once

#include "result.hpp"

namespace mla_bench {

inline Result example_result() {
  Result result;
  result.cell.variant = "cooperative";
  result.cell.backend = Backend::kCuda;
  result.cell.ordinal = 1;
  result.cell.device = "GPU-1";
  result.cell.inputs = {.distribution = Distribution::kPositive, .seed = 7, .file = {}};
  result.status = Status::kPassed;

  Check check;
  check.passed = true;
  check.elements = 98304;
  check.max_error_over_bound = 0.25;
  check.frobenius_error = 1e-7;
  result.check = check;
  check.frobenius_error_limit = 3e-7;
  check.worst = WorstElement{.is_v = true,
                             .batch = 3,
                             .seq = 95,
                             .head = 2,
                             .dim = 31,
                             .actual = 1.5,
                             .expected = 1.25,
                             .bound = 1};
  result.recheck = check;

  result.kernels.push_back({.name = "pair, 8 rows",
                            .grid = {.x = 48, .y = 2, .z = 1},
                            .block = {.x = 256, .y = 1, .z = 1},
                            .cluster = {.x = 2, .y = 1, .z = 1},
                            .shared_bytes = 49152,
                            .registers = 128,
                            .local_bytes = 0,
                            .blocks_per_sm = 2});
  result.choice = "algorithm 3 of 8";
  result.floors = Floors{.empty_ns = 1500, .touch_ns = 2000};
  result.api_latency_ns = 9000;
  result.roofline = Roofline{.ns = 1000, .by_memory = true};
  result.cold_proof =
      ColdProof{.sets = 301, .period_ns = 4000, .more_sets = 602, .more_sets_period_ns = 4010};
  result.referee = Referee{.missing = "",
                           .duration_ns = 3000,
                           .gap_ns = 1000,
                           .empty_gap_ns = 900,
                           .band_ns = 300,
                           .counts = KernelCounts{.captured = 1, .called = 1, .escaped = 0}};
  GpuState state;
  state.sm_clock_mhz = 1980;
  state.power_w = 350.5;
  state.throttle.power_brake = true;
  state.other_processes = 1;
  for (const double ns : {4000.0, 4100.0}) {
    Round round;
    round.short_launches = 1;
    round.long_launches = 3;
    round.short_ns = {ns, ns, ns};
    round.long_ns = {3 * ns, 3 * ns, 3 * ns + 20};
    round.samples_ns = {ns, ns, ns + 10};
    round.clock_mhz = {1980, 1980, 1900};
    round.retaken_samples = 1;
    round.slow_clock_samples = {2};
    round.before = state;
    round.after = GpuState{};
    result.rounds.push_back(round);
  }
  result.rounds.back().anchors =
      Anchors{.copy_ns = 2000, .fma_ns = 3000, .source = "0123456789abcdef"};
  result.summary = summarize(result.rounds);
  return result;
}

}  // namespace mla_bench
