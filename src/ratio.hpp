// How many times as long one cell takes as another, and how sure that is.
//
// The unit of evidence is the round: samples inside one share their process, clocks and addresses,
// and count as one value, their median. More samples inside a round would only make a wrong answer
// more certain (T. Kalibera and R. Jones, "Rigorous Benchmarking in Reasonable Time", ISMM 2013:
// repeat at the level that varies). Medians are compared as logarithms, so that a/b and b/a say the
// same, and a difference of their means is a ratio of geometric means.
#pragma once

#include <optional>
#include <span>

namespace mla_bench {

struct Interval {
  double low = 0;
  double high = 0;
};

struct Ratio {
  double estimate = 1;
  std::optional<Interval>
      ci95;  // none where a side has one round, which says nothing of its spread
  bool paired = false;

  // The interval leaves 1 out: which of the two is faster is known.
  bool is_decided() const { return ci95 && (ci95->low > 1 || ci95->high < 1); }
  Ratio inverse() const;
};

// Of cells that took turns in one run: round i of one stands beside round i of the other, and what
// drifts falls on both. Student's t on the differences of logarithms. Rounds beyond the shorter
// list are left out. Throws std::invalid_argument where a list is empty.
Ratio paired_ratio(std::span<const double> numerator_ns, std::span<const double> denominator_ns);

// Of cells of different runs: Welch's t on the logarithms, the degrees of freedom rounded down
// (B. L. Welch, "The generalization of 'Student's' problem when several different population
// variances are involved", Biometrika 34, 1947). The shift from run to run is not in it, since one
// run on each side cannot show it. Throws std::invalid_argument where a list is empty.
Ratio independent_ratio(std::span<const double> numerator_ns,
                        std::span<const double> denominator_ns);

}  // namespace mla_bench
