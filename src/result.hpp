// A cell (what is measured) and its result, as every stage after the plan passes them on and as the
// document holds them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "check.hpp"
#include "inputs.hpp"
#include "mla_bench/variant.hpp"

namespace mla_bench {

// Whether the operands are in the last-level cache when a timed launch begins.
enum class L2State { kHot, kCold };

enum class Status {
  kPassed,
  kIncorrect,  // the output is wrong: no time is shown
  kFailed,     // an error or a crash while it ran
  kSkipped,    // it cannot or should not run here, and `reason` says why
  kUntrusted,  // the output is right, but the time cannot be believed, and `reason` says why
};

std::string_view name_of(L2State state);
std::string_view name_of(Status status);

// One row of a run: everything that tells two measurements apart.
struct Cell {
  std::string variant;
  Backend backend = Backend::kCpu;
  int ordinal = 0;     // CUDA index while this run lasts
  std::string device;  // uuid, or the CPU's name
  int threads = 0;     // OpenMP threads of a CPU cell
  Precision precision = Precision::kFp32;
  L2State l2 = L2State::kHot;
  Problem problem;
  InputSource inputs;

  // "tiled/cuda:0/B:4/S:96/Dm:256/R:48/H:4/D:32/fp32/hot": unique in a document.
  std::string id() const;

  // True where two cells work on the same tensors on the same device, so that they can share them
  // and take turns.
  bool shares_tensors_with(const Cell& other) const;
};

// One burst of timed passes in one process, the unit of evidence: samples inside a round share
// their process, clocks and addresses.
struct Round {
  std::int64_t short_launches = 0;  // 0: the fixed cost of a pass is negligible beside one launch
  std::int64_t long_launches = 0;
  std::vector<double> short_ns;    // whole passes, as the timer gave them
  std::vector<double> long_ns;     // whole passes
  std::vector<double> samples_ns;  // (long - short) / (long_launches - short_launches), per launch
};

// Per launch. The median is over all samples; the interval comes from the spread between rounds.
struct Summary {
  double median_ns = 0;
  double min_ns = 0;
  double mad_ns = 0;       // median absolute deviation of all samples
  double ci95_low_ns = 0;  // Student's t on the rounds' medians
  double ci95_high_ns = 0;
  std::int64_t samples = 0;
};

struct Result {
  Cell cell;
  Status status = Status::kSkipped;
  std::string reason;            // one line; empty when passed
  std::optional<Check> check;    // of the launch before timing
  std::optional<Check> recheck;  // of what the timed launches wrote
  std::vector<KernelFacts> kernels;
  std::string choice;
  std::vector<Round> rounds;
  std::optional<Summary> summary;  // only for a right output
};

// Throws std::invalid_argument where there is no sample.
Summary summarize(const std::vector<Round>& rounds);

// The command that repeats this cell alone.
std::string command_of(const Cell& cell);

}  // namespace mla_bench
