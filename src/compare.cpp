#include "compare.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "errors.hpp"
#include "input_contents.hpp"
#include "text.hpp"

namespace mla_bench {
namespace {

constexpr std::size_t kShortCommit = 10;

using Indices = std::vector<std::size_t>;

std::string date_and_commit(const ComparedRun& run) {
  // "2026-11-29T16:03:00Z"
  return run.started_at.substr(0, 10) + " " + run.started_at.substr(11, 8) +
         (run.commit.empty() ? "" : " " + run.commit.substr(0, kShortCommit)) +
         (run.dirty ? "+" : "");
}

std::vector<ComparedRun> runs_of(std::span<const RecordedDocument> documents) {
  std::vector<ComparedRun> runs;
  std::map<std::string, int> uses;
  for (const RecordedDocument& recorded : documents) {
    runs.push_back({.path = recorded.path,
                    .started_at = recorded.document.started_at,
                    .version = recorded.version,
                    .commit = recorded.commit,
                    .dirty = recorded.dirty,
                    .label = {}});
    runs.back().label = date_and_commit(runs.back());
    ++uses[runs.back().label];
  }
  for (ComparedRun& run : runs) {
    run.label = uses[run.label] > 1 ? run.path : run.label;
  }
  return runs;
}

const Device* device_of(const Document& document, const Place& place) {
  for (const DocumentDevice& known : document.devices) {
    if (known.device.backend == place.backend && known.device.uuid == place.device) {
      return &known.device;
    }
  }
  return nullptr;
}

// The places of all cells, each once, with labels that differ.
std::vector<ComparedDevice> devices_of(std::span<const RecordedDocument> documents) {
  std::vector<ComparedDevice> devices;
  std::unordered_set<std::string> seen;
  std::map<std::string, int> uses;
  for (const RecordedDocument& recorded : documents) {
    for (const Result& result : recorded.document.cells) {
      const Place place = key_of(result.cell).place;
      if (!seen.insert(id_of(place)).second) {
        continue;
      }
      const Device* device = device_of(recorded.document, place);
      const std::string label = place_words(device != nullptr ? device->name : place.device, place);
      ++uses[label];
      devices.push_back({.place = place, .label = label});
    }
  }
  for (ComparedDevice& device : devices) {
    if (uses[device.label] > 1) {
      device.label += " (" + short_uuid(device.place.device) + ")";
    }
  }
  return devices;
}

std::vector<ComparedCell> cells_of(std::span<const RecordedDocument> documents,
                                   const std::vector<ComparedDevice>& devices) {
  std::unordered_map<std::string, std::size_t> device_indices;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    device_indices[id_of(devices[i].place)] = i;
  }
  const InputContents contents(documents);
  std::vector<ComparedCell> cells;
  for (std::size_t run = 0; run < documents.size(); ++run) {
    for (const Result& result : documents[run].document.cells) {
      ComparedCell cell{.run = run,
                        .key = contents.key_of(result.cell),
                        .id = result.cell.id(),
                        .status = result.status,
                        .reason = result.reason};
      cell.device = device_indices.at(id_of(cell.key.place));
      if (result.status == Status::kPassed) {
        cell.summary = result.summary;
        cell.round_medians_ns = round_medians_ns(result.rounds);
        cell.round_turns = round_turns(result.rounds);
      }
      cells.push_back(std::move(cell));
    }
  }
  return cells;
}

// Cells with a time, by what they have in common.
struct Lookup {
  std::vector<Indices> by_work;  // in order of appearance
  std::unordered_map<std::string, Indices> by_variant_and_work;

  static std::string key(const std::string& variant, const Work& work) {
    return variant + "/" + id_of(work);
  }
};

Lookup lookup_of(const std::vector<ComparedCell>& cells) {
  Lookup lookup;
  std::unordered_map<std::string, std::size_t> works;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const ComparedCell& cell = cells[i];
    if (!cell.summary) {
      continue;
    }
    const auto [found, is_new] = works.emplace(id_of(cell.key.work), lookup.by_work.size());
    if (is_new) {
      lookup.by_work.emplace_back();
    }
    lookup.by_work[found->second].push_back(i);
    lookup.by_variant_and_work[Lookup::key(cell.key.variant, cell.key.work)].push_back(i);
  }
  return lookup;
}

