#include "selftest.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "build_facts.hpp"
#include "gate_json.hpp"
#include "json.hpp"
#include "statistics.hpp"
#include "text.hpp"
#include "text_table.hpp"

namespace mla_bench {
namespace {

// Two points above the threshold are found, half of it is let through; a rounding error beside.
constexpr double kMargin = 0.02;
constexpr double kRounding = 1e-9;

std::string percent(double part) {
  return (part < 0 ? "" : "+") + fixed(100 * part, 2) + " %";
}

std::string planted_words(const Planted& planted) {
  switch (planted.kind) {
    case PlantKind::kNothing:
      return "nothing";
    case PlantKind::kWork:
      return percent(planted.slow_down) + " work";
    case PlantKind::kWrongElement:
      return "one wrong element";
    case PlantKind::kNothingWritten:
      return "nothing written";
    case PlantKind::kFirstCallOnly:
      return "work in the first call only";
  }
  return "?";
}

std::string range_words(const std::vector<double>& values) {
  if (values.empty()) {
    return "";
  }
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return values.size() == 1 ? percent(*least) : percent(*least) + " to " + percent(*most);
}

// "21 pass, 1 inconclusive"
std::string verdict_words(std::span<const TriedCell* const> cells) {
  std::vector<std::string> parts;
  for (const Verdict verdict : kVerdicts) {
    const auto count = std::count_if(cells.begin(), cells.end(), [&](const TriedCell* cell) {
      return cell->judged.verdict == verdict;
    });
    if (count > 0) {
      parts.push_back(std::to_string(count) + " " + std::string(name_of(verdict)));
    }
  }
  return join(parts, ", ");
}

std::string outcome_words(std::span<const TriedCell* const> cells) {
  std::vector<std::string> parts;
  for (const Outcome outcome : kOutcomes) {
    const auto count = std::count_if(cells.begin(), cells.end(), [&](const TriedCell* cell) {
      return cell->outcome == outcome;
    });
    if (count > 0) {
      parts.push_back(
          std::string(name_of(outcome)) +
          (static_cast<std::size_t>(count) == cells.size() ? "" : " in " + std::to_string(count)));
    }
  }
  return join(parts, ", ");
}

}  // namespace

Promise promise_on(const Planted& planted, double threshold) {
  switch (planted.kind) {
    case PlantKind::kNothing:
      return Promise::kUnchanged;
    case PlantKind::kWork:
      return planted.slow_down <= threshold / 2 + kRounding         ? Promise::kNoRegression
             : planted.slow_down >= threshold + kMargin - kRounding ? Promise::kRegression
                                                                    : Promise::kNone;
    case PlantKind::kWrongElement:
    case PlantKind::kNothingWritten:
    case PlantKind::kFirstCallOnly:
      return Promise::kIncorrect;
  }
  return Promise::kNone;
}

std::string_view name_of(Promise promise) {
  switch (promise) {
    case Promise::kUnchanged:
      return "no change";
    case Promise::kNoRegression:
      return "no regression";
    case Promise::kNone:
      return "either";
    case Promise::kRegression:
      return "regression";
    case Promise::kIncorrect:
      return "incorrect";
  }
  return "?";
}

std::string_view name_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::kKept:
      return "kept";
    case Outcome::kUndecided:
      return "undecided";
    case Outcome::kBroken:
      return "BROKEN";
    case Outcome::kNotTried:
      return "not tried";
  }
  return "?";
}

