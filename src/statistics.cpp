#include "statistics.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <stdexcept>
#include <vector>

namespace mla_bench {

double median(std::span<const double> values) {
  if (values.empty()) {
    throw std::invalid_argument("median of no values");
  }
  std::vector<double> sorted(values.begin(), values.end());
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  if (sorted.size() % 2 == 1) {
    return *middle;
  }
  return (*std::max_element(sorted.begin(), middle) + *middle) / 2;
}

double median_absolute_deviation(std::span<const double> values) {
  const double center = median(values);
  std::vector<double> deviations;
  deviations.reserve(values.size());
  for (const double value : values) {
    deviations.push_back(std::abs(value - center));
  }
  return median(deviations);
}

double smallest_step(std::span<const double> values, double rounding) {
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  double step = std::numeric_limits<double>::infinity();
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    const double difference = sorted[i] - sorted[i - 1];
    if (difference > rounding) {
      step = std::min(step, difference);
    }
  }
  return std::isfinite(step) ? step : 0;
}

namespace {

// P(|T| <= t), the finite sums for whole degrees of freedom (Abramowitz and Stegun 26.7.3 and
// 26.7.4).
double student_t_within(double t, int degrees_of_freedom) {
  const double n = degrees_of_freedom;
  const double angle = std::atan(t / std::sqrt(n));
  const double squared_cosine = std::cos(angle) * std::cos(angle);
  const bool is_odd = degrees_of_freedom % 2 == 1;
  double term = is_odd ? std::cos(angle) : 1;
  double sum = 0;
  for (int k = is_odd ? 1 : 0; k <= degrees_of_freedom - 2; k += 2) {
    sum += term;
    term *= squared_cosine * (k + 1) / (k + 2);
  }
  const double of_sum = std::sin(angle) * sum;
  return is_odd ? 2 / std::numbers::pi * (angle + of_sum) : of_sum;
}

// The least value from which on `is_enough` holds, to the last digit; it holds at `high`.
template <typename IsEnough>
double least_between(double low, double high, const IsEnough& is_enough) {
  for (double middle = (low + high) / 2; low < middle && middle < high;
       middle = (low + high) / 2) {  // until no double lies between
    (is_enough(middle) ? high : low) = middle;
  }
  return high;
}

}  // namespace

double student_t_quantile(double probability, int degrees_of_freedom) {
  if (degrees_of_freedom < 1 || !(probability > 0.5) || !(probability < 1)) {
    throw std::invalid_argument(
        "Student's t needs a degree of freedom and a probability in (0.5, 1)");
  }
  const double within = 2 * probability - 1;
  double low = 0;
  double high = 1;
  while (student_t_within(high, degrees_of_freedom) < within) {
    low = high;
    high *= 2;
  }
  return least_between(low, high,
                       [&](double t) { return student_t_within(t, degrees_of_freedom) >= within; });
}

double student_t_975(int degrees_of_freedom) {
  // The few that intervals of rounds ask for, since a comparison asks tens of thousands of times.
  static const std::array<double, 32> kFirst = [] {
    std::array<double, 32> quantiles{};
    for (std::size_t i = 1; i < quantiles.size(); ++i) {
      quantiles[i] = student_t_quantile(0.975, static_cast<int>(i));
    }
    return quantiles;
  }();
  const auto place = static_cast<std::size_t>(degrees_of_freedom);
  return degrees_of_freedom > 0 && place < kFirst.size()
             ? kFirst[place]
             : student_t_quantile(0.975, degrees_of_freedom);
}

double normal_quantile(double probability) {
  if (!(probability > 0.5) || !(probability < 1)) {
    throw std::invalid_argument("the normal quantile needs a probability in (0.5, 1)");
  }
  constexpr double kBeyond = 40;  // what is there is less than the smallest double
  return least_between(0, kBeyond, [&](double z) {
    return std::erfc(z / std::numbers::sqrt2) / 2 <= 1 - probability;
  });
}

double half_width_95(std::span<const double> values) {
  if (values.size() < 2) {
    return std::numeric_limits<double>::infinity();
  }
  const double n = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  double squares = 0;
  for (const double value : values) {
    squares += (value - mean) * (value - mean);
  }
  const double deviation = std::sqrt(squares / (n - 1));
  return student_t_975(static_cast<int>(values.size()) - 1) * deviation / std::sqrt(n);
}

}  // namespace mla_bench
