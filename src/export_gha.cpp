// github-action-benchmark's customSmallerIsBetter: [{name, unit, value, range?, extra?}].
#include <cmath>

#include "export_formats.hpp"
#include "json.hpp"
#include "text.hpp"

namespace mla_bench {

std::string export_gha(std::span<const ExportedCell> timed) {
  Json json = Json::array();
  for (const ExportedCell& cell : timed) {
    const Summary& summary = *cell.result->summary;
    const double half = (summary.ci95_high_ns - summary.ci95_low_ns) / 2;
    Json entry{{"name", cell.name}, {"unit", "ns"}, {"value", summary.median_ns}};
    if (std::isfinite(half)) {
      entry["range"] = "+- " + fixed(100 * half / summary.median_ns, 2) + " %";
    }
    entry["extra"] = cell.device_name + "\n" + cell.recorded->document.started_at + "\n" +
                     command_of(cell.result->cell);
    json.push_back(std::move(entry));
  }
  return json.dump(2, ' ', true, Json::error_handler_t::replace) + "\n";
}

}  // namespace mla_bench
