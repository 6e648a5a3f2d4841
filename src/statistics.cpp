#include "statistics.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
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

double student_t_975(int degrees_of_freedom) {
  // Exact to four digits up to 30 (any table); beyond, the Cornish-Fisher expansion around the
  // normal quantile (Abramowitz and Stegun 26.7.5), whose error there is below 1e-5.
  static constexpr std::array kTable{
      12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281,
      2.2010,  2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860,
      2.0796,  2.0739, 2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423};
  if (degrees_of_freedom < 1) {
    throw std::invalid_argument("Student's t needs a degree of freedom");
  }
  if (degrees_of_freedom <= static_cast<int>(kTable.size())) {
    return kTable[static_cast<std::size_t>(degrees_of_freedom - 1)];
  }
  const double z = 1.959963985;
  const double n = degrees_of_freedom;
  const double z3 = z * z * z;
  const double z5 = z3 * z * z;
  const double z7 = z5 * z * z;
  return z + (z3 + z) / (4 * n) + (5 * z5 + 16 * z3 + 3 * z) / (96 * n * n) +
         (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / (384 * n * n * n);
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
