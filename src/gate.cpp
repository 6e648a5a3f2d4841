#include "gate.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "statistics.hpp"
#include "text.hpp"

namespace mla_bench {
namespace {

// Least standard deviation of a process's time that is believed, of the time: few values may agree
// by chance, and times are counted in ticks. 20 processes on an H200 have 0.05 to 0.06 %.
constexpr double kLeastNoise = 0.001;
// A cell's regressions are at least so many of its standard deviations from process to process.
constexpr double kNoises = 3;
// How certain a change must be found to be called detectable.
constexpr double kDetection = 0.95;

// A mean of logarithms and how well it is known.
struct Estimate {
  double mean = 0;
  double deviation = 0;
  double standard_error = 0;
  int degrees_of_freedom = 0;  // 0: its spread is not known
};

double mean_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Standard deviation of at least two values.
double deviation_of(std::span<const double> values) {
  const double mean = mean_of(values);
  double squares = 0;
  for (const double value : values) {
    squares += (value - mean) * (value - mean);
  }
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

Estimate paired_estimate(std::span<const double> baseline, std::span<const double> candidate) {
  std::vector<double> differences;
  for (std::size_t i = 0; i < baseline.size(); ++i) {
    differences.push_back(candidate[i] - baseline[i]);
  }
  Estimate estimate{.mean = mean_of(differences)};
  if (differences.size() >= 2) {
    estimate.deviation = deviation_of(differences);
    estimate.standard_error = std::max(estimate.deviation, kLeastNoise) /
                              std::sqrt(static_cast<double>(differences.size()));
    estimate.degrees_of_freedom = static_cast<int>(differences.size()) - 1;
  }
  return estimate;
}

Estimate independent_estimate(std::span<const double> baseline, std::span<const double> candidate) {
  Estimate estimate{.mean = mean_of(candidate) - mean_of(baseline)};
  double deviation = -1;
  for (const std::span<const double> side : {baseline, candidate}) {
    if (side.size() >= 2 && deviation_of(side) > deviation) {
      deviation = deviation_of(side);
      estimate.degrees_of_freedom = static_cast<int>(side.size()) - 1;
    }
  }
  estimate.deviation = std::max(deviation, 0.0);
  estimate.standard_error =
      std::max(deviation, kLeastNoise) * std::sqrt(1 / static_cast<double>(baseline.size()) +
                                                   1 / static_cast<double>(candidate.size()));
  return estimate;
}

void subtract(std::vector<double>& values, std::span<const double> others) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] -= others[i];
  }
}

// The logarithm of a slow-down that is called a regression with probability kDetection: its
// estimate comes out above `limit`, and its t above `t`, that of `alpha`. For t, whose spread is
// estimated too, by the normal approximation to the noncentral t distribution (M. Abramowitz and I.
// A. Stegun, "Handbook of Mathematical Functions", 1964, 26.7.10).
double detectable(const Estimate& estimate, double limit, double t, const GateRules& rules) {
  // Two series must find it, each by itself.
  const double detection = rules.is_confirmed ? std::sqrt(kDetection) : kDetection;
  const int freedom = estimate.degrees_of_freedom;
  const double certain =
      t * (1 - 0.25 / freedom) + normal_quantile(detection) * std::sqrt(1 + t * t / (2 * freedom));
  const double above = student_t_quantile(detection, freedom);
  return std::max(limit + above * estimate.standard_error, certain * estimate.standard_error);
}

