#include "gate_evidence.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <stdexcept>

#include "input_contents.hpp"
#include "judge.hpp"
#include "measure.hpp"
#include "statistics.hpp"
#include "text.hpp"

namespace mla_bench {
namespace {

template <typename Value>
std::string text_of(const std::optional<Value>& value) {
  if constexpr (std::is_same_v<Value, bool>) {
    return value ? (*value ? "on" : "off") : "";
  } else {
    return value ? shortest(static_cast<double>(*value)) : "";
  }
}

Facts device_facts(const Document& document, const DocumentDevice& entry) {
  const Device& device = entry.device;
  Facts facts{{"device", device.name}};
  if (device.backend == Backend::kCpu) {
    return facts;
  }
  const GpuSetup setup = entry.setup.value_or(GpuSetup{});
  facts.insert(facts.end(), {{"UUID", device.uuid},
                             {"driver", setup.driver},
                             {"CUDA runtime", document.cuda_runtime},
                             {"highest SM clock in MHz", text_of(setup.max_sm_clock_mhz)},
                             {"highest memory clock in MHz", text_of(setup.max_memory_clock_mhz)},
                             {"power limit in W", text_of(setup.power_limit_w)},
                             {"ECC", text_of(setup.ecc)},
                             {"MIG", text_of(setup.mig)}});
  return facts;
}

Facts build_facts_of(const RecordedDocument& recorded, Backend backend) {
  Facts facts{{"build type", recorded.build_type},
              {"flags", recorded.flags},
              {"compiler", recorded.compiler}};
  if (backend == Backend::kCuda) {
    facts.emplace_back("CUDA compiler", recorded.cuda_compiler);
  }
  return facts;
}

bool is_unfit(const GpuState& state) {
  return state.throttle.protects() || state.other_processes.value_or(0) > 0;
}

ProcessFinding finding_of(const Result& result, std::span<const Round> rounds) {
  ProcessFinding finding{.status = result.status,
                         .reason = result.reason,
                         .rounds = static_cast<std::int64_t>(rounds.size())};
  std::vector<double> samples;
  std::vector<double> clocks;
  std::vector<double> anchor_logs;
  for (const Round& round : rounds) {
    if (round.anchors) {
      anchor_logs.push_back((std::log(round.anchors->copy_ns) + std::log(round.anchors->fma_ns)) /
                            2);
    }
    if (const std::optional<double> mhz = usual_clock_mhz(round.clock_mhz)) {
      clocks.push_back(*mhz);
    }
    samples.insert(samples.end(), round.samples_ns.begin(), round.samples_ns.end());
    finding.unfit = finding.unfit || (round.before && is_unfit(*round.before)) ||
                    (round.after && is_unfit(*round.after));
  }
  if (!anchor_logs.empty()) {
    finding.anchors_ns = std::exp(std::accumulate(anchor_logs.begin(), anchor_logs.end(), 0.0) /
                                  static_cast<double>(anchor_logs.size()));
  }
  finding.is_witnessed =
      (result.referee && (result.referee->missing.empty() || result.referee->counts)) ||
      (result.cold_proof && result.cold_proof->more_sets > 0);
  finding.is_doubted = result.status == Status::kUntrusted && !doubts_beside_times(result).empty();
  if (!clocks.empty()) {
    finding.clock_mhz =
        std::accumulate(clocks.begin(), clocks.end(), 0.0) / static_cast<double>(clocks.size());
  }
  if (finding.status == Status::kPassed && samples.empty()) {
    finding.status = Status::kUntrusted;
    finding.reason = "it has no samples";
  } else if (finding.status == Status::kPassed) {
    finding.ns = median(samples);
  }
  if (finding.status == Status::kPassed && !(finding.ns > 0)) {
    finding.status = Status::kUntrusted;
    finding.reason = "the median of a process is not above 0";
  }
  for (const std::optional<Check>* check : {&result.check, &result.recheck}) {
    if (*check) {
      finding.error_over_bound =
          std::max(finding.error_over_bound.value_or(0), (*check)->max_error_over_bound);
      finding.frobenius_error =
          std::max(finding.frobenius_error.value_or(0), (*check)->frobenius_error);
    }
  }
  return finding;
}

// A result's rounds, those of one process together.
std::vector<std::vector<Round>> rounds_by_process(const Result& result) {
  std::map<std::int64_t, std::vector<Round>> processes;
  for (const Round& round : result.rounds) {
    processes[round.process].push_back(round);
  }
  std::vector<std::vector<Round>> lists;
  for (auto& [number, rounds] : processes) {
    lists.push_back(std::move(rounds));
  }
  return lists.empty() ? std::vector<std::vector<Round>>(1) : lists;
}

}  // namespace

std::string differences(const Facts& then, const Facts& now) {
  std::vector<std::string> found;
  for (std::size_t i = 0; i < std::min(then.size(), now.size()); ++i) {
    if (then[i] != now[i]) {
      const auto shown = [](const std::string& value) {
        return value.empty() ? std::string("unknown") : printable(value);
      };
      found.push_back(now[i].first + " " + shown(now[i].second) + " instead of " +
                      shown(then[i].second));
    }
  }
  return join(found, ", ");
}

std::vector<CellEvidence> evidence_of(std::span<const RecordedDocument> documents) {
  std::vector<CellEvidence> cells;
  std::map<std::string, std::size_t> places;
  std::size_t processes_before = 0;
  const InputContents contents(documents);
  for (const RecordedDocument& recorded : documents) {
    const Document& document = recorded.document;
    std::size_t most = processes_before + 1;  // a document without the cell is a process too
    for (const Result& result : document.cells) {
      const CellKey key = contents.key_of(result.cell);
      const auto device = std::find_if(document.devices.begin(), document.devices.end(),
                                       [&](const DocumentDevice& entry) {
                                         return entry.device.backend == key.place.backend &&
                                                entry.device.uuid == key.place.device;
                                       });
      if (device == document.devices.end()) {
        throw std::invalid_argument("a cell without its device");  // the reader refuses these
      }
      Facts facts = device_facts(document, *device);
      facts.emplace_back("GPUs at the same time", join(result.cell.concurrent_with, " "));
      const Facts build = build_facts_of(recorded, key.place.backend);
      const auto [place, is_new] = places.emplace(id_of(key), cells.size());
      if (is_new) {
        cells.push_back({.key = key,
                         .device_name = device->device.name,
                         .device = facts,
                         .build = build,
                         .processes = {},
                         .concurrent_with = result.cell.concurrent_with,
                         .conflict = ""});
      }
      CellEvidence& cell = cells[place->second];
      if (cell.conflict.empty()) {
        cell.conflict = differences(cell.device, facts);
      }
      if (cell.conflict.empty()) {
        cell.conflict = differences(cell.build, build);
      }
      for (const Round& round : result.rounds) {
        if (round.anchors && cell.anchors.empty()) {
          cell.anchors = round.anchors->source;
        } else if (round.anchors && cell.anchors != round.anchors->source &&
                   cell.conflict.empty()) {
          cell.conflict =
              "anchors " + printable(round.anchors->source) + " instead of " + cell.anchors;
        }
      }
      cell.processes.resize(processes_before, {.reason = "a document does not hold it"});
      for (const std::vector<Round>& rounds : rounds_by_process(result)) {
        cell.processes.push_back(finding_of(result, rounds));
      }
      most = std::max(most, cell.processes.size());
    }
    processes_before = most;
  }
  for (CellEvidence& cell : cells) {
    cell.processes.resize(processes_before, {.reason = "a document does not hold it"});
  }
  return cells;
}

Document merge_runs(std::span<const RecordedDocument> runs) {
  if (runs.empty()) {
    throw std::invalid_argument("no runs to merge");
  }
  Document merged = runs.front().document;
  merged.cells.clear();
  merged.merged_from.clear();
  std::map<std::string, std::size_t> places;
  std::int64_t process = 0;
  for (const RecordedDocument& run : runs) {
    for (const Result& result : run.document.cells) {
      const auto [place, is_new] = places.emplace(id_of(key_of(result.cell)), merged.cells.size());
      if (is_new) {
        merged.cells.emplace_back();
      }
      Result& into = merged.cells[place->second];
      const bool has_passed = !is_new && into.status == Status::kPassed;
      const bool passes = result.status == Status::kPassed;
      if (is_new || (passes && !has_passed)) {
        into = result;
        into.rounds.clear();
      }
      if (passes || !has_passed) {
        for (Round round : result.rounds) {
          round.process = process;
          into.rounds.push_back(std::move(round));
        }
      }
    }
    const std::vector<std::string> starts = starts_of(run.document);
    merged.merged_from.insert(merged.merged_from.end(), starts.begin(), starts.end());
    merged.finished_at = run.document.finished_at;
    ++process;
  }
  for (Result& result : merged.cells) {
    if (result.summary) {
      result.summary = summarize(result.rounds);
    }
  }
  return merged;
}

}  // namespace mla_bench
