// The gate: whether a candidate is slower, wrong or less exact than a baseline, a verdict for every
// cell of either. A pure function of evidence; gate_command.cpp gathers it, gate_report.hpp shows
// the verdicts.
//
// A decision is on the mean of logarithms of process times, candidate over baseline, with Student's
// t at `alpha` on either side:
//   regression    it is slower beyond doubt, and the estimate is above the threshold
//   improvement   it is faster beyond doubt, and the estimate is below the threshold's inverse
//   pass          it is beyond doubt not slower by the threshold
//   inconclusive  none of these: more processes would tell
// A cell that is known to be noisy has a threshold of its own for the first two, so that noise
// raises no alarm; nor does it let anything pass.
// Processes that took turns (--against) are compared pair by pair, so that what drifts falls on
// both. Others are compared side by side, with the larger of the two sides' spreads for both.
//
// A series may be looked at several times while it grows. Each look spends its own part of the
// error, which together are not more than their sum whatever the dependence between looks: an
// alpha-spending rule (K. K. G. Lan and D. L. DeMets, "Discrete sequential boundaries for clinical
// trials", Biometrika 70, 1983) with equal parts, bounded by Bonferroni.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "errors.hpp"
#include "gate_evidence.hpp"
#include "ratio.hpp"

namespace mla_bench {

enum class Verdict {
  kPass,
  kImprovement,
  kRegression,
  kInconclusive,
  kIncomparable,  // other circumstances, a baseline that is not trusted, or too few processes
  kMissing,       // in the baseline, but not in the candidate
  kNew,           // in the candidate, but the baseline had none to time: wrong, failed or skipped
  kIncorrect,     // wrong output, or it failed
  kSkipped,
};

inline constexpr std::array kVerdicts{
    Verdict::kPass,         Verdict::kImprovement,  Verdict::kRegression,
    Verdict::kInconclusive, Verdict::kIncomparable, Verdict::kMissing,
    Verdict::kNew,          Verdict::kIncorrect,    Verdict::kSkipped};

std::string_view name_of(Verdict verdict);

struct GateRules {
  double threshold = 0.03;  // the slow-down that is not let through
  // How often one look may err on either side: 1 % over the five looks of a series.
  double alpha = 0.002;
  // The error of the output may grow by this factor: sums in another order move the largest error
  // of an output, lost bits at least double it.
  double error_factor = 2;
  bool is_confirmed = false;   // a regression must show in a second series too
  bool is_paired = false;      // process i of the one side took turns with process i of the other
  bool compares_build = true;  // compilers and flags are circumstances, not what is judged
  bool allow_environment = false;
  // How far two processes of one program lie apart, by the export names of cells: the standard
  // deviation of the logarithm of their ratio, by selftest. No regression or improvement of a cell
  // is below three times that.
  std::map<std::string, double> noise = {};
};

// Candidate over baseline.
struct Change {
  double estimate = 1;
  Interval interval;      // at the rules' alpha on either side
  double detectable = 0;  // slow-downs from this up (0.031 is 3.1 %) are found 19 times of 20
  // Standard deviation of the logarithms: of the ratios of pairs, or of the processes of the side
  // that spreads more.
  double deviation = 0;
};

struct JudgedCell {
  CellKey key;
  std::string device_name;
  Verdict verdict = Verdict::kInconclusive;
  std::string reason;  // one line; empty where the numbers say all
  // Geometric means over the processes whose times count.
  std::optional<double> baseline_ns;
  std::optional<double> candidate_ns;
  std::int64_t baseline_processes = 0;
  std::int64_t candidate_processes = 0;
  std::optional<Change> change;
  double threshold = 0;  // the rules', or more where the cell's noise is known to be larger
  // The change in cycles, where the clocks of all these processes are known: what the clock did is
  // not in it. It is told, and does not judge: a candidate may lower its clock by its own power.
  std::optional<double> cycles;
  // How the anchors moved beside it, which is taken out of the change. Only where every process of
  // both sides has them; pairs need none.
  std::optional<double> anchors;
  bool unfit = false;  // no verdict because a GPU was throttled or not ours alone, on either side
};

// A process that left no document to judge ended the series.
struct SeriesFailure {
  std::string why;
  ExitCode code = ExitCode::kIncomparable;
};

struct GateResult {
  GateRules rules;
  std::vector<JudgedCell> cells;  // in the baseline's order, then what is new
  std::optional<SeriesFailure> failure;
};

GateResult judge(std::span<const CellEvidence> baseline, std::span<const CellEvidence> candidate,
                 const GateRules& rules);

// Whether another process would change nothing: no cell is inconclusive by its noise.
bool is_settled(const GateResult& result);

// `first` with the regressions that an independent second series of the same cells does not repeat
// made inconclusive.
GateResult confirmed(const GateResult& first, const GateResult& second);

// The one that counts where both apply.
ExitCode first_of(ExitCode a, ExitCode b);

// What the command ends with and its reports say, by the table of design: incorrect, incomparable
// (missing cells too, and no cell compared), unfit, regression, and with `strict` inconclusive; or
// the failure's, where that comes first.
ExitCode exit_code(const GateResult& result, bool strict);

}  // namespace mla_bench