// The verdict on the time, and with which change.
void decide(const Estimate& estimate, const GateRules& rules, JudgedCell& judged) {
  const double limit = std::log1p(judged.threshold);
  const double t = student_t_quantile(1 - rules.alpha, estimate.degrees_of_freedom);
  const double half = t * estimate.standard_error;
  const double low = estimate.mean - half;
  const double high = estimate.mean + half;
  judged.change = Change{.estimate = std::exp(estimate.mean),
                         .interval = {.low = std::exp(low), .high = std::exp(high)},
                         .detectable = std::expm1(detectable(estimate, limit, t, rules)),
                         .deviation = estimate.deviation};
  if (low > 0 && estimate.mean > limit) {
    judged.verdict = Verdict::kRegression;
  } else if (high < 0 && estimate.mean < -limit) {
    judged.verdict = Verdict::kImprovement;
  } else if (high < std::log1p(rules.threshold)) {
    judged.verdict = Verdict::kPass;
  } else {
    judged.verdict = Verdict::kInconclusive;
    judged.reason += (judged.reason.empty() ? "" : "; ") +
                     std::string(low > 0 ? "slower, but whether by the threshold is not known"
                                         : "the noise hides the threshold");
  }
}

// What one side says of a cell in all.
struct Side {
  Status status = Status::kSkipped;
  std::string reason;
  std::size_t untrusted = 0;
  bool unfit = false;
  std::vector<std::optional<double>> logs;  // a place for each process
  std::size_t times = 0;
  std::size_t anchors = 0;          // of the processes with a time
  std::vector<double> anchor_logs;  // theirs
  std::size_t clocks = 0;
  double log_clock = 0;  // sum over the processes with a time
  std::int64_t rounds = 0;
  double error_over_bound = 0;
  double frobenius_error = 0;
  bool is_checked = false;
};

Side side_of(const CellEvidence& cell) {
  Side side;
  for (const ProcessFinding& process : cell.processes) {
    side.logs.push_back(process.status == Status::kPassed ? std::optional(std::log(process.ns))
                                                          : std::nullopt);
    // A wrong output outweighs all; a time outweighs the lack of one.
    const auto weight = [](Status status) {
      switch (status) {
        case Status::kIncorrect:
          return 4;
        case Status::kFailed:
          return 3;
        case Status::kPassed:
          return 2;
        case Status::kUntrusted:
          return 1;
        case Status::kSkipped:
          return 0;
      }
      return 0;
    };
    if (&process == cell.processes.data() || weight(process.status) > weight(side.status)) {
      side.status = process.status;
      side.reason = process.reason;
    }
    if (process.status == Status::kPassed) {
      ++side.times;
      side.rounds += process.rounds;
      if (process.anchors_ns) {
        ++side.anchors;
        side.anchor_logs.push_back(std::log(*process.anchors_ns));
      }
      side.clocks += process.clock_mhz ? 1 : 0;
      side.log_clock += process.clock_mhz ? std::log(*process.clock_mhz) : 0;
    } else if (process.status == Status::kUntrusted) {
      ++side.untrusted;
      side.unfit = side.unfit || process.unfit;
    }
    if (process.error_over_bound && process.frobenius_error) {
      side.is_checked = true;
      side.error_over_bound = std::max(side.error_over_bound, *process.error_over_bound);
      side.frobenius_error = std::max(side.frobenius_error, *process.frobenius_error);
    }
  }
  // A witness that was asked in some processes only, and a proof that was made there, speak for all
  // of them.
  const auto count = [&](auto&& is) {
    return std::count_if(cell.processes.begin(), cell.processes.end(), is);
  };
  const auto doubted = count([](const ProcessFinding& found) { return found.is_doubted; });
  const auto believed = count([](const ProcessFinding& found) {
    return found.is_witnessed && found.status == Status::kPassed;
  });
  if (side.status == Status::kPassed &&
      (side.untrusted >= side.times || (doubted > 0 && doubted >= believed))) {
    const auto untrusted = std::find_if(
        cell.processes.begin(), cell.processes.end(),
        [](const ProcessFinding& found) { return found.status == Status::kUntrusted; });
    side.status = Status::kUntrusted;
    side.reason = std::to_string(side.untrusted) + " of " + std::to_string(cell.processes.size()) +
                  " processes: " + untrusted->reason;
  }
  return side;
}

