// The forms in which other tools read results, each a function from documents to text.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "document_reader.hpp"

namespace mla_bench {

enum class ExportFormat {
  kGbench,
  kGbenchCi,
  kBmf,
  kGha,
  kHyperfine,
  kCsv,
  kMarkdown,
  kJunit,
};

inline constexpr std::array kExportFormats{ExportFormat::kGbench,    ExportFormat::kGbenchCi,
                                           ExportFormat::kBmf,       ExportFormat::kGha,
                                           ExportFormat::kHyperfine, ExportFormat::kCsv,
                                           ExportFormat::kMarkdown,  ExportFormat::kJunit};

// The value of --to.
std::string_view name_of(ExportFormat format);

// A line for each format, for --help.
std::string export_summaries();

// A cell and where it was found. Valid as long as the documents.
struct ExportedCell {
  const RecordedDocument* recorded;
  const Result* result;
  std::string name;  // export_name()
  std::string device_name;
};

// Whether the cell has a time that other tools may have: its output was right, the time trusted.
bool has_exported_time(const ExportedCell& cell);

// The cells of all documents, in their order.
std::vector<ExportedCell> exported_cells(std::span<const RecordedDocument> documents);

struct ExportSettings {
  bool aggregates = true;  // of gbench: rows for mean, median, stddev and cv
};

// Trackers and compare.py know a cell by its name alone, and have no status for one without a time:
// such cells are left out, and the gbench forms list them in their context. CSV, Markdown and JUnit
// have every cell. Throws UsageError where a form that goes by names would have one twice.
std::string export_text(ExportFormat format, std::span<const RecordedDocument> documents,
                        const ExportSettings& settings);

// Whether the form leaves cells without a time out.
bool leaves_out_untimed(ExportFormat format);

// One file each. They are given cells with a time, or all where leaves_out_untimed() is false.
std::string export_gbench(std::span<const ExportedCell> timed,
                          std::span<const ExportedCell> untimed, bool aggregates);
std::string export_gbench_ci(std::span<const ExportedCell> timed,
                             std::span<const ExportedCell> untimed);
std::string export_bmf(std::span<const ExportedCell> timed);
std::string export_gha(std::span<const ExportedCell> timed);
std::string export_hyperfine(std::span<const ExportedCell> timed);
std::string export_csv(std::span<const ExportedCell> cells);
std::string export_markdown(std::span<const ExportedCell> cells);
std::string export_junit(std::span<const ExportedCell> cells);

}  // namespace mla_bench
