// Google Benchmark's JSON (src/json_reporter.cc of its version 1.7, json_schema_version 1). A file
// that serves compare.py misleads trackers and the other way round, so there are two:
// - compare.py tests rows of the same name as independent repetitions: one row a round, since
//   rounds are independent and samples inside one are not.
// - Trackers take every row for a benchmark of its own, or the last of a name: one row a cell.
// Times are in ns, because compare.py shows whole units only.
#include <cmath>
#include <numeric>

#include "export_formats.hpp"
#include "json.hpp"
#include "statistics.hpp"

namespace mla_bench {
namespace {

// Context values beside the library's own must be strings.
Json context_of(std::span<const ExportedCell> timed, std::span<const ExportedCell> untimed) {
  const RecordedDocument& first =
      timed.empty() ? *untimed.front().recorded : *timed.front().recorded;
  std::string left_out;
  for (const ExportedCell& cell : untimed) {
    left_out += (left_out.empty() ? "" : "; ") + cell.name + ": " +
                std::string(name_of(cell.result->status)) + ": " + cell.result->reason;
  }
  int threads = 1;
  for (const DocumentDevice& known : first.document.devices) {
    threads = known.device.backend == Backend::kCpu ? known.device.threads : threads;
  }
  return {{"date", first.document.started_at},
          {"host_name", ""},  // documents do not tell it
          {"executable", "mla-bench"},
          {"num_cpus", threads},
          {"mhz_per_cpu", 0},  // not known of the machine that measured
          {"caches", Json::array()},
          {"load_avg", Json::array()},
          {"library_version", first.version},
          {"library_build_type", first.build_type == "Debug" ? "debug" : "release"},
          {"json_schema_version", 1},
          {"mla_bench_commit", first.commit + (first.dirty ? "+" : "")},
          {"mla_bench_left_out", left_out}};
}

// What every row of a cell begins with.
Json row_of(const ExportedCell& cell, std::size_t family, std::size_t repetitions) {
  return {{"name", cell.name},     {"family_index", family},  {"per_family_instance_index", 0},
          {"run_name", cell.name}, {"run_type", "iteration"}, {"repetitions", repetitions},
          {"threads", 1}};
}

void put_times(Json& row, std::int64_t iterations, double ns) {
  row["iterations"] = iterations;
  row["real_time"] = ns;
  row["cpu_time"] = ns;  // the GPU's; a tool that compares it must not find another change
  row["time_unit"] = "ns";
}

std::int64_t launches_of(const Round& round) {
  return round.long_launches * static_cast<std::int64_t>(round.samples_ns.size());
}

void add_aggregates(Json& rows, const ExportedCell& cell, std::size_t family,
                    const std::vector<double>& medians_ns) {
  const double n = static_cast<double>(medians_ns.size());
  const double mean = std::accumulate(medians_ns.begin(), medians_ns.end(), 0.0) / n;
  double squares = 0;
  for (const double ns : medians_ns) {
    squares += (ns - mean) * (ns - mean);
  }
  const double deviation = std::sqrt(squares / (n - 1));
  struct Aggregate {
    const char* name;
    const char* unit;
    double value;
  };
  for (const auto& [name, unit, value] :
       {Aggregate{"mean", "time", mean}, Aggregate{"median", "time", median(medians_ns)},
        Aggregate{"stddev", "time", deviation}, Aggregate{"cv", "percentage", deviation / mean}}) {
    Json row = row_of(cell, family, medians_ns.size());
    row["name"] = cell.name + "_" + name;
    row["run_type"] = "aggregate";
    row["aggregate_name"] = name;
    row["aggregate_unit"] = unit;
    put_times(row, static_cast<std::int64_t>(medians_ns.size()), value);
    rows.push_back(std::move(row));
  }
}

std::string text_of(Json context, Json rows) {
  const Json json{{"context", std::move(context)}, {"benchmarks", std::move(rows)}};
  return json.dump(2, ' ', true, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string export_gbench(std::span<const ExportedCell> timed,
                          std::span<const ExportedCell> untimed, bool aggregates) {
  Json rows = Json::array();
  for (std::size_t family = 0; family < timed.size(); ++family) {
    const ExportedCell& cell = timed[family];
    const std::vector<double> medians_ns = round_medians_ns(cell.result->rounds);
    std::size_t repetition = 0;
    for (const Round& round : cell.result->rounds) {
      if (round.samples_ns.empty()) {
        continue;
      }
      Json row = row_of(cell, family, medians_ns.size());
      row["repetition_index"] = repetition;
      put_times(row, launches_of(round), medians_ns[repetition]);
      row["label"] = cell.device_name;
      rows.push_back(std::move(row));
      ++repetition;
    }
    if (aggregates && medians_ns.size() > 1) {
      add_aggregates(rows, cell, family, medians_ns);
    }
  }
  return text_of(context_of(timed, untimed), std::move(rows));
}

std::string export_gbench_ci(std::span<const ExportedCell> timed,
                             std::span<const ExportedCell> untimed) {
  Json rows = Json::array();
  for (std::size_t family = 0; family < timed.size(); ++family) {
    const ExportedCell& cell = timed[family];
    std::int64_t launches = 0;
    for (const Round& round : cell.result->rounds) {
      launches += launches_of(round);
    }
    Json row = row_of(cell, family, 1);
    row["repetition_index"] = 0;
    put_times(row, launches, cell.result->summary->median_ns);
    row["label"] = cell.device_name;
    rows.push_back(std::move(row));
  }
  return text_of(context_of(timed, untimed), std::move(rows));
}

}  // namespace mla_bench
