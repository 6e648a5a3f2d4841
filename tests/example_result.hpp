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
  for (const double ns : {4000.0, 4100.0}) {
    result.rounds.push_back({.short_launches = 1,
                             .long_launches = 3,
                             .short_ns = {ns, ns, ns},
                             .long_ns = {3 * ns, 3 * ns, 3 * ns + 20},
                             .samples_ns = {ns, ns, ns + 10}});
  }
  result.summary = summarize(result.rounds);
  return result;
}

}  // namespace mla_bench