std::vector<double> values_of(const std::vector<std::optional<double>>& logs,
                              const std::vector<std::optional<double>>* partner) {
  std::vector<double> values;
  for (std::size_t i = 0; i < logs.size(); ++i) {
    const bool has_partner = partner == nullptr || (i < partner->size() && (*partner)[i]);
    if (logs[i] && has_partner) {
      values.push_back(*logs[i]);
    }
  }
  return values;
}

// How the error of the output grew beyond the factor; empty where it did not.
std::string lost_accuracy(const Side& baseline, const Side& candidate, double factor) {
  if (!baseline.is_checked || !candidate.is_checked) {
    return "";
  }
  struct Measure {
    std::string_view name;
    double then;
    double now;
  };
  for (const Measure& error :
       {Measure{"Frobenius error", baseline.frobenius_error, candidate.frobenius_error},
        Measure{"largest error over its bound", baseline.error_over_bound,
                candidate.error_over_bound}}) {
    if (error.now > factor * error.then) {
      return "less exact: the " + std::string(error.name) + " grew from " + shortest(error.then) +
             " to " + shortest(error.now) + ", more than " + shortest(factor) + " times";
    }
  }
  return "";
}

JudgedCell without_time(const CellEvidence& cell, Verdict verdict, std::string reason) {
  return {.key = cell.key,
          .device_name = cell.device_name,
          .verdict = verdict,
          .reason = std::move(reason)};
}

// Why the two cannot be compared; empty where they can.
std::string mismatch(const CellEvidence& baseline, const CellEvidence& candidate,
                     const GateRules& rules) {
  std::vector<std::string> found;
  if (!baseline.conflict.empty()) {
    found.push_back("the baseline's documents differ: " + baseline.conflict);
  }
  if (!candidate.conflict.empty()) {
    found.push_back("the candidate's documents differ: " + candidate.conflict);
  }
  found.push_back(differences(baseline.device, candidate.device));
  const InputSource& then = baseline.key.work.inputs;
  const InputSource& now = candidate.key.work.inputs;
  if (!then.content.empty() && !now.content.empty() && then.content != now.content) {
    found.push_back(printable(*now.file) + " holds other values: content " +
                    printable(now.content) + " instead of " + printable(then.content));
  }
  if (baseline.key.place.threads != candidate.key.place.threads) {
    found.push_back("threads " + std::to_string(candidate.key.place.threads) + " instead of " +
                    std::to_string(baseline.key.place.threads));
  }
  if (rules.compares_build) {
    found.push_back(differences(baseline.build, candidate.build));
  }
  if (!baseline.anchors.empty() && !candidate.anchors.empty() &&
      baseline.anchors != candidate.anchors) {
    found.push_back("anchors " + printable(candidate.anchors) + " instead of " +
                    printable(baseline.anchors));
  }
  std::erase(found, "");
  return join(found, ", ");
}

// Beside a change of the time: that of the cycles, and a word where the clock has a part in it.
void attribute(const Side& then, const Side& now, JudgedCell& judged) {
  if (!judged.change || then.clocks == 0 || then.clocks != then.times || now.clocks != now.times) {
    return;
  }
  const double clock = std::exp(now.log_clock / static_cast<double>(now.clocks) -
                                then.log_clock / static_cast<double>(then.clocks));
  // Of the times as they were: what the anchors took out is the clock's part too.
  judged.cycles = *judged.candidate_ns / *judged.baseline_ns * clock;
  constexpr double kWorthTelling = 0.01;
  if (judged.verdict != Verdict::kPass && std::abs(clock - 1) > kWorthTelling) {
    judged.reason += (judged.reason.empty() ? "" : "; ") + std::string("in cycles ") +
                     (*judged.cycles >= 1 ? "+" : "") + fixed(100 * (*judged.cycles - 1), 2) +
                     " %, the clock moved by " + (clock >= 1 ? "+" : "") +
                     fixed(100 * (clock - 1), 2) + " %";
  }
}