// The time of `numerator` over that of `denominator`. In a document of several processes either may
// lack one that the other has.
Ratio ratio_of(const ComparedCell& numerator, const ComparedCell& denominator) {
  std::vector<double> over;
  std::vector<double> under;
  if (numerator.run == denominator.run && numerator.key.place == denominator.key.place) {
    std::map<std::pair<std::int64_t, std::int64_t>, double> beside;
    for (std::size_t i = 0; i < denominator.round_turns.size(); ++i) {
      beside.emplace(denominator.round_turns[i], denominator.round_medians_ns[i]);
    }
    for (std::size_t i = 0; i < numerator.round_turns.size(); ++i) {
      if (const auto found = beside.find(numerator.round_turns[i]); found != beside.end()) {
        over.push_back(numerator.round_medians_ns[i]);
        under.push_back(found->second);
      }
    }
  }
  return over.empty() ? independent_ratio(numerator.round_medians_ns, denominator.round_medians_ns)
                      : paired_ratio(over, under);
}

Finding finding_of(const std::vector<ComparedCell>& cells, std::size_t a, std::size_t b) {
  const Ratio ratio = ratio_of(cells[b], cells[a]);
  return ratio.estimate >= 1 ? Finding{.faster = a, .slower = b, .ratio = ratio}
                             : Finding{.faster = b, .slower = a, .ratio = ratio.inverse()};
}

// What the user may name as reference, and what it then is.
SpeedReference named_reference(const std::string& name, const DocumentComparison& comparison,
                               std::span<const RecordedDocument> documents) {
  std::vector<std::string> valid;
  for (const ComparedRun& run : comparison.runs) {
    if (run.path == name) {
      return {.kind = SpeedReference::Kind::kRun, .name = name};
    }
  }
  for (const ComparedCell& cell : comparison.cells) {
    if (cell.key.variant == name) {
      return {.kind = SpeedReference::Kind::kVariant, .name = name};
    }
    if (std::find(valid.begin(), valid.end(), cell.key.variant) == valid.end()) {
      valid.push_back(cell.key.variant);
    }
  }
  std::vector<const ComparedDevice*> named;
  std::vector<std::string> exact;
  for (const ComparedDevice& device : comparison.devices) {
    std::vector<std::string> names{device.label, device.place.device};
    for (const RecordedDocument& recorded : documents) {
      if (const Device* found = device_of(recorded.document, device.place)) {
        names.push_back(found->name);
      }
    }
    if (std::find(names.begin(), names.end(), name) != names.end()) {
      named.push_back(&device);
      exact.push_back(device.place.backend == Backend::kCpu ? device.label : device.place.device);
    }
    for (const std::string& known : names) {
      if (std::find(valid.begin(), valid.end(), known) == valid.end()) {
        valid.push_back(known);
      }
    }
  }
  if (named.size() == 1) {
    return {.kind = SpeedReference::Kind::kDevice,
            .name = named.front()->place.device,
            .place = named.front()->place};
  }
  if (named.size() > 1) {
    throw UsageError("--reference '" + printable(name) + "' is the name of " +
                     std::to_string(named.size()) + " devices: give one of '" +
                     printable(join(exact, "', '")) + "'");
  }
  for (const ComparedRun& run : comparison.runs) {
    valid.push_back(run.path);
  }
  throw UsageError("--reference: " + unknown_name("variant, device or file", name, valid));
}

SpeedReference default_reference(const DocumentComparison& comparison, const Lookup& lookup) {
  const std::vector<ComparedCell>& cells = comparison.cells;
  const bool first_run_has_rivals = std::any_of(
      lookup.by_variant_and_work.begin(), lookup.by_variant_and_work.end(), [&](const auto& same) {
        const Indices& members = same.second;
        return cells[members.front()].run == 0 && cells[members.back()].run != 0;
      });
  if (first_run_has_rivals) {
    return {.kind = SpeedReference::Kind::kRun, .name = comparison.runs.front().path};
  }
  const ComparedCell* first = nullptr;
  for (const ComparedCell& cell : cells) {
    first = first == nullptr && cell.summary ? &cell : first;
    if (first != nullptr && cell.summary && cell.key.variant != first->key.variant) {
      return {.kind = SpeedReference::Kind::kVariant, .name = first->key.variant};
    }
  }
  const Place& place = (first != nullptr ? *first : cells.front()).key.place;
  return {.kind = SpeedReference::Kind::kDevice, .name = place.device, .place = place};
}