Outcome outcome_of(Verdict verdict, Promise promise) {
  if (promise == Promise::kIncorrect) {
    return verdict == Verdict::kIncorrect ? Outcome::kKept
           : verdict == Verdict::kSkipped ? Outcome::kNotTried
                                          : Outcome::kBroken;
  }
  switch (verdict) {
    case Verdict::kPass:
      return promise == Promise::kRegression ? Outcome::kBroken : Outcome::kKept;
    case Verdict::kImprovement:
      return Outcome::kBroken;
    case Verdict::kRegression:
      return promise == Promise::kRegression || promise == Promise::kNone ? Outcome::kKept
                                                                          : Outcome::kBroken;
    case Verdict::kInconclusive:
      return promise == Promise::kNone ? Outcome::kKept : Outcome::kUndecided;
    case Verdict::kIncomparable:
    case Verdict::kMissing:
    case Verdict::kNew:
    case Verdict::kIncorrect:
    case Verdict::kSkipped:
      return Outcome::kNotTried;
  }
  return Outcome::kNotTried;
}

PlantedParts planted_parts(std::span<const RecordedDocument> candidate) {
  std::map<std::string, std::vector<double>> measured;
  for (const RecordedDocument& recorded : candidate) {
    for (const Result& result : recorded.document.cells) {
      if (result.planted_work && result.planted_work->slow_down) {
        measured[id_of(key_of(result.cell))].push_back(*result.planted_work->slow_down);
      }
    }
  }
  PlantedParts parts;
  for (const auto& [id, values] : measured) {
    parts[id] = median(values);
  }
  return parts;
}

SelftestResult selftest_of(const GateResult& gate, const std::map<int, Planted>& plants,
                           const PlantedParts& parts) {
  SelftestResult result{.threshold = gate.rules.threshold, .gate = gate};
  std::set<std::string> known;
  for (const JudgedCell& judged : gate.cells) {
    TriedCell cell{.judged = judged, .planted = plants.at(judged.key.copy)};
    const auto part = parts.find(id_of(judged.key));
    cell.measured_part = part == parts.end() ? 0 : part->second;
    cell.promise = promise_on(cell.planted, result.threshold);
    cell.outcome = outcome_of(judged.verdict, cell.promise);
    CellKey key = judged.key;
    key.copy = 0;
    if (cell.promise == Promise::kUnchanged && judged.change && known.insert(id_of(key)).second) {
      result.noise.push_back({.key = key, .deviation = judged.change->deviation});
    }
    result.cells.push_back(std::move(cell));
  }
  return result;
}

namespace {

ExitCode code_of_outcomes(const SelftestResult& result) {
  const auto any = [&](auto&& is) {
    return std::any_of(result.cells.begin(), result.cells.end(), is);
  };
  if (any([](const TriedCell& cell) {
        return cell.judged.verdict == Verdict::kIncorrect && cell.promise != Promise::kIncorrect;
      })) {
    return ExitCode::kIncorrect;
  }
  if (!any([](const TriedCell& cell) { return cell.outcome != Outcome::kNotTried; })) {
    return ExitCode::kNothingRan;
  }
  if (any([](const TriedCell& cell) { return cell.judged.unfit; })) {
    return ExitCode::kUnfit;
  }
  if (any([](const TriedCell& cell) { return cell.outcome == Outcome::kBroken; })) {
    return ExitCode::kRegression;
  }
  return any([](const TriedCell& cell) { return cell.outcome == Outcome::kUndecided; })
             ? ExitCode::kInconclusive
             : ExitCode::kFine;
}

}  // namespace

ExitCode exit_code(const SelftestResult& result) {
  const ExitCode code = code_of_outcomes(result);
  if (!result.gate.failure) {
    return code;
  }
  // Of a failure before anything was tried the failure tells more.
  return code == ExitCode::kNothingRan ? result.gate.failure->code
                                       : first_of(result.gate.failure->code, code);
}

std::string why_no_noise(const SelftestResult& result, const SeriesOptions& series) {
  if (exit_code(result) != ExitCode::kFine) {
    return "not all came out as promised";
  }
  const SeriesOptions of_the_gate;
  const int samples = MeasuringOptions{}.samples;
  if (series.rounds < of_the_gate.rounds || series.samples.value_or(samples) < samples ||
      series.warmup_s < of_the_gate.warmup_s) {
    return "--rounds, --samples or --warmup are less than the gate's own";
  }
  return "";
}