// The verdict on the times of both sides, as far as there are any to trust; `is_alike`: taken under
// the same circumstances.
void judge_times(const CellKey& key, const Side& then, const Side& now, bool is_alike,
                 const GateRules& rules, JudgedCell& judged) {
  if (now.status == Status::kUntrusted) {
    judged.verdict = Verdict::kInconclusive;
    judged.reason = "untrusted: " + now.reason;
    judged.unfit = now.unfit;
    return;
  }
  if (then.status == Status::kUntrusted) {
    judged.reason = "the baseline is untrusted: " + then.reason;
    judged.unfit = then.unfit;
    return;
  }

  std::vector<double> before = values_of(then.logs, rules.is_paired ? &now.logs : nullptr);
  std::vector<double> after = values_of(now.logs, rules.is_paired ? &then.logs : nullptr);
  judged.baseline_processes = static_cast<std::int64_t>(before.size());
  judged.candidate_processes = static_cast<std::int64_t>(after.size());
  if (!before.empty() && !after.empty()) {
    judged.baseline_ns = std::exp(mean_of(before));
    judged.candidate_ns = std::exp(mean_of(after));
  }
  const bool is_one_round =
      (then.times == 1 && then.rounds < 2) || (now.times == 1 && now.rounds < 2);
  const std::size_t most = std::max(before.size(), after.size());
  if (before.empty() || after.empty() || most < 2 || (rules.is_paired && before.size() < 2)) {
    judged.reason =
        "one process on each side does not tell the shift from process to process: give several "
        "documents, or leave the candidate out and it is measured several times";
    return;
  }
  if (is_one_round && !rules.is_paired) {
    judged.reason = "a side has one round in all: measure it with more --rounds, or several times";
    return;
  }
  const auto noise = rules.noise.find(export_name(key));
  const double from_noise = noise == rules.noise.end() ? 0 : std::expm1(kNoises * noise->second);
  judged.threshold = std::max(rules.threshold, from_noise);
  if (from_noise > rules.threshold) {
    judged.reason = "its threshold is " + fixed(100 * from_noise, 2) +
                    " %, three times its noise from process to process by selftest";
  }
  if (!rules.is_paired && is_alike && then.anchors == then.times && now.anchors == now.times) {
    judged.anchors = std::exp(mean_of(now.anchor_logs) - mean_of(then.anchor_logs));
    subtract(before, then.anchor_logs);
    subtract(after, now.anchor_logs);
  }
  decide(rules.is_paired ? paired_estimate(before, after) : independent_estimate(before, after),
         rules, judged);
}

JudgedCell judge_cell(const CellEvidence& baseline, const CellEvidence& candidate,
                      const GateRules& rules) {
  const Side then = side_of(baseline);
  const Side now = side_of(candidate);
  JudgedCell judged = without_time(candidate, Verdict::kIncomparable, "");
  if (now.status == Status::kIncorrect || now.status == Status::kFailed) {
    judged.verdict = Verdict::kIncorrect;
    judged.reason = std::string(name_of(now.status)) + ": " + now.reason;
    return judged;
  }
  if (now.status == Status::kSkipped) {
    judged.verdict = then.status == Status::kSkipped ? Verdict::kSkipped : Verdict::kMissing;
    judged.reason = "skipped: " + now.reason;
    return judged;
  }
  if (then.status == Status::kSkipped || then.status == Status::kIncorrect ||
      then.status == Status::kFailed) {
    judged.verdict = Verdict::kNew;
    judged.reason = "in the baseline " + std::string(name_of(then.status)) + ": " + then.reason;
    return judged;
  }
  const std::string other = mismatch(baseline, candidate, rules);
  if (!other.empty() && !rules.allow_environment) {
    judged.reason = other;
    return judged;
  }
  judge_times(baseline.key, then, now, other.empty(), rules, judged);
  if (const std::string lost = lost_accuracy(then, now, rules.error_factor); !lost.empty()) {
    judged.verdict = Verdict::kRegression;
    judged.reason = lost;  // whatever is known of the time
    judged.unfit = false;
  }
  if (!judged.change) {
    return judged;
  }
  attribute(then, now, judged);
  if (constexpr double kWorthTelling = 0.01;
      judged.anchors && std::abs(*judged.anchors - 1) > kWorthTelling) {
    judged.reason += (judged.reason.empty() ? "" : "; ") + std::string("the anchors moved by ") +
                     (*judged.anchors >= 1 ? "+" : "") + fixed(100 * (*judged.anchors - 1), 2) +
                     " %, which is taken out";
  }
  if (!other.empty()) {
    judged.reason += (judged.reason.empty() ? "" : "; ") + ("allowed: " + other);
  }
  return judged;
}

