#include "judge.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "measure.hpp"
#include "text.hpp"

namespace mla_bench {
namespace {

// A cold period that moves more than this with twice the operand sets was not cold (flashinfer and
// CUTLASS rotate without such a proof; the limit is well above run-to-run noise).
constexpr double kColdTolerance = 0.02;
// Part of the samples that may be marked before the cell's median is in doubt: a quarter can move a
// median only within its own spread.
constexpr double kMostMarked = 0.25;
// And at most this part taken again.
constexpr double kMostRetaken = 0.1;
// Ceilings are medians of a few rounds themselves.
constexpr double kFasterThanLight = 0.97;

std::string micro(double ns) {
  return fixed(ns / 1000, 2) + " us";
}

std::optional<std::string> cold_doubt(const Result& result) {
  if (!result.cold_proof || result.cold_proof->more_sets == 0) {
    return std::nullopt;
  }
  const ColdProof& proof = *result.cold_proof;
  const double moved = proof.more_sets_period_ns / proof.period_ns - 1;
  if (std::abs(moved) <= kColdTolerance) {
    return std::nullopt;
  }
  return "not cold: " + micro(proof.period_ns) + " with " + std::to_string(proof.sets) +
         " operand sets, " + micro(proof.more_sets_period_ns) + " with " +
         std::to_string(proof.more_sets);
}

std::optional<std::string> referee_doubt(const Result& result) {
  if (!result.referee || !result.referee->missing.empty()) {
    return std::nullopt;
  }
  const Referee& referee = *result.referee;
  // The period is known no better than its rounds agree.
  const std::vector<double> rounds = round_medians_ns(result.rounds);
  const auto [least, most] = std::minmax_element(rounds.begin(), rounds.end());
  const double band_ns = referee.band_ns + (rounds.empty() ? 0 : *most - *least);
  if (std::abs(referee.gap_ns - referee.empty_gap_ns) <= band_ns) {
    return std::nullopt;
  }
  return "the kernels' own duration (" + micro(referee.duration_ns) + ") leaves a gap of " +
         micro(referee.gap_ns) + " in the period, the empty kernel's is " +
         micro(referee.empty_gap_ns) + " +- " + micro(band_ns) +
         ": work outside the timed stream, or none in it";
}

// What a launch puts on a stream of its own is in no graph, so no time holds it.
std::optional<std::string> escape_doubt(const Result& result) {
  if (!result.referee || !result.referee->counts || !result.referee->counts->missing.empty()) {
    return std::nullopt;
  }
  const auto kernels = [](std::int64_t count) {
    return std::to_string(count) + (count == 1 ? " kernel" : " kernels");
  };
  const KernelCounts& counts = *result.referee->counts;
  std::string found;
  if (counts.called != counts.captured) {
    found = "one call ran " + kernels(counts.called) + ", the graph that is timed holds " +
            std::to_string(counts.captured) + " of them";
  } else if (counts.escaped > 0) {
    found = kernels(counts.escaped) + " ran while the launch was only captured into a graph";
  }
  return found.empty()
             ? std::nullopt
             : std::optional(found + ": work on a stream other than the one it was given");
}

// Rounds with throttling around them, samples at a slow clock, rounds at a slow clock beside the
// others.
std::optional<std::string> clock_doubt(const Result& result) {
  std::int64_t samples = 0;
  std::int64_t marked = 0;
  std::string reasons;
  for (const Round& round : result.rounds) {
    samples += static_cast<std::int64_t>(round.samples_ns.size());
    bool throttled = false;
    for (const std::optional<GpuState>* state : {&round.before, &round.after}) {
      if (*state && (*state)->throttle.protects()) {
        throttled = true;
        reasons = (*state)->throttle.in_words();
      }
    }
    marked += static_cast<std::int64_t>(throttled ? round.samples_ns.size()
                                                  : round.slow_clock_samples.size());
  }
  if (samples == 0 || static_cast<double>(marked) <= kMostMarked * static_cast<double>(samples)) {
    return std::nullopt;
  }
  return std::to_string(marked) + " of " + std::to_string(samples) +
         " samples were taken at a lowered clock" + (reasons.empty() ? "" : " (" + reasons + ")");
}

// Samples that were no times and were taken again: the others were disturbed too, only less.
std::optional<std::string> disturbance_doubt(const Result& result) {
  std::size_t samples = 0;
  std::int64_t retaken = 0;
  for (const Round& round : result.rounds) {
    samples += round.samples_ns.size();
    retaken += round.retaken_samples;
  }
  if (static_cast<double>(retaken) <= kMostRetaken * static_cast<double>(samples)) {
    return std::nullopt;
  }
  return std::to_string(retaken) + " of " + std::to_string(samples) +
         " samples had to be taken again: something else keeps the device busy";
}

// What the management library told of a round: the higher of its readings before and after, since
// one alone may have caught a clock that a neighbour's load, or the lack of any, moved for a
// moment.
std::optional<double> told_clock_mhz(const Round& round) {
  if (!round.before || !round.before->sm_clock_mhz || !round.after || !round.after->sm_clock_mhz) {
    return std::nullopt;
  }
  return std::max(*round.before->sm_clock_mhz, *round.after->sm_clock_mhz);
}

// Clocks that differ between rounds, as the passes measured them or, where they could not, as the
// management library tells them: a drop that lasts a whole round marks no sample within it.
std::optional<std::string> drift_doubt(const Result& result) {
  constexpr double kSlowRound = 0.97;  // as for a sample within its round
  // A power limit leaves no constant clock: 0.91 was seen on an H200 at 700 W. How much the time
  // moved with it is in the interval.
  constexpr double kSlowRoundAtPowerLimit = 0.90;
  std::vector<double> told;
  std::vector<double> measured;
  double limit = kSlowRound;
  for (const Round& round : result.rounds) {
    if (const std::optional<double> mhz = told_clock_mhz(round)) {
      told.push_back(*mhz);
    }
    if (const std::optional<double> mhz = usual_clock_mhz(round.clock_mhz)) {
      measured.push_back(*mhz);
    }
    if (is_at_power_limit(round)) {
      limit = kSlowRoundAtPowerLimit;
    }
  }
  const std::vector<double>& clocks = measured.empty() ? told : measured;
  const auto [least, most] = std::minmax_element(clocks.begin(), clocks.end());
  if (clocks.empty() || *least >= limit * *most) {
    return std::nullopt;
  }
  return "the SM clock moved between " + fixed(*least, 0) + " and " + fixed(*most, 0) +
         " MHz from round to round";
}

std::optional<std::string> company_doubt(const Result& result) {
  int most = 0;
  for (const Round& round : result.rounds) {
    for (const std::optional<GpuState>* state : {&round.before, &round.after}) {
      if (*state) {
        most = std::max(most, (*state)->other_processes.value_or(0));
      }
    }
  }
  if (most == 0) {
    return std::nullopt;
  }
  return std::to_string(most) + " other process" + (most == 1 ? "" : "es") + " on the GPU";
}

std::optional<std::string> light_doubt(const Result& result) {
  if (!result.roofline || !result.summary ||
      result.summary->median_ns >= kFasterThanLight * result.roofline->ns) {
    return std::nullopt;
  }
  return "faster than light: " + micro(result.summary->median_ns) + ", but its " +
         (result.roofline->by_memory ? "bytes" : "FLOPs") + " alone take " +
         micro(result.roofline->ns) + " on this device";
}

using Rule = std::optional<std::string> (*)(const Result&);

std::vector<std::string> doubts_by(std::initializer_list<Rule> rules, const Result& result) {
  std::vector<std::string> found;
  for (const Rule rule : rules) {
    if (const std::optional<std::string> doubt = rule(result)) {
      found.push_back(*doubt);
    }
  }
  return found;
}

}  // namespace

std::vector<std::string> doubts(const Result& result) {
  return doubts_by({cold_doubt, referee_doubt, escape_doubt, clock_doubt, disturbance_doubt,
                    drift_doubt, company_doubt, light_doubt},
                   result);
}

std::vector<std::string> doubts_beside_times(const Result& result) {
  return doubts_by({cold_doubt, referee_doubt, escape_doubt}, result);
}

std::optional<std::string> why_not_searched(const Result& result) {
  if (result.cell.backend != Backend::kCuda || !result.summary || !result.referee) {
    return std::nullopt;
  }
  const Referee& referee = *result.referee;
  const std::string& missing = referee.counts ? referee.counts->missing : referee.missing;
  return missing.empty() ? std::nullopt : std::optional(missing);
}

bool is_unwatched(const Result& result) {
  return result.cell.backend == Backend::kCuda && result.summary &&
         std::none_of(result.rounds.begin(), result.rounds.end(),
                      [](const Round& round) { return round.before || round.after; });
}

}  // namespace mla_bench
