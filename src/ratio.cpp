#include "ratio.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "statistics.hpp"

namespace mla_bench {
namespace {

struct Moments {
  double mean = 0;
  double variance_of_mean = 0;  // s^2 / n; only for two values or more
  double degrees_of_freedom = 0;
};

Moments moments_of(std::span<const double> values) {
  const double n = static_cast<double>(values.size());
  Moments moments{.mean = std::accumulate(values.begin(), values.end(), 0.0) / n,
                  .degrees_of_freedom = n - 1};
  for (const double value : values.size() < 2 ? values.first(0) : values) {
    moments.variance_of_mean += (value - moments.mean) * (value - moments.mean) / (n - 1) / n;
  }
  return moments;
}

std::vector<double> logarithms(std::span<const double> values) {
  std::vector<double> logs;
  for (const double value : values) {
    logs.push_back(std::log(value));
  }
  return logs;
}

Ratio from_logarithms(double mean, double half_width, bool paired) {
  Ratio ratio{.estimate = std::exp(mean), .ci95 = {}, .paired = paired};
  if (std::isfinite(half_width)) {
    ratio.ci95 = Interval{.low = std::exp(mean - half_width), .high = std::exp(mean + half_width)};
  }
  return ratio;
}

void refuse_empty(std::span<const double> a, std::span<const double> b) {
  if (a.empty() || b.empty()) {
    throw std::invalid_argument("a ratio needs a round on each side");
  }
}

}  // namespace

Ratio Ratio::inverse() const {
  Ratio inverse{.estimate = 1 / estimate, .ci95 = {}, .paired = paired};
  if (ci95) {
    inverse.ci95 = Interval{.low = 1 / ci95->high, .high = 1 / ci95->low};
  }
  return inverse;
}

Ratio paired_ratio(std::span<const double> numerator_ns, std::span<const double> denominator_ns) {
  refuse_empty(numerator_ns, denominator_ns);
  std::vector<double> differences;
  for (std::size_t i = 0; i < std::min(numerator_ns.size(), denominator_ns.size()); ++i) {
    differences.push_back(std::log(numerator_ns[i]) - std::log(denominator_ns[i]));
  }
  return from_logarithms(moments_of(differences).mean, half_width_95(differences), true);
}

Ratio independent_ratio(std::span<const double> numerator_ns,
                        std::span<const double> denominator_ns) {
  refuse_empty(numerator_ns, denominator_ns);
  const Moments a = moments_of(logarithms(numerator_ns));
  const Moments b = moments_of(logarithms(denominator_ns));
  const double mean = a.mean - b.mean;
  if (numerator_ns.size() < 2 || denominator_ns.size() < 2) {
    return {.estimate = std::exp(mean), .ci95 = {}, .paired = false};
  }
  const double variance = a.variance_of_mean + b.variance_of_mean;
  if (variance == 0) {  // quantized times may all agree
    return from_logarithms(mean, 0, false);
  }
  // Welch and Satterthwaite; at least the smaller side's, so never below 1.
  const double degrees_of_freedom =
      variance * variance /
      (a.variance_of_mean * a.variance_of_mean / a.degrees_of_freedom +
       b.variance_of_mean * b.variance_of_mean / b.degrees_of_freedom);
  const double t = student_t_975(std::max(1, static_cast<int>(degrees_of_freedom)));
  return from_logarithms(mean, t * std::sqrt(variance), false);
}

}  // namespace mla_bench
