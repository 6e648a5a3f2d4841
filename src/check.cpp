#include "check.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <stdexcept>
#include <vector>

#include "compare_element.hpp"

namespace mla_bench {
namespace {

// For a message: enough digits to tell two floats apart, or only the size of an error.
std::string number(double value, bool is_size = false) {
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), is_size ? "%.2g" : "%.9g", value);
  return text.data();
}

std::string described(const WorstElement& element) {
  return std::string(element.is_v ? "v" : "k") + "[b=" + std::to_string(element.batch) +
         ",s=" + std::to_string(element.seq) + ",h=" + std::to_string(element.head) +
         ",d=" + std::to_string(element.dim) + "]: got " + number(element.actual) + ", expected " +
         number(element.expected) + " +- " + number(element.bound, true);
}

// Element `index` of kv by its place.
WorstElement located(std::int64_t index, const Problem& problem) {
  const std::int64_t column = index % problem.columns();
  const std::int64_t row = index / problem.columns();
  const std::int64_t row_of_half = row % problem.rows();
  return {.is_v = row >= problem.rows(),
          .batch = row_of_half / problem.seq,
          .seq = row_of_half % problem.seq,
          .head = column / problem.head_dim,
          .dim = column % problem.head_dim};
}

WorstElement worst_of(const Comparison& comparison, const Problem& problem) {
  WorstElement worst = located(comparison.worst_index, problem);
  worst.actual = comparison.worst_actual;
  worst.expected = comparison.worst_expected;
  worst.bound = comparison.worst_bound;
  return worst;
}

// The Frobenius error that a correct kernel stays below on these inputs, over that many elements.
std::optional<double> frobenius_limit(std::int64_t elements, const CheckContext& context) {
  Problem compared = context.inputs.problem;
  compared.batch = 1;
  compared.seq = elements / (2 * compared.columns());
  const std::optional<double> expected =
      expected_frobenius_error(compared, context.precision, context.unit);
  // Of a file's data nothing is known: their sums may cancel far more than random ones do.
  if (!expected || !context.inputs.distribution) {
    return std::nullopt;
  }
  return kFrobeniusAllowance * *expected;
}

// The element that is too far off for generated data, though within the bound of any; nothing where
// none is, or the statistics do not hold.
std::optional<WorstElement> outlier_of(const Comparison& comparison,
                                       const std::optional<double>& frobenius_error_limit,
                                       const CheckContext& context) {
  if (!frobenius_error_limit || context.demand_exact || comparison.outlier_index < 0) {
    return std::nullopt;
  }
  const auto count = static_cast<double>(comparison.elements);
  const double limit =
      outlier_limit(*frobenius_error_limit, std::sqrt(comparison.squared_reference / count),
                    comparison.sum_of_magnitudes / count);
  if (comparison.outlier_error <= limit) {
    return std::nullopt;
  }
  WorstElement outlier = located(comparison.outlier_index, context.inputs.problem);
  outlier.actual = comparison.outlier_actual;
  outlier.expected = comparison.outlier_expected;
  const double error = std::abs(outlier.actual - outlier.expected);
  outlier.bound = error * limit / comparison.outlier_error;
  return outlier;
}

std::string verdict(const Check& check, const Comparison& comparison, const CheckContext& context) {
  const std::string of_all = " of " + std::to_string(check.elements) + " elements ";
  if (check.elements == 0) {
    return "no element was compared";
  }
  if (comparison.unwritten_elements > 0) {
    return std::to_string(comparison.unwritten_elements) + of_all +
           "were never written (they hold the poison), such as " + described(*check.worst);
  }
  if (check.wrong_elements > 0) {
    return std::to_string(check.wrong_elements) + of_all + "beyond their bound, worst " +
           described(*check.worst);
  }
  if (check.frobenius_error_limit && !(check.frobenius_error <= *check.frobenius_error_limit)) {
    return "relative error " + number(check.frobenius_error, true) +
           " of the elements taken together; a correct " + std::string(name_of(context.precision)) +
           " kernel stays below " + number(*check.frobenius_error_limit, true) +
           ": are operands or sums held in a lower precision?";
  }
  if (const std::optional<WorstElement> outlier =
          outlier_of(comparison, check.frobenius_error_limit, context)) {
    return "an element is further off than the rounding errors of a correct " +
           std::string(name_of(context.precision)) +
           " kernel can add up to on these inputs: " + described(*outlier);
  }
  if (context.demand_exact && comparison.inexact_elements > 0) {
    return std::to_string(comparison.inexact_elements) + of_all +
           "differ from the exact answer, though no sum of these inputs needs rounding" +
           (check.worst ? ", such as " + described(*check.worst) : "");
  }
  return "";
}

