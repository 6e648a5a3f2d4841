// hyperfine's --export-json: a run there is a round here, and times are in seconds. Figures come
// from the rounds' medians, so that they are those of the `times` beside them.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "export_formats.hpp"
#include "json.hpp"
#include "statistics.hpp"

namespace mla_bench {

std::string export_hyperfine(std::span<const ExportedCell> timed) {
  Json results = Json::array();
  for (const ExportedCell& cell : timed) {
    std::vector<double> times_s;
    for (const double ns : round_medians_ns(cell.result->rounds)) {
      times_s.push_back(ns * 1e-9);
    }
    const double n = static_cast<double>(times_s.size());
    const double mean = std::accumulate(times_s.begin(), times_s.end(), 0.0) / n;
    double squares = 0;
    for (const double time_s : times_s) {
      squares += (time_s - mean) * (time_s - mean);
    }
    results.push_back(
        {{"command", cell.name},
         {"mean", mean},
         {"stddev", times_s.size() > 1 ? Json(std::sqrt(squares / (n - 1))) : Json(nullptr)},
         {"median", median(times_s)},
         {"user", 0.0},  // CPU time of a process, which a launch has none of
         {"system", 0.0},
         {"min", *std::min_element(times_s.begin(), times_s.end())},
         {"max", *std::max_element(times_s.begin(), times_s.end())},
         {"times", times_s},
         {"exit_codes", std::vector<int>(times_s.size(), 0)}});
  }
  const Json json{{"results", std::move(results)}};
  return json.dump(2, ' ', true, Json::error_handler_t::replace) + "\n";
}

}  // namespace mla_bench
