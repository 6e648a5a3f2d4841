#include "export_formats.hpp"

#include <algorithm>
#include <unordered_map>

#include "cell_key.hpp"
#include "errors.hpp"
#include "text.hpp"

namespace mla_bench {
namespace {

struct FormatRow {
  std::string_view name;
  std::string_view summary;
  bool leaves_out_untimed;
};

// In the order of ExportFormat.
constexpr std::array<FormatRow, kExportFormats.size()> kRows{{
    {"gbench", "Google Benchmark's JSON, a row a round, for its compare.py", true},
    {"gbench-ci", "the same with one row a cell, for trackers that read it", true},
    {"bmf", "Bencher Metric Format: latency, cycles, clock, roofline, error", true},
    {"gha", "github-action-benchmark's customSmallerIsBetter", true},
    {"hyperfine", "hyperfine's JSON, a run a round", true},
    {"csv", "every cell with every figure, RFC 4180", false},
    {"md", "a Markdown table", false},
    {"junit", "JUnit XML, a test case a cell", false},
}};

const FormatRow& row_of(ExportFormat format) {
  return kRows[static_cast<std::size_t>(format)];
}

std::string device_name(const RecordedDocument& recorded, const Cell& cell) {
  for (const DocumentDevice& known : recorded.document.devices) {
    if (known.device.backend == cell.backend && known.device.uuid == cell.device) {
      return known.device.name;
    }
  }
  return cell.device;
}

void refuse_same_names(std::span<const ExportedCell> cells, ExportFormat format) {
  std::unordered_map<std::string_view, const ExportedCell*> seen;
  for (const ExportedCell& cell : cells) {
    const auto [found, is_new] = seen.emplace(cell.name, &cell);
    if (!is_new) {
      throw UsageError("'" + printable(found->second->recorded->path) + "' and '" +
                       printable(cell.recorded->path) + "' both have " + cell.name + ", and --to " +
                       std::string(name_of(format)) +
                       " tells cells apart by name: export one document at a time");
    }
  }
}

}  // namespace

std::string_view name_of(ExportFormat format) {
  return row_of(format).name;
}

std::string export_summaries() {
  constexpr std::size_t kWidth = 12;
  std::string text;
  for (const FormatRow& row : kRows) {
    text += "  " + std::string(row.name) + std::string(kWidth - row.name.size(), ' ') +
            std::string(row.summary) + "\n";
  }
  return text;
}

bool has_exported_time(const ExportedCell& cell) {
  return cell.result->status == Status::kPassed && cell.result->summary;
}

std::vector<ExportedCell> exported_cells(std::span<const RecordedDocument> documents) {
  std::vector<ExportedCell> cells;
  for (const RecordedDocument& recorded : documents) {
    for (const Result& result : recorded.document.cells) {
      cells.push_back({.recorded = &recorded,
                       .result = &result,
                       .name = export_name(key_of(result.cell)),
                       .device_name = device_name(recorded, result.cell)});
    }
  }
  return cells;
}

bool leaves_out_untimed(ExportFormat format) {
  return row_of(format).leaves_out_untimed;
}

std::string export_text(ExportFormat format, std::span<const RecordedDocument> documents,
                        const ExportSettings& settings) {
  std::vector<ExportedCell> cells = exported_cells(documents);
  if (leaves_out_untimed(format)) {
    refuse_same_names(cells, format);
  }
  const auto middle = std::stable_partition(cells.begin(), cells.end(), has_exported_time);
  const std::span<const ExportedCell> timed(cells.begin(), middle);
  const std::span<const ExportedCell> untimed(middle, cells.end());
  switch (format) {
    case ExportFormat::kGbench:
      return export_gbench(timed, untimed, settings.aggregates);
    case ExportFormat::kGbenchCi:
      return export_gbench_ci(timed, untimed);
    case ExportFormat::kBmf:
      return export_bmf(timed);
    case ExportFormat::kGha:
      return export_gha(timed);
    case ExportFormat::kHyperfine:
      return export_hyperfine(timed);
    case ExportFormat::kCsv:
      return export_csv(exported_cells(documents));
    case ExportFormat::kMarkdown:
      return export_markdown(exported_cells(documents));
    case ExportFormat::kJunit:
      return export_junit(exported_cells(documents));
  }
  return "";
}

}  // namespace mla_bench