// ---- element by element -------------------------------------------------------------------------

// Every element of the reference's rows. Rows are merged in order, so that the sums' bits do not
// depend on the threads.
template <typename T>
Comparison compare_rows(const T* kv, const Reference& reference, const Problem& problem,
                        const ErrorBound& bound) {
  const ElementRule rule = element_rule(bound);
  const std::int64_t columns = problem.columns();
  const auto count = 2 * static_cast<std::int64_t>(reference.rows.size());
  std::vector<Comparison> rows(static_cast<std::size_t>(count));
#pragma omp parallel for schedule(static)
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t half = i % 2;
    const std::int64_t first = (half * problem.rows() + reference.rows[i / 2]) * columns;
    for (std::int64_t column = 0; column < columns; ++column) {
      const std::int64_t from = i * columns + column;
      const Expected expected{reference.value[from], reference.magnitude[from],
                              bound.absolute[half * columns + column]};
      const std::int64_t index = first + column;
      rows[i] = merge(rows[i], compare_element(index, kv[index], expected, rule));
    }
  }
  Comparison all;
  for (const Comparison& row : rows) {
    all = merge(all, row);
  }
  return all;
}

// ---- row by row ---------------------------------------------------------------------------------

// Largest norm of a row of k or v among the reference's.
double largest_row_norm(const Reference& reference, std::int64_t columns) {
  double largest = 0;
  for (auto row = reference.value.begin(); row != reference.value.end(); row += columns) {
    double sum = 0;
    for (std::int64_t i = 0; i < columns; ++i) {
      sum += row[i] * row[i];
    }
    largest = std::max(largest, std::sqrt(sum));
  }
  return largest;
}

// How far a row's projection may be off whatever its magnitude. Random signs make a row's errors a
// random walk whose length is their norm: on generated data, whose rows are alike, the Frobenius
// limit times the norm of a row. The sum of the row's bounds, which holds for any data, is far
// larger.
double walk_limit(const Reference& reference, const CheckContext& context) {
  // Standard deviations that no row passes: exp(-8^2 / 2) is 1e-14 a row (Hoeffding's inequality).
  constexpr double kDeviations = 8;
  if (context.demand_exact && context.inputs.type == StoredType::kF32) {
    return 0;  // small integers: the projection is exact too
  }
  const std::optional<double> relative =
      frobenius_limit(static_cast<std::int64_t>(reference.value.size()), context);
  return relative ? kDeviations * *relative *
                        largest_row_norm(reference, context.inputs.problem.columns())
                  : std::numeric_limits<double>::infinity();
}

struct ProjectedRow {
  double actual = 0;
  double expected = 0;
  double limit = 0;
  bool passes = false;
};

// A row of k or v times its signs, against the projection of the answer.
template <typename T>
ProjectedRow projected_row(const T* stored, std::span<const double> signs, double expected,
                           double magnitude, double limit, double largest_finite) {
  constexpr std::size_t kSums = 4;  // hide the addition's latency
  std::array<double, kSums> sums{};
  for (std::size_t column = 0; column < signs.size(); ++column) {
    sums[column % kSums] += signs[column] * to_float(stored[column]);
  }
  const double actual = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  const bool is_finite_pair = is_finite(expected) && is_finite(actual);
  const bool may_overflow = !(magnitude <= largest_finite);
  const bool passes = is_finite_pair ? absolute_value(actual - expected) <= limit
                                     : !is_finite(actual) && may_overflow;
  return {actual, expected, limit, passes};
}

