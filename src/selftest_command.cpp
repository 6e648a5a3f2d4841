// mla-bench selftest: the gate on this program against itself, with known work and known faults in
// hidden copies of its cells.
#include <chrono>

#include "commands.hpp"
#include "console.hpp"
#include "document.hpp"
#include "gate_series.hpp"
#include "noise_cache.hpp"
#include "output_file.hpp"
#include "selftest.hpp"

namespace mla_bench {
namespace {

// Keeps the noise of the honest copies; why not, where it does not.
std::string keep_or_why_not(const SelftestResult& result, const SeriesOptions& series) {
  if (const std::string why_not = why_no_noise(result, series); !why_not.empty()) {
    return why_not;
  }
  std::vector<CellNoise> noise;
  for (const HonestNoise& cell : result.noise) {
    noise.push_back({.cell = export_name(cell.key),
                     .device = cell.key.place.device,
                     .deviation = cell.deviation});
  }
  return keep_noise(noise, utc_now()) ? "" : "neither XDG_CACHE_HOME nor HOME can be written to";
}

}  // namespace

int selftest_command(const SelftestOptions& options) {
  constexpr double kAlphaOfSeries = 0.01;
  if (options.output) {
    check_can_be_written(*options.output);  // now, not after the measurements
  }
  const auto started = std::chrono::steady_clock::now();
  CellRun run{.words = options.cells, .copies = {}};
  std::map<int, Planted> plants;
  for (const Planted& planted : options.plants) {
    const int copy = static_cast<int>(plants.size());
    plants.emplace(copy, planted);
    run.copies.push_back(copy);
  }
  // What an earlier selftest kept must not change what this one measures.
  const GateRules rules{.threshold = options.threshold,
                        .alpha = kAlphaOfSeries / looks_of(options.pairs),
                        .is_confirmed = true,
                        .is_paired = true,
                        .compares_build = false};
  Runner runner(options.series, {run}, plants);
  Series series = measure_pairs(runner, kThisProgram, kFirstLook, options.pairs, rules);
  const PlantedParts parts = planted_parts(series.candidate);
  const auto pairs = static_cast<int>(series.baseline.size());
  confirm(runner, series,
          [&] { return measure_pairs(runner, kThisProgram, pairs, options.pairs, rules); });

  SelftestResult result = selftest_of(series.result, plants, parts);
  result.pairs = pairs;
  result.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  result.not_kept = keep_or_why_not(result, options.series);
  print_result_after(
      [&] {
        if (options.output) {
          write_whole_file(*options.output, json_report(result));
        }
      },
      options.json ? json_report(result) : text_report(result));
  if (result.gate.failure) {
    print_note(result.gate.failure->why);
  }
  return static_cast<int>(exit_code(result));
}

}  // namespace mla_bench
