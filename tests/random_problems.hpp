// Problems at random, small ones, with edges and primes and the neighbours of every tile among
// them; each variant must be right on all of them. A failure is shrunk to the smallest problem that
// still fails, and said with the command that repeats it.
//
//   MLA_BENCH_RANDOM_SEED   where the drawing starts; a new one each time where it is not set
//   MLA_BENCH_RANDOM_COUNT  how many problems, at least as many as there are variants
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "check.hpp"
#include "errors.hpp"
#include "executor.hpp"
#include "inputs.hpp"
#include "mla_bench/variant.hpp"
#include "operand_set.hpp"
#include "reference.hpp"
#include "text.hpp"

namespace mla_bench {

// The number in an environment variable; throws UsageError where it is none.
inline std::optional<std::int64_t> number_in(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr) {
    return std::nullopt;
  }
  const std::optional<std::int64_t> number = parse_integer(text);
  if (!number || *number < 0) {
    throw UsageError(std::string(name) + " is '" + text + "', not a number from 0 up");
  }
  return number;
}

// One thing that must hold.
struct RandomCase {
  const Variant* variant = nullptr;
  Precision precision = Precision::kFp32;
  Distribution distribution = Distribution::kNormal;
  std::uint64_t seed = 0;  // of the inputs
  int threads = 1;         // of a CPU
  Problem problem;
};

// Draws that are the same on every platform.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : engine_(seed) {}

  std::uint64_t next() { return engine_(); }

  // from .. to, both included.
  std::int64_t between(std::int64_t from, std::int64_t to) {
    return from + static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(to - from + 1));
  }

  template <typename Range>
  const auto& one_of(const Range& values) {
    return values[static_cast<std::size_t>(
        between(0, static_cast<std::int64_t>(std::size(values)) - 1))];
  }

  // A third each: tiny; a power of two or its neighbour; anything.
  std::int64_t extent(std::int64_t most) {
    constexpr std::int64_t kTiny = 9;
    switch (between(0, 2)) {
      case 0:
        return between(1, std::min(most, kTiny));
      case 1: {
        std::int64_t power = 1;
        for (std::int64_t i = between(0, 12); i > 0 && 2 * power <= most; --i) {
          power *= 2;
        }
        return std::clamp<std::int64_t>(power + between(-1, 1), 1, most);
      }
      default:
        return between(1, most);
    }
  }

 private:
  std::mt19937_64 engine_;
};

// What one problem may cost to check, and a variant that recomputes to run.
inline constexpr double kMostRandomFlops = 2e6;
inline constexpr double kMostExecutedFlops = 2e7;

inline Problem random_problem(Dice& dice) {
  Problem problem{.batch = dice.between(1, 3),
                  .seq = dice.extent(600),
                  .model_dim = dice.extent(1100),
                  .rank = dice.extent(520),
                  .kv_heads = dice.extent(9),
                  .head_dim = dice.extent(260)};
  // The largest extent is halved until the whole is small: what is left is as odd as before.
  while (problem.flops() > kMostRandomFlops) {
    std::int64_t* const extents[] = {&problem.seq, &problem.model_dim, &problem.rank,
                                     &problem.kv_heads, &problem.head_dim};
    std::int64_t& largest =
        **std::max_element(std::begin(extents), std::end(extents),
                           [](const std::int64_t* a, const std::int64_t* b) { return *a < *b; });
    largest = (largest + 1) / 2;
  }
  return problem;
}

// The smallest problem, by single steps, that still fails: each extent tried at 1, at half and at
// one less, until no step fails any more. `fails` says why, or nothing.
inline Problem shrunk(Problem problem,
                      const std::function<std::optional<std::string>(const Problem&)>& fails) {
  constexpr std::array kExtents{&Problem::batch, &Problem::seq,      &Problem::model_dim,
                                &Problem::rank,  &Problem::kv_heads, &Problem::head_dim};
  constexpr int kMostSteps = 400;
  int steps = 0;
  for (bool is_smaller = true; is_smaller;) {
    is_smaller = false;
    for (std::int64_t Problem::*const extent : kExtents) {
      const std::int64_t now = problem.*extent;
      for (const std::int64_t less : {std::int64_t{1}, now / 2, now - 1}) {
        Problem candidate = problem;
        candidate.*extent = less;
        if (less >= 1 && less < problem.*extent && steps++ < kMostSteps && fails(candidate)) {
          problem = candidate;
          is_smaller = true;
        }
      }
    }
  }
  return problem;
}