// Every row of k, then of v.
template <typename T>
std::vector<ProjectedRow> projected_rows(const T* kv, const Projection& projection,
                                         const Reference& reference, const ErrorBound& bound,
                                         const CheckContext& context) {
  const Problem& problem = context.inputs.problem;
  const auto columns = static_cast<std::size_t>(problem.columns());
  const double walk = walk_limit(reference, context);
  // |value| <= magnitude, of each element and so of their sums.
  const double relative = bound.relative_to_magnitude + bound.relative_to_value;
  const std::span<const double> signs(projection.signs);
  const std::span<const double> absolute(bound.absolute);
  std::array<double, 2> absolute_sums{};
  for (std::size_t i = 0; i < absolute.size(); ++i) {
    absolute_sums[i / columns] += absolute[i];
  }

  std::vector<ProjectedRow> rows(static_cast<std::size_t>(2 * problem.rows()));
#pragma omp parallel for schedule(static)
  for (std::int64_t i = 0; i < 2 * problem.rows(); ++i) {
    const auto half = static_cast<std::size_t>(i / problem.rows());
    const std::int64_t at = 2 * (i % problem.rows()) + i / problem.rows();
    const double magnitude = projection.magnitude[at];
    const double limit = std::min(walk, relative * magnitude + absolute_sums[half]);
    rows[i] = projected_row(kv + i * problem.columns(), signs.subspan(half * columns, columns),
                            projection.value[at], magnitude, limit, bound.largest_finite);
  }
  return rows;
}

// How many rows are off and the first of them, in words; empty where none is.
std::string projection_fault(const std::vector<ProjectedRow>& rows, const Problem& problem) {
  const auto is_wrong = [](const ProjectedRow& row) { return !row.passes; };
  const auto first = std::find_if(rows.begin(), rows.end(), is_wrong);
  if (first == rows.end()) {
    return "";
  }
  const std::int64_t index = first - rows.begin();
  const std::int64_t row = index % problem.rows();
  return std::to_string(std::count_if(first, rows.end(), is_wrong)) + " of " +
         std::to_string(rows.size()) + " rows differ in a random projection, first " +
         (index >= problem.rows() ? "v" : "k") + "[b=" + std::to_string(row / problem.seq) +
         ",s=" + std::to_string(row % problem.seq) + "]: got " + number(first->actual) +
         ", expected " + number(first->expected) + " +- " + number(first->limit, true);
}

template <typename T>
Check checked(std::span<const std::byte> bytes, const Reference& reference,
              const Projection* projection, const CheckContext& context) {
  const Problem& problem = context.inputs.problem;
  if (bytes.size() != static_cast<std::size_t>(problem.kv_count()) * sizeof(T)) {
    throw std::invalid_argument("the output to check has " + std::to_string(bytes.size()) +
                                " bytes, not the problem's");
  }
  const T* const kv = reinterpret_cast<const T*>(bytes.data());
  const ErrorBound bound = error_bound(context.inputs, context.precision, context.unit);
  const Comparison comparison = compare_rows(kv, reference, problem, bound);
  Check check = conclude(
      comparison, projection == nullptr ? CheckMethod::kFull : CheckMethod::kProjection, context);
  if (projection != nullptr) {
    check.projected_rows = problem.rows();
    if (check.passed) {
      check.reason =
          projection_fault(projected_rows(kv, *projection, reference, bound, context), problem);
      check.passed = check.reason.empty();
    }
  }
  return check;
}

}  // namespace

std::string_view name_of(CheckMethod method) {
  switch (method) {
    case CheckMethod::kFull:
      return "full";
    case CheckMethod::kDevice:
      return "device";
    case CheckMethod::kProjection:
      return "projection";
  }
  return "?";
}

Check conclude(const Comparison& comparison, CheckMethod method, const CheckContext& context) {
  Check check;
  check.method = method;
  check.elements = comparison.elements;
  check.wrong_elements = comparison.wrong_elements;
  check.max_error_over_bound = comparison.max_error_over_bound;
  check.bit_exact = comparison.elements > 0 && comparison.inexact_elements == 0;
  if (comparison.worst_index >= 0) {
    check.worst = worst_of(comparison, context.inputs.problem);
  }
  // Without a reference other than zero there is no relative error; the bounds alone decide.
  if (comparison.squared_reference > 0) {
    check.frobenius_error = std::sqrt(comparison.squared_error / comparison.squared_reference);
    check.frobenius_error_limit = frobenius_limit(comparison.elements, context);
  }
  check.reason = verdict(check, comparison, context);
  check.passed = check.reason.empty();
  return check;
}

Check check_output(std::span<const std::byte> kv, const Reference& reference,
                   const Projection* projection, const CheckContext& context) {
  switch (context.inputs.type) {
    case StoredType::kBf16:
      return checked<Bf16>(kv, reference, projection, context);
    case StoredType::kF16:
      return checked<F16>(kv, reference, projection, context);
    default:
      return checked<float>(kv, reference, projection, context);
  }
}

}  // namespace mla_bench