std::string whole_id(CellKey key) {
  return id_of(key);
}

// The same cell with whatever is in its input file, which may be unknown on one side.
std::string id_without_content(CellKey key) {
  key.work.inputs.content.clear();
  return id_of(key);
}

// The same cell on whatever device, too.
std::string id_without_place(CellKey key) {
  key.work.inputs.content.clear();
  return key.variant + "/" + std::string(name_of(key.place.backend)) + "/" + id_of(key.work);
}

// For each cell of the baseline the candidate's, nullptr where there is none: first by the whole
// key, then by less and less of it among those that are left, where no other could be meant.
std::vector<const CellEvidence*> partners_of(std::span<const CellEvidence> baseline,
                                             std::span<const CellEvidence> candidate) {
  struct Left {
    std::vector<std::size_t> baseline;
    std::vector<const CellEvidence*> candidate;
  };
  std::vector<const CellEvidence*> partners(baseline.size(), nullptr);
  std::set<const CellEvidence*> taken;
  for (const auto name : {whole_id, id_without_content, id_without_place}) {
    std::map<std::string, Left> left;
    for (std::size_t i = 0; i < baseline.size(); ++i) {
      if (partners[i] == nullptr) {
        left[name(baseline[i].key)].baseline.push_back(i);
      }
    }
    for (const CellEvidence& cell : candidate) {
      if (!taken.contains(&cell)) {
        left[name(cell.key)].candidate.push_back(&cell);
      }
    }
    for (const auto& [id, cells] : left) {
      if (cells.baseline.size() == 1 && cells.candidate.size() == 1) {
        partners[cells.baseline.front()] = cells.candidate.front();
        taken.insert(cells.candidate.front());
      }
    }
  }
  return partners;
}

}  // namespace

std::string_view name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kPass:
      return "pass";
    case Verdict::kImprovement:
      return "improvement";
    case Verdict::kRegression:
      return "regression";
    case Verdict::kInconclusive:
      return "inconclusive";
    case Verdict::kIncomparable:
      return "incomparable";
    case Verdict::kMissing:
      return "missing";
    case Verdict::kNew:
      return "new";
    case Verdict::kIncorrect:
      return "incorrect";
    case Verdict::kSkipped:
      return "skipped";
  }
  return "?";
}

GateResult judge(std::span<const CellEvidence> baseline, std::span<const CellEvidence> candidate,
                 const GateRules& rules) {
  const std::vector<const CellEvidence*> partners = partners_of(baseline, candidate);
  GateResult result{.rules = rules, .cells = {}, .failure = {}};
  for (std::size_t i = 0; i < baseline.size(); ++i) {
    const CellEvidence& cell = baseline[i];
    if (partners[i] != nullptr) {
      result.cells.push_back(judge_cell(cell, *partners[i], rules));
    } else if (side_of(cell).status == Status::kSkipped) {
      result.cells.push_back(without_time(cell, Verdict::kSkipped, "the baseline skipped it"));
    } else {
      result.cells.push_back(
          without_time(cell, Verdict::kMissing, "the candidate has no such cell"));
    }
  }
  const std::set<const CellEvidence*> used(partners.begin(), partners.end());
  for (const CellEvidence& cell : candidate) {
    if (!used.contains(&cell)) {
      const Side side = side_of(cell);
      const bool is_wrong = side.status == Status::kIncorrect || side.status == Status::kFailed;
      const Verdict verdict = is_wrong                          ? Verdict::kIncorrect
                              : side.status == Status::kSkipped ? Verdict::kSkipped
                                                                : Verdict::kNew;
      result.cells.push_back(without_time(
          cell, verdict,
          verdict == Verdict::kNew ? "the baseline has no such cell"
                                   : std::string(name_of(side.status)) + ": " + side.reason));
    }
  }
  return result;
}