// The command that repeats a case.
inline std::string command_for(const RandomCase& drawn) {
  const Problem& p = drawn.problem;
  std::string command = "mla-bench --variant " + std::string(drawn.variant->name) +
                        " --precision " + std::string(name_of(drawn.precision)) + " --inputs " +
                        std::string(name_of(drawn.distribution)) + " --seed " +
                        std::to_string(drawn.seed);
  if (drawn.variant->backend == Backend::kCpu) {
    command += " --device cpu --threads " + std::to_string(drawn.threads);
  }
  return command + " --batch " + std::to_string(p.batch) + " --seq " + std::to_string(p.seq) +
         " --model-dim " + std::to_string(p.model_dim) + " --rank " + std::to_string(p.rank) +
         " --kv-heads " + std::to_string(p.kv_heads) + " --head-dim " + std::to_string(p.head_dim);
}

// Why a case does not hold; nothing where it does.
inline std::optional<std::string> failure_of(const RandomCase& drawn, Device device) {
  device.threads = drawn.threads;
  const std::unique_ptr<Executor> executor = make_executor(device);
  const InputSource source{.distribution = drawn.distribution, .seed = drawn.seed, .file = {}};
  const Inputs inputs = make_inputs(source, drawn.problem, drawn.precision);
  const Reference reference = reference_rows(inputs, all_rows(drawn.problem));
  const CheckContext context{.inputs = inputs,
                             .precision = drawn.precision,
                             .unit = drawn.variant->unit(drawn.precision),
                             .demand_exact = drawn.distribution == Distribution::kExact};
  OperandSet set(*executor, inputs);
  const Prepared prepared = drawn.variant->prepare(drawn.problem, drawn.precision, device);
  const Launch launch = prepared.bind(set.operands());
  std::vector<std::byte> first;
  for (const bool is_again : {false, true}) {
    set.reset(inputs);
    executor->run(launch);
    const std::vector<std::byte> kv = set.download_kv();
    if (is_again && kv != first) {
      return "a second launch gave other bits";
    }
    first = kv;
    const Check check = check_output(kv, reference, nullptr, context);
    if (!check.passed) {
      return check.reason;
    }
    if (const std::string trespass = set.trespass(inputs); !trespass.empty()) {
      return trespass;
    }
  }
  const std::optional<Check> on_device =
      executor->check_on_device(set.operands(), reference, context);
  if (on_device && !on_device->passed) {
    return "the check on the device alone says: " + on_device->reason;
  }
  return std::nullopt;
}

struct RandomOutcome {
  std::int64_t seed = 0;
  std::map<std::string, std::int64_t> problems;  // by variant
  std::vector<std::string> failures;
};

// `count` problems for each variant of the device's backend, in every precision that it takes.
inline RandomOutcome run_random_problems(const Device& device, std::int64_t count) {
  RandomOutcome outcome;
  constexpr std::uint64_t kReadable = 1'000'000'000;
  outcome.seed = number_in("MLA_BENCH_RANDOM_SEED")
                     .value_or(static_cast<std::int64_t>(std::random_device{}() % kReadable));
  std::cout << "random problems from MLA_BENCH_RANDOM_SEED=" << outcome.seed << '\n';
  Dice dice(static_cast<std::uint64_t>(outcome.seed));
  constexpr std::size_t kMostFailures = 3;
  for (const Listed& listed : registry()) {
    if (listed.backend != device.backend || listed.variant == nullptr) {
      continue;
    }
    std::vector<Precision> precisions;
    for (const Precision precision : kPrecisions) {
      if (!listed.variant->why_not(Problem{}, precision, device)) {
        precisions.push_back(precision);
      }
    }
    std::int64_t& ran = outcome.problems[std::string(listed.name)];
    while (!precisions.empty() && ran < count && outcome.failures.size() < kMostFailures) {
      RandomCase drawn{.variant = listed.variant,
                       .precision = dice.one_of(precisions),
                       .distribution = dice.one_of(kDistributions),
                       .seed = dice.next() % kReadable,
                       .threads = static_cast<int>(dice.between(1, 3)),
                       .problem = random_problem(dice)};
      const auto fails = [&](const Problem& problem) -> std::optional<std::string> {
        RandomCase other = drawn;
        other.problem = problem;
        if (listed.variant->executed_flops(problem) > kMostExecutedFlops ||
            listed.variant->why_not(problem, drawn.precision, device)) {
          return std::nullopt;
        }
        return failure_of(other, device);
      };
      if (listed.variant->executed_flops(drawn.problem) > kMostExecutedFlops ||
          listed.variant->why_not(drawn.problem, drawn.precision, device)) {
        continue;
      }
      ++ran;
      if (fails(drawn.problem)) {
        drawn.problem = shrunk(drawn.problem, fails);
        outcome.failures.push_back(command_for(drawn) + "\n  " + *fails(drawn.problem));
      }
    }
    std::cout << listed.name << ": " << ran
              << std::endl;  // a run that is killed shows where it was
  }
  return outcome;
}

}  // namespace mla_bench
