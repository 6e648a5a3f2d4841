// A comparison as text: for terminals, Markdown, spreadsheets and programs.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "compare.hpp"

namespace mla_bench {

// What a cell is told apart by, as --rows and --columns name it.
enum class Axis { kProblem, kPrecision, kL2, kInputs, kConcurrent, kVariant, kDevice, kRun };

inline constexpr std::array kAxes{Axis::kProblem,    Axis::kPrecision, Axis::kL2,     Axis::kInputs,
                                  Axis::kConcurrent, Axis::kVariant,   Axis::kDevice, Axis::kRun};

// Those of the work that a cell does.
inline constexpr std::array kWorkAxes{Axis::kProblem, Axis::kPrecision, Axis::kL2, Axis::kInputs,
                                      Axis::kConcurrent};

std::string_view name_of(Axis axis);

enum class CompareFormat { kText, kMarkdown, kCsv, kJson };

inline constexpr std::array kCompareFormats{CompareFormat::kText, CompareFormat::kMarkdown,
                                            CompareFormat::kCsv, CompareFormat::kJson};

std::string_view name_of(CompareFormat format);

// Which axes go down and which across; an axis of neither makes a table for each of its values.
// Axes on which all cells agree are told once, above.
struct Layout {
  std::vector<Axis> rows;     // empty: those that `columns` leaves, or kWorkAxes
  std::vector<Axis> columns;  // empty: those that `rows` leaves
};

// CSV and JSON hold every cell with every digit and have no layout.
std::string render(const DocumentComparison& comparison, const Layout& layout,
                   CompareFormat format);

// "cooperative is 1.376x [1.372, 1.380] faster than tiled", with the device and the run where they
// are needed.
std::string words_of(const Finding& finding, const DocumentComparison& comparison);

}  // namespace mla_bench
