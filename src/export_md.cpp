// A Markdown table of all cells, for a job summary or an issue.
#include <algorithm>
#include <cmath>

#include "cell_key.hpp"
#include "export_formats.hpp"
#include "text.hpp"
#include "text_table.hpp"

namespace mla_bench {
namespace {

// With what tells devices of one name apart, and how many were measured at the same time.
std::string device_words(const ExportedCell& exported, std::span<const ExportedCell> cells) {
  const Cell& cell = exported.result->cell;
  const bool has_twin = std::any_of(cells.begin(), cells.end(), [&](const ExportedCell& other) {
    return other.device_name == exported.device_name && other.result->cell.device != cell.device;
  });
  const int gpus = gpus_at_once(cell);
  return place_words(exported.device_name, key_of(cell).place) +
         (has_twin ? " (" + short_uuid(cell.device) + ")" : "") +
         (gpus > 1 ? ", " + concurrent_words(gpus) : "");
}

}  // namespace

std::string export_markdown(std::span<const ExportedCell> cells) {
  TextTable table{.columns = {{"variant"},
                              {"device"},
                              {"problem"},
                              {"precision"},
                              {"cache"},
                              {"inputs"},
                              {"median", false},
                              {"+-95 %", false},
                              {"GFLOP/s", false},
                              {"GB/s", false},
                              {"status"}},
                  .rows = {}};
  for (const ExportedCell& exported : cells) {
    const Result& result = *exported.result;
    const Cell& cell = result.cell;
    std::vector<std::string> row{cell.variant,
                                 device_words(exported, cells),
                                 shape_words(cell.problem),
                                 std::string(name_of(cell.precision)),
                                 std::string(name_of(cell.l2)),
                                 input_words(cell.inputs)};
    if (has_exported_time(exported)) {
      const double median_ns = result.summary->median_ns;
      const double half = (result.summary->ci95_high_ns - result.summary->ci95_low_ns) / 2;
      const double bytes = cell.problem.compulsory_elements() *
                           static_cast<double>(size_of(stored_type(cell.precision)));
      row.insert(row.end(), {human_time(median_ns),
                             std::isfinite(half) ? fixed(100 * half / median_ns, 2) + " %" : "",
                             fixed(cell.problem.flops() / median_ns, 1),
                             fixed(bytes / median_ns, 1), "passed"});
    } else {
      row.insert(row.end(), {"", "", "", "",
                             std::string(name_of(result.status)) +
                                 (result.reason.empty() ? "" : ": " + result.reason)});
    }
    table.rows.push_back(std::move(row));
  }
  return markdown(table);
}

}  // namespace mla_bench
