// Bencher Metric Format (bencher.dev): {name: {measure: {value, lower_value, upper_value}}}.
#include <cmath>

#include "export_formats.hpp"
#include "json.hpp"
#include "statistics.hpp"

namespace mla_bench {
namespace {

// Of all samples whose clock is known; empty on a CPU.
struct Clocks {
  std::vector<double> mhz;
  std::vector<double> cycles;
};

Clocks clocks_of(const Result& result) {
  Clocks clocks;
  for (const Round& round : result.rounds) {
    for (std::size_t i = 0; i < std::min(round.clock_mhz.size(), round.samples_ns.size()); ++i) {
      clocks.mhz.push_back(round.clock_mhz[i]);
      clocks.cycles.push_back(round.samples_ns[i] * round.clock_mhz[i] / 1000);
    }
  }
  return clocks;
}

}  // namespace

std::string export_bmf(std::span<const ExportedCell> timed) {
  Json json = Json::object();
  for (const ExportedCell& cell : timed) {
    const Result& result = *cell.result;
    const Summary& summary = *result.summary;
    Json latency{{"value", summary.median_ns}};
    if (std::isfinite(summary.ci95_low_ns) && std::isfinite(summary.ci95_high_ns)) {
      latency["lower_value"] = summary.ci95_low_ns;
      latency["upper_value"] = summary.ci95_high_ns;
    }
    Json measures{{"latency", std::move(latency)}};
    const Clocks clocks = clocks_of(result);
    if (!clocks.mhz.empty()) {
      measures["cycles"] = {{"value", median(clocks.cycles)}};
      measures["sm-clock"] = {{"value", median(clocks.mhz)}};
    }
    if (result.roofline) {
      measures["pct-of-roofline"] = {{"value", 100 * result.roofline->ns / summary.median_ns}};
    }
    if (result.check && std::isfinite(result.check->frobenius_error)) {
      measures["relative-error"] = {{"value", result.check->frobenius_error}};
    }
    json[cell.name] = std::move(measures);
  }
  return json.dump(2, ' ', true, Json::error_handler_t::replace) + "\n";
}

}  // namespace mla_bench
