// Estimators that survive outliers, and the interval that rounds give.
#pragma once

#include <span>

namespace mla_bench {

// The middle value, or the mean of the two middle ones. Throws std::invalid_argument when empty.
double median(std::span<const double> values);

// Median of |value - median|, not scaled to a standard deviation.
double median_absolute_deviation(std::span<const double> values);

// The smallest difference between two values that are further apart than `rounding`: a multiple of
// the tick that they are counted in, and with some dozens of them the tick itself. 0 where no two
// are.
double smallest_step(std::span<const double> values, double rounding);

// Student's t quantile: the t with P(T <= t) = probability, for a probability above 0.5 and below
// 1 and that many degrees of freedom (>= 1). Throws std::invalid_argument for others.
double student_t_quantile(double probability, int degrees_of_freedom);

double student_t_975(int degrees_of_freedom);

// Of the standard normal distribution, likewise: the limit of t for many degrees of freedom.
double normal_quantile(double probability);

// Half width of the 95 % confidence interval of the mean of independent values: t * s / sqrt(n).
// Infinite for fewer than two values, since one says nothing of its own spread.
double half_width_95(std::span<const double> values);

}  // namespace mla_bench