bool is_settled(const GateResult& result) {
  return std::none_of(result.cells.begin(), result.cells.end(), [](const JudgedCell& cell) {
    return cell.verdict == Verdict::kInconclusive && cell.change;
  });
}

GateResult confirmed(const GateResult& first, const GateResult& second) {
  std::map<std::string, const JudgedCell*> again;
  for (const JudgedCell& cell : second.cells) {
    again.emplace(id_of(cell.key), &cell);
  }
  GateResult result = first;
  for (JudgedCell& cell : result.cells) {
    if (cell.verdict != Verdict::kRegression) {
      continue;
    }
    const auto found = again.find(id_of(cell.key));
    const JudgedCell* repeat = found == again.end() ? nullptr : found->second;
    std::string seen = repeat == nullptr ? "nothing" : std::string(name_of(repeat->verdict));
    if (repeat != nullptr && repeat->change) {
      seen += ", " + std::string(repeat->change->estimate >= 1 ? "+" : "") +
              fixed(100 * (repeat->change->estimate - 1), 2) + " %";
    }
    const bool repeats = repeat != nullptr && repeat->verdict == Verdict::kRegression;
    cell.verdict = repeats ? Verdict::kRegression : Verdict::kInconclusive;
    cell.reason +=
        (cell.reason.empty() ? "" : "; ") +
        ((repeats ? "a second series repeats it: " : "a second series does not repeat it: ") +
         seen);
  }
  return result;
}

namespace {

ExitCode code_of_verdicts(const GateResult& result, bool strict) {
  const auto any = [&](Verdict verdict) {
    return std::any_of(result.cells.begin(), result.cells.end(),
                       [&](const JudgedCell& cell) { return cell.verdict == verdict; });
  };
  const bool is_compared =
      std::any_of(result.cells.begin(), result.cells.end(), [](const JudgedCell& cell) {
        return cell.verdict == Verdict::kPass || cell.verdict == Verdict::kImprovement ||
               cell.verdict == Verdict::kRegression || cell.verdict == Verdict::kInconclusive;
      });
  if (any(Verdict::kIncorrect)) {
    return ExitCode::kIncorrect;
  }
  const auto unfit = std::count_if(result.cells.begin(), result.cells.end(),
                                   [](const JudgedCell& cell) { return cell.unfit; });
  const bool is_incomparable = std::any_of(
      result.cells.begin(), result.cells.end(),
      [](const JudgedCell& cell) { return cell.verdict == Verdict::kIncomparable && !cell.unfit; });
  if (is_incomparable || any(Verdict::kMissing) || (!is_compared && unfit == 0)) {
    return ExitCode::kIncomparable;
  }
  if (unfit > 0) {
    return ExitCode::kUnfit;
  }
  if (any(Verdict::kRegression)) {
    return ExitCode::kRegression;
  }
  return strict && any(Verdict::kInconclusive) ? ExitCode::kInconclusive : ExitCode::kFine;
}

}  // namespace

ExitCode first_of(ExitCode a, ExitCode b) {
  using enum ExitCode;
  // Where nothing could run the verdicts are of nothing.
  constexpr std::array kOrder{kUsage, kIncorrect,  kNothingRan,   kIncomparable,
                              kUnfit, kRegression, kInconclusive, kFine};
  return *std::find_if(kOrder.begin(), kOrder.end(),
                       [&](ExitCode code) { return code == a || code == b; });
}

ExitCode exit_code(const GateResult& result, bool strict) {
  const ExitCode code = code_of_verdicts(result, strict);
  return result.failure ? first_of(result.failure->code, code) : code;
}

}  // namespace mla_bench