// The cell that `cell` is told against, if it has a time: in the same document if that has it, else
// in the first that does.
std::optional<std::size_t> reference_of(const ComparedCell& cell,
                                        const DocumentComparison& comparison,
                                        const Lookup& lookup) {
  using Kind = SpeedReference::Kind;
  const SpeedReference& reference = comparison.reference;
  const bool is_variant = reference.kind == Kind::kVariant;
  const auto found = lookup.by_variant_and_work.find(
      Lookup::key(is_variant ? reference.name : cell.key.variant, cell.key.work));
  if (found == lookup.by_variant_and_work.end()) {
    return std::nullopt;
  }
  std::optional<std::size_t> best;
  for (const std::size_t i : found->second) {
    const ComparedCell& candidate = comparison.cells[i];
    const bool same_place = candidate.key.place == cell.key.place;
    const bool same_run = candidate.run == cell.run;
    const bool fits = is_variant ? same_place
                      : reference.kind == Kind::kDevice
                          ? candidate.key.place == reference.place
                          : comparison.runs[candidate.run].path == reference.name;
    const bool is_nearest = reference.kind == Kind::kRun ? same_place : same_run;
    if (fits && (!best || is_nearest)) {
      best = i;
      if (is_nearest) {
        break;
      }
    }
  }
  return best;
}

// Each cell against its reference, and on each device of a run the fastest against the next.
std::vector<Finding> findings_of(const std::vector<ComparedCell>& cells, const Lookup& lookup) {
  std::vector<Finding> findings;
  for (const Indices& same_work : lookup.by_work) {
    std::map<std::pair<std::size_t, std::size_t>, Indices> by_run_and_device;
    for (const std::size_t i : same_work) {
      const ComparedCell& cell = cells[i];
      if (cell.reference && *cell.reference != i) {
        findings.push_back(finding_of(cells, *cell.reference, i));
      }
      by_run_and_device[{cell.run, cell.device}].push_back(i);
    }
    for (auto& [where, rivals] : by_run_and_device) {
      std::stable_sort(rivals.begin(), rivals.end(), [&](std::size_t a, std::size_t b) {
        return cells[a].summary->median_ns < cells[b].summary->median_ns;
      });
      const bool is_told = rivals.size() < 2 || cells[rivals[0]].reference == rivals[1] ||
                           cells[rivals[1]].reference == rivals[0];
      if (!is_told) {
        findings.push_back(finding_of(cells, rivals[0], rivals[1]));
      }
    }
  }
  return findings;
}

// For each pair of variants of a work, the first two devices that rank them differently.
std::vector<RankingFlip> flips_of(const std::vector<ComparedCell>& cells, const Lookup& lookup) {
  std::vector<RankingFlip> flips;
  for (const Indices& same_work : lookup.by_work) {
    std::map<std::pair<std::string, std::string>, std::vector<Finding>> decided;
    bool has_devices = false;
    for (const std::size_t i : same_work) {
      has_devices = has_devices || cells[i].device != cells[same_work.front()].device;
    }
    for (std::size_t i = 0; has_devices && i < same_work.size(); ++i) {
      for (std::size_t j = i + 1; j < same_work.size(); ++j) {
        const ComparedCell& a = cells[same_work[i]];
        const ComparedCell& b = cells[same_work[j]];
        if (a.run != b.run || a.device != b.device) {
          continue;
        }
        const Finding finding = finding_of(cells, same_work[i], same_work[j]);
        if (finding.ratio.is_decided()) {
          decided[std::minmax(a.key.variant, b.key.variant)].push_back(finding);
        }
      }
    }
    for (const auto& [variants, found] : decided) {
      for (auto here = found.begin(); here != found.end(); ++here) {
        const auto there = std::find_if(here, found.end(), [&](const Finding& later) {
          return cells[later.faster].key.variant != cells[here->faster].key.variant &&
                 cells[later.faster].device != cells[here->faster].device;
        });
        if (there != found.end()) {
          flips.push_back({.here = *here, .there = *there});
          break;
        }
      }
    }
  }
  return flips;
}

std::string work_words(const Work& work) {
  return shape_words(work.problem) + ", " + std::string(name_of(work.precision)) + ", " +
         std::string(name_of(work.l2)) + ", " + input_words(work.inputs) +
         (work.gpus_at_once > 1 ? ", " + concurrent_words(work.gpus_at_once) : "");
}

