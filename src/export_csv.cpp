// Every cell with every figure, units in the titles, empty where there is none.
#include <array>

#include "cell_columns.hpp"
#include "export_formats.hpp"
#include "statistics.hpp"
#include "text.hpp"

namespace mla_bench {
namespace {

std::string optional_number(const std::optional<double>& value) {
  return value ? shortest(*value) : "";
}

std::optional<double> median_clock_mhz(const Result& result) {
  std::vector<double> clocks;
  for (const Round& round : result.rounds) {
    clocks.insert(clocks.end(), round.clock_mhz.begin(), round.clock_mhz.end());
  }
  return clocks.empty() ? std::nullopt : std::optional(median(clocks));
}

// No time for a wrong output, whatever a document holds; an untrusted one has its status beside it.
std::string of_summary(const ExportedCell& cell, double Summary::*figure) {
  const Result& result = *cell.result;
  const bool has_time = result.status == Status::kPassed || result.status == Status::kUntrusted;
  return has_time && result.summary ? shortest((*result.summary).*figure) : "";
}

std::string per_median(const ExportedCell& cell, double amount) {
  return of_summary(cell, &Summary::median_ns).empty()
             ? ""
             : shortest(amount / cell.result->summary->median_ns);
}

struct Figure {
  const char* title;
  bool is_text;
  std::string (*entry)(const ExportedCell&);
};

// What follows the columns that tell cells apart.
constexpr std::array kFigures{
    Figure{"status", true,
           [](const ExportedCell& cell) { return std::string(name_of(cell.result->status)); }},
    Figure{"reason", true, [](const ExportedCell& cell) { return cell.result->reason; }},
    Figure{"rounds", false,
           [](const ExportedCell& cell) { return std::to_string(cell.result->rounds.size()); }},
    Figure{"median_ns", false,
           [](const ExportedCell& cell) { return of_summary(cell, &Summary::median_ns); }},
    Figure{"ci95_low_ns", false,
           [](const ExportedCell& cell) { return of_summary(cell, &Summary::ci95_low_ns); }},
    Figure{"ci95_high_ns", false,
           [](const ExportedCell& cell) { return of_summary(cell, &Summary::ci95_high_ns); }},
    Figure{"min_ns", false,
           [](const ExportedCell& cell) { return of_summary(cell, &Summary::min_ns); }},
    Figure{"mad_ns", false,
           [](const ExportedCell& cell) { return of_summary(cell, &Summary::mad_ns); }},
    Figure{"gflop_per_s", false,
           [](const ExportedCell& cell) {
             return per_median(cell, cell.result->cell.problem.flops());
           }},
    Figure{"gb_per_s", false,
           [](const ExportedCell& cell) {
             const Cell& what = cell.result->cell;
             return per_median(cell, what.problem.compulsory_elements() *
                                         static_cast<double>(size_of(stored_type(what.precision))));
           }},
    Figure{"roofline_ns", false,
           [](const ExportedCell& cell) {
             return cell.result->roofline ? shortest(cell.result->roofline->ns) : "";
           }},
    Figure{"empty_ns", false,
           [](const ExportedCell& cell) {
             return cell.result->floors ? shortest(cell.result->floors->empty_ns) : "";
           }},
    Figure{"touch_ns", false,
           [](const ExportedCell& cell) {
             return cell.result->floors ? shortest(cell.result->floors->touch_ns) : "";
           }},
    Figure{"api_latency_ns", false,
           [](const ExportedCell& cell) { return optional_number(cell.result->api_latency_ns); }},
    Figure{
        "sm_clock_mhz", false,
        [](const ExportedCell& cell) { return optional_number(median_clock_mhz(*cell.result)); }},
    Figure{"max_error_over_bound", false,
           [](const ExportedCell& cell) {
             return cell.result->check ? shortest(cell.result->check->max_error_over_bound) : "";
           }},
    Figure{"frobenius_error", false,
           [](const ExportedCell& cell) {
             return cell.result->check ? shortest(cell.result->check->frobenius_error) : "";
           }},
    Figure{"command", true, [](const ExportedCell& cell) { return command_of(cell.result->cell); }},
};

}  // namespace

std::string export_csv(std::span<const ExportedCell> cells) {
  TextTable table{.columns = identity_columns(), .rows = {}};
  for (const Figure& figure : kFigures) {
    table.columns.push_back({figure.title, figure.is_text});
  }
  for (const ExportedCell& cell : cells) {
    const RecordedDocument& recorded = *cell.recorded;
    std::vector<std::string> row = identity_entries({.path = recorded.path,
                                                     .started_at = recorded.document.started_at,
                                                     .version = recorded.version,
                                                     .commit = recorded.commit,
                                                     .device_name = cell.device_name},
                                                    key_of(cell.result->cell));
    for (const Figure& figure : kFigures) {
      row.push_back(figure.entry(cell));
    }
    table.rows.push_back(std::move(row));
  }
  return csv(table);
}

}  // namespace mla_bench
