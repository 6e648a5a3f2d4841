// JUnit XML: a suite a document, a test case a cell. A wrong output is a failure, a crash an error,
// and what was not run or whose time is not trusted is skipped, with the reason.
#include <cmath>

#include "export_formats.hpp"
#include "text.hpp"
#include "xml.hpp"

namespace mla_bench {
namespace {

struct Counts {
  int tests = 0;
  int failures = 0;
  int errors = 0;
  int skipped = 0;
  double time_s = 0;

  void add(const ExportedCell& cell) {
    ++tests;
    failures += cell.result->status == Status::kIncorrect ? 1 : 0;
    errors += cell.result->status == Status::kFailed ? 1 : 0;
    skipped += cell.result->status == Status::kSkipped || cell.result->status == Status::kUntrusted;
    time_s += has_exported_time(cell) ? cell.result->summary->median_ns * 1e-9 : 0;
  }

  std::string attributes() const {
    constexpr int kDigits = 12;  // picoseconds: kernels take microseconds
    return xml_attribute("tests", std::to_string(tests)) +
           xml_attribute("failures", std::to_string(failures)) +
           xml_attribute("errors", std::to_string(errors)) +
           xml_attribute("skipped", std::to_string(skipped)) +
           xml_attribute("time", fixed(time_s, kDigits));
  }
};

std::string outcome_of(const Result& result) {
  const std::string message = xml_attribute("message", result.reason);
  const std::string type = xml_attribute("type", std::string(name_of(result.status)));
  switch (result.status) {
    case Status::kPassed:
      return "";
    case Status::kIncorrect:
      return "      <failure" + message + type + "/>\n";
    case Status::kFailed:
      return "      <error" + message + type + "/>\n";
    case Status::kSkipped:
      return "      <skipped" + message + "/>\n";
    case Status::kUntrusted:
      return "      <skipped" + xml_attribute("message", "untrusted: " + result.reason) + "/>\n";
  }
  return "";
}

std::string case_of(const ExportedCell& cell) {
  const Result& result = *cell.result;
  std::string text = "    <testcase" +
                     xml_attribute("classname", "mla-bench." + result.cell.variant) +
                     xml_attribute("name", cell.name);
  std::string output;
  if (has_exported_time(cell)) {
    const Summary& summary = *result.summary;
    const double half = (summary.ci95_high_ns - summary.ci95_low_ns) / 2;
    text += xml_attribute("time", fixed(summary.median_ns * 1e-9, 12));
    output = "      <system-out>" +
             xml_text("median " + human_time(summary.median_ns) +
                      (std::isfinite(half) ? " +-" + fixed(100 * half / summary.median_ns, 2) + " %"
                                           : "") +
                      ", " + cell.device_name + "; " + command_of(result.cell)) +
             "</system-out>\n";
  }
  return text + ">\n" + outcome_of(result) + output + "    </testcase>\n";
}

}  // namespace

std::string export_junit(std::span<const ExportedCell> cells) {
  Counts all;
  std::string suites;
  for (std::size_t next = 0; next < cells.size();) {
    const RecordedDocument* recorded = cells[next].recorded;
    Counts counts;
    std::string cases;
    for (; next < cells.size() && cells[next].recorded == recorded; ++next) {
      counts.add(cells[next]);
      all.add(cells[next]);
      cases += case_of(cells[next]);
    }
    suites += "  <testsuite" + xml_attribute("name", recorded->path) + counts.attributes() +
              xml_attribute("timestamp", recorded->document.started_at.substr(0, 19)) + ">\n" +
              cases + "  </testsuite>\n";
  }
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites" +
         xml_attribute("name", "mla-bench") + all.attributes() + ">\n" + suites + "</testsuites>\n";
}

}  // namespace mla_bench
