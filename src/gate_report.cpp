#include "gate_report.hpp"

#include <algorithm>
#include <cmath>

#include "gate_json.hpp"
#include "json.hpp"
#include "json_access.hpp"
#include "text.hpp"
#include "text_table.hpp"
#include "xml.hpp"

namespace mla_bench {
namespace {

std::string signed_percent(double ratio) {
  const double percent = 100 * (ratio - 1);
  return (percent < 0 ? "" : "+") + fixed(percent, 2);
}

// "+0.12 % [-0.20, +0.44]"
std::string change_words(const JudgedCell& cell) {
  if (!cell.change) {
    return "";
  }
  return signed_percent(cell.change->estimate) + " % [" +
         signed_percent(cell.change->interval.low) + ", " +
         signed_percent(cell.change->interval.high) + "]";
}

std::string detectable_words(const JudgedCell& cell) {
  return cell.change ? fixed(100 * cell.change->detectable, 2) + " %" : "";
}

std::string time_words(const std::optional<double>& ns) {
  return ns ? human_time(*ns) : "";
}

// What tells cells apart, for people.
struct Trait {
  std::string_view title;
  std::string (*of)(const JudgedCell&);
};

const std::array kTraits{
    Trait{"variant", [](const JudgedCell& cell) { return cell.key.variant; }},
    Trait{"problem", [](const JudgedCell& cell) { return shape_words(cell.key.work.problem); }},
    Trait{"precision",
          [](const JudgedCell& cell) { return std::string(name_of(cell.key.work.precision)); }},
    Trait{"cache", [](const JudgedCell& cell) { return std::string(name_of(cell.key.work.l2)); }},
    Trait{"inputs", [](const JudgedCell& cell) { return input_words(cell.key.work.inputs); }},
    Trait{"device",
          [](const JudgedCell& cell) { return place_words(cell.device_name, cell.key.place); }},
    // Two of one name.
    Trait{"GPU",
          [](const JudgedCell& cell) {
            const Place& place = cell.key.place;
            return place.backend == Backend::kCuda ? short_uuid(place.device) : "";
          }},
    Trait{"concurrent",
          [](const JudgedCell& cell) {
            const int gpus = cell.key.work.gpus_at_once;
            return gpus > 1 ? concurrent_words(gpus) : "";
          }},
};

bool varies(const GateResult& result, const Trait& trait) {
  return std::any_of(result.cells.begin(), result.cells.end(), [&](const JudgedCell& cell) {
    return trait.of(cell) != trait.of(result.cells.front());
  });
}

// The variant, and of the rest what varies.
std::vector<Trait> shown_traits(const GateResult& result) {
  std::vector<Trait> shown;
  for (const Trait& trait : kTraits) {
    if (trait.title == "variant" || varies(result, trait)) {
      shown.push_back(trait);
    }
  }
  return shown;
}

std::string cell_words(const GateResult& result, const JudgedCell& cell) {
  std::vector<std::string> words;
  for (const Trait& trait : shown_traits(result)) {
    words.push_back(trait.of(cell));
  }
  std::erase(words, "");
  return printable(join(words, ", "));
}

// "4x96x256, rank 48, 4 heads of 32, fp32, hot": what all cells share.
std::string common_words(const GateResult& result) {
  std::vector<std::string> words;
  for (const Trait& trait : kTraits) {
    if (trait.title != "variant" && trait.title != "GPU" && !result.cells.empty() &&
        !varies(result, trait)) {
      words.push_back(trait.of(result.cells.front()));
    }
  }
  std::erase(words, "");
  return printable(join(words, ", "));
}

TextTable table_of(const GateResult& result) {
  TextTable table{.columns = {{"verdict"}}, .rows = {}};
  const std::vector<Trait> traits = shown_traits(result);
  for (const Trait& trait : traits) {
    table.columns.push_back({std::string(trait.title)});
  }
  table.columns.insert(table.columns.end(), {{"baseline", false},
                                             {"candidate", false},
                                             {"change", false},
                                             {"finds from", false},
                                             {"processes", false}});
  for (const JudgedCell& cell : result.cells) {
    std::vector<std::string> row{std::string(name_of(cell.verdict))};
    for (const Trait& trait : traits) {
      row.push_back(printable(trait.of(cell)));
    }
    row.insert(row.end(), {time_words(cell.baseline_ns), time_words(cell.candidate_ns),
                           change_words(cell), detectable_words(cell),
                           std::to_string(cell.baseline_processes) + "+" +
                               std::to_string(cell.candidate_processes)});
    table.rows.push_back(std::move(row));
  }
  return table;
}

// "12 cells: 11 pass, 1 regression"
std::string counts_words(const GateResult& result) {
  std::vector<std::string> parts;
  for (const Verdict verdict : kVerdicts) {
    const auto count =
        std::count_if(result.cells.begin(), result.cells.end(),
                      [&](const JudgedCell& cell) { return cell.verdict == verdict; });
    if (count > 0) {
      parts.push_back(std::to_string(count) + " " + std::string(name_of(verdict)));
    }
  }
  return std::to_string(result.cells.size()) + (result.cells.size() == 1 ? " cell: " : " cells: ") +
         join(parts, ", ");
}

std::string rules_words(const GateResult& result) {
  const GateRules& rules = result.rules;
  int raised = 0;
  double highest = 0;
  for (const JudgedCell& cell : result.cells) {
    raised += cell.threshold > rules.threshold ? 1 : 0;
    highest = std::max(highest, cell.threshold);
  }
  return "candidate over baseline with its " + shortest(100 * (1 - 2 * rules.alpha)) +
         " % interval, threshold " + shortest(100 * rules.threshold) + " %" +
         (raised == 0 ? ""
                      : ", for noise up to " + fixed(100 * highest, 2) + " % in " +
                            std::to_string(raised) + (raised == 1 ? " cell" : " cells"));
}

std::string heading_words(const GateHeading& heading) {
  return printable(heading.candidate) + " against " + printable(heading.baseline);
}

std::vector<std::string> reasons(const GateResult& result) {
  std::vector<std::string> lines;
  for (const JudgedCell& cell : result.cells) {
    if (!cell.reason.empty()) {
      lines.push_back(std::string(name_of(cell.verdict)) + ": " + cell_words(result, cell) + ": " +
                      printable(cell.reason));
    }
  }
  if (result.failure) {
    lines.push_back(printable(result.failure->why));
  }
  return lines;
}

std::string text(const GateResult& result, const GateHeading& heading) {
  std::string shown = heading_words(heading) + "\n" + common_words(result) + "\n" +
                      rules_words(result) + "\n\n" + aligned(table_of(result)) + "\n";
  for (const std::string& line : reasons(result)) {
    shown += "  " + line + "\n";
  }
  return shown + counts_words(result) + "\n";
}

std::string markdown_report(const GateResult& result, const GateHeading& heading) {
  std::string shown =
      "### mla-bench gate: " + counts_words(result) + "\n\n" +
      markdown_text(heading_words(heading)) + "  \n" + markdown_text(common_words(result)) +
      "  \n" + markdown_text(rules_words(result)) + "\n\n" + markdown(table_of(result)) + "\n";
  for (const std::string& line : reasons(result)) {
    shown += "- " + markdown_text(line) + "\n";
  }
  return shown;
}

// A regression and a wrong output are failures, what could not be judged is an error, and what was
// not is skipped.
enum class JunitOutcome { kPassed, kFailure, kError, kSkipped };

JunitOutcome outcome_of(const JudgedCell& cell, bool strict) {
  switch (cell.verdict) {
    case Verdict::kRegression:
    case Verdict::kIncorrect:
      return JunitOutcome::kFailure;
    case Verdict::kIncomparable:
    case Verdict::kMissing:
      return JunitOutcome::kError;
    case Verdict::kInconclusive:
      return strict || cell.unfit ? JunitOutcome::kError : JunitOutcome::kSkipped;
    case Verdict::kNew:
    case Verdict::kSkipped:
      return JunitOutcome::kSkipped;
    case Verdict::kPass:
    case Verdict::kImprovement:
      return JunitOutcome::kPassed;
  }
  return JunitOutcome::kError;
}

std::string junit(const GateResult& result, const GateHeading& heading) {
  std::string cases;
  int failures = 0;
  int errors = 0;
  int skipped = 0;
  for (const JudgedCell& cell : result.cells) {
    const std::string verdict(name_of(cell.verdict));
    std::string told = verdict + (cell.reason.empty() ? "" : ": " + cell.reason);
    if (cell.change) {
      told += "; " + change_words(cell) + ", finds slow-downs from " + detectable_words(cell);
    }
    const std::string message = xml_attribute("message", told);
    const std::string type = xml_attribute("type", verdict);
    cases += "    <testcase" + xml_attribute("classname", "mla-bench.gate." + cell.key.variant) +
             xml_attribute("name", export_name(cell.key)) + ">\n";
    switch (outcome_of(cell, heading.strict)) {
      case JunitOutcome::kPassed:
        break;
      case JunitOutcome::kFailure:
        ++failures;
        cases += "      <failure" + message + type + "/>\n";
        break;
      case JunitOutcome::kError:
        ++errors;
        cases += "      <error" + message + type + "/>\n";
        break;
      case JunitOutcome::kSkipped:
        ++skipped;
        cases += "      <skipped" + message + "/>\n";
        break;
    }
    cases += "      <system-out>" + xml_text(told) + "</system-out>\n    </testcase>\n";
  }
  std::size_t tests = result.cells.size();
  if (result.failure) {
    ++tests;
    ++errors;
    cases += "    <testcase" + xml_attribute("classname", "mla-bench.gate") +
             xml_attribute("name", "processes") + ">\n      <error" +
             xml_attribute("message", result.failure->why) + xml_attribute("type", "failed") +
             "/>\n    </testcase>\n";
  }
  const std::string counts = xml_attribute("tests", std::to_string(tests)) +
                             xml_attribute("failures", std::to_string(failures)) +
                             xml_attribute("errors", std::to_string(errors)) +
                             xml_attribute("skipped", std::to_string(skipped));
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites" +
         xml_attribute("name", "mla-bench gate") + counts + ">\n  <testsuite" +
         xml_attribute("name", heading_words(heading)) + counts + ">\n" + cases +
         "  </testsuite>\n</testsuites>\n";
}

}  // namespace

Json to_json(const JudgedCell& cell) {
  Json json{{"name", export_name(cell.key)},
            {"variant", cell.key.variant},
            {"backend", name_of(cell.key.place.backend)},
            {"device", cell.key.place.device},
            {"device_name", cell.device_name},
            {"precision", name_of(cell.key.work.precision)},
            {"l2", name_of(cell.key.work.l2)},
            {"problem", to_json(cell.key.work.problem)},
            {"inputs", to_json(cell.key.work.inputs)},
            {"verdict", name_of(cell.verdict)},
            {"reason", cell.reason},
            {"baseline_processes", cell.baseline_processes},
            {"candidate_processes", cell.candidate_processes}};
  put(json, "baseline_ns", cell.baseline_ns);
  put(json, "candidate_ns", cell.candidate_ns);
  put(json, "cycles_ratio", cell.cycles);
  put(json, "anchors_ratio", cell.anchors);
  if (cell.change) {
    json["threshold"] = cell.threshold;
    json["change"] = {{"ratio", finite(cell.change->estimate)},
                      {"low", finite(cell.change->interval.low)},
                      {"high", finite(cell.change->interval.high)},
                      {"detectable", finite(cell.change->detectable)},
                      {"deviation", finite(cell.change->deviation)}};
  }
  return json;
}

Json notes_of(const GateResult& result) {
  return result.failure ? Json::array({result.failure->why}) : Json::array();
}

namespace {

std::string json(const GateResult& result, const GateHeading& heading) {
  Json report{{"schema", "mla-bench-gate/1"},
              {"baseline", heading.baseline},
              {"candidate", heading.candidate},
              {"rules",
               {{"threshold", result.rules.threshold},
                {"alpha", result.rules.alpha},
                {"error_factor", result.rules.error_factor},
                {"paired", result.rules.is_paired},
                {"strict", heading.strict}}},
              {"exit_code", static_cast<int>(exit_code(result, heading.strict))},
              {"cells", Json::array()},
              {"notes", notes_of(result)}};
  for (const JudgedCell& cell : result.cells) {
    report["cells"].push_back(to_json(cell));
  }
  return report.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string_view name_of(GateFormat format) {
  switch (format) {
    case GateFormat::kText:
      return "text";
    case GateFormat::kMarkdown:
      return "md";
    case GateFormat::kJunit:
      return "junit";
    case GateFormat::kJson:
      return "json";
  }
  return "?";
}

std::string render(const GateResult& result, const GateHeading& heading, GateFormat format) {
  switch (format) {
    case GateFormat::kText:
      return text(result, heading);
    case GateFormat::kMarkdown:
      return markdown_report(result, heading);
    case GateFormat::kJunit:
      return junit(result, heading);
    case GateFormat::kJson:
      return json(result, heading);
  }
  return "";
}

}  // namespace mla_bench