// In what the work of two runs differs throughout: "precision (bf16, not fp32)".
std::string difference(const std::vector<ComparedCell>& cells, std::size_t run) {
  static constexpr std::array kNames{"problem", "precision", "cache state", "inputs",
                                     "number of GPUs at once"};
  std::array<std::unordered_set<std::string>, kNames.size()> mine;
  std::array<std::unordered_set<std::string>, kNames.size()> others;
  for (const ComparedCell& cell : cells) {
    const Work& work = cell.key.work;
    auto& parts = cell.run == run ? mine : others;
    parts[0].insert(shape_words(work.problem));
    parts[1].emplace(name_of(work.precision));
    parts[2].emplace(name_of(work.l2));
    parts[3].insert(input_words(work.inputs));
    parts[4].insert(concurrent_words(work.gpus_at_once));
  }
  std::vector<std::string> names;
  for (std::size_t part = 0; part < kNames.size(); ++part) {
    const bool is_disjoint =
        std::none_of(mine[part].begin(), mine[part].end(),
                     [&](const std::string& value) { return others[part].contains(value); });
    if (is_disjoint) {
      names.emplace_back(kNames[part]);
    }
  }
  return names.empty() ? "no combination of problem, precision, cache state, inputs and number of "
                         "GPUs at once is the same"
                       : "other " + join(names, ", other ");
}

// Documents and cells that stand beside no other, and why.
std::vector<std::string> notes_of(const DocumentComparison& comparison,
                                  std::span<const RecordedDocument> documents,
                                  const std::vector<bool>& is_alone) {
  std::vector<std::string> notes;
  for (std::size_t run = 0; run < documents.size(); ++run) {
    const Document& document = documents[run].document;
    const std::string& path = comparison.runs[run].path;
    if (document.ended_by_signal != 0 || document.finished_at.empty()) {
      notes.push_back(path + ": the run did not come to its end; what it had measured is compared");
    }
    const bool has_times =
        std::any_of(comparison.cells.begin(), comparison.cells.end(),
                    [run](const ComparedCell& cell) { return cell.run == run && cell.summary; });
    if (is_alone[run]) {
      notes.push_back(path + ": not comparable with the other documents: " +
                      (has_times ? difference(comparison.cells, run) : "no cell has a time"));
    }
  }
  for (const ComparedCell& cell : comparison.cells) {
    if (!cell.summary) {
      notes.push_back(comparison.runs[cell.run].path + ": " + cell.key.variant + ", " +
                      work_words(cell.key.work) +
                      ": not compared: " + std::string(name_of(cell.status)) +
                      (cell.reason.empty() ? "" : ": " + cell.reason));
    }
  }
  return notes;
}

}  // namespace

DocumentComparison compare(std::span<const RecordedDocument> documents,
                           const std::optional<std::string>& reference) {
  DocumentComparison comparison{.runs = runs_of(documents), .devices = devices_of(documents)};
  comparison.cells = cells_of(documents, comparison.devices);
  const Lookup lookup = lookup_of(comparison.cells);
  comparison.reference = reference ? named_reference(*reference, comparison, documents)
                                   : default_reference(comparison, lookup);

  std::unordered_set<std::string> keys;
  for (const ComparedCell& cell : comparison.cells) {
    comparison.tells_runs_apart =
        !keys.insert(id_of(cell.key)).second || comparison.tells_runs_apart;
  }
  for (ComparedCell& cell : comparison.cells) {
    cell.reference = cell.summary ? reference_of(cell, comparison, lookup) : std::nullopt;
    if (cell.reference) {
      cell.speed = ratio_of(comparison.cells[*cell.reference], cell);
    }
  }
  comparison.findings = findings_of(comparison.cells, lookup);
  comparison.flips = flips_of(comparison.cells, lookup);

  std::vector<bool> is_alone(documents.size(), documents.size() > 1);
  bool has_rivals = false;
  for (const Indices& same_work : lookup.by_work) {
    has_rivals = has_rivals || same_work.size() > 1;
    for (const std::size_t i : same_work) {
      const std::size_t run = comparison.cells[i].run;
      const bool has_other = comparison.cells[same_work.front()].run != run ||
                             comparison.cells[same_work.back()].run != run;
      is_alone[run] = is_alone[run] && !has_other;
    }
  }
  comparison.is_comparable = has_rivals && std::none_of(is_alone.begin(), is_alone.end(),
                                                        [](bool alone) { return alone; });
  comparison.notes = notes_of(comparison, documents, is_alone);
  return comparison;
}

}  // namespace mla_bench