std::string text_report(const SelftestResult& result) {
  std::vector<std::pair<Planted, std::vector<const TriedCell*>>> groups;
  for (const TriedCell& cell : result.cells) {
    auto found = std::find_if(groups.begin(), groups.end(),
                              [&](const auto& group) { return group.first == cell.planted; });
    if (found == groups.end()) {
      found = groups.insert(found, {cell.planted, {}});
    }
    found->second.push_back(&cell);
  }
  TextTable table{.columns = {{"planted"},
                              {"measured", false},
                              {"promised"},
                              {"the gate says"},
                              {"of the time", false},
                              {"promise"}},
                  .rows = {}};
  for (const auto& [planted, cells] : groups) {
    std::vector<double> measured;
    std::vector<double> changes;
    for (const TriedCell* cell : cells) {
      if (cell->judged.change) {
        changes.push_back(cell->judged.change->estimate - 1);
      }
      if (cell->planted.kind == PlantKind::kWork && cell->measured_part != 0) {
        measured.push_back(cell->measured_part);
      }
    }
    table.rows.push_back({planted_words(planted), range_words(measured),
                          std::string(name_of(cells.front()->promise)), verdict_words(cells),
                          range_words(changes), outcome_words(cells)});
  }
  std::set<std::string> devices;
  for (const TriedCell& cell : result.cells) {
    devices.insert(printable(cell.judged.device_name));
  }
  std::string text = "this program against itself on " +
                     join(std::vector<std::string>(devices.begin(), devices.end()), ", ") +
                     ", threshold " + shortest(100 * result.threshold) + " %, " +
                     std::to_string(result.pairs) + " pairs of processes, " +
                     fixed(result.seconds, 0) + " s\n\n" + aligned(table) + "\n";
  for (const TriedCell& cell : result.cells) {
    if (cell.outcome != Outcome::kKept) {
      text += "  " + std::string(name_of(cell.outcome)) + ": " + export_name(cell.judged.key) +
              ", " + planted_words(cell.planted) + ": " +
              std::string(name_of(cell.judged.verdict)) +
              (cell.judged.reason.empty() ? "" : ": " + printable(cell.judged.reason)) + "\n";
    }
  }
  if (result.gate.failure) {
    text += "  " + printable(result.gate.failure->why) + "\n";
  }
  if (!result.noise.empty()) {
    std::vector<double> deviations;
    for (const HonestNoise& noise : result.noise) {
      deviations.push_back(noise.deviation);
    }
    text += "noise from process to process: " + fixed(100 * median(deviations), 2) +
            " % in the median of " + std::to_string(deviations.size()) +
            (deviations.size() == 1 ? " cell" : " cells") + ", " +
            fixed(100 * *std::max_element(deviations.begin(), deviations.end()), 2) +
            " % at most; " +
            (result.not_kept.empty() ? "kept for the gate"
                                     : "not kept for the gate: " + result.not_kept) +
            "\n";
  }
  return text;
}

std::string json_report(const SelftestResult& result) {
  const BuildFacts facts = build_facts();
  Json report{{"schema", "mla-bench-selftest/1"},
              {"version", facts.version},
              {"commit", facts.commit},
              {"dirty", facts.dirty},
              {"threshold", result.threshold},
              {"alpha", result.gate.rules.alpha},
              {"pairs", result.pairs},
              {"seconds", result.seconds},
              {"exit_code", static_cast<int>(exit_code(result))},
              {"cells", Json::array()},
              {"notes", notes_of(result.gate)}};
  for (const TriedCell& cell : result.cells) {
    Json json = to_json(cell.judged);
    json["planted"] = text_of(cell.planted);
    if (cell.planted.kind == PlantKind::kWork) {
      json["planted_part"] = cell.measured_part;
    }
    json["promise"] = name_of(cell.promise);
    json["finding"] = cell.outcome == Outcome::kBroken ? "broken" : name_of(cell.outcome);
    report["cells"].push_back(std::move(json));
  }
  return report.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace mla_bench
