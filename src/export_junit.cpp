// JUnit XML: a suite a document, a test case a cell. A wrong output is a failure, a crash an error,
// and what was not run or whose time is not trusted is skipped, with the reason.
#include <cmath>

#include "export_formats.hpp"
#include "json_access.hpp"
#include "text.hpp"

namespace mla_bench {
namespace {

// For element text and attributes. XML 1.0 forbids control characters and U+FFFE and U+FFFF even as
// references; bytes that are not UTF-8 can come from a path.
std::string xml(const std::string& text) {
  std::string shown;
  const std::string plain = utf8_text(printable(text));
  for (std::size_t i = 0; i < plain.size(); ++i) {
    const std::string_view next = std::string_view(plain).substr(i, 3);
    if (next == "\xef\xbf\xbe" || next == "\xef\xbf\xbf") {
      shown += "\xef\xbf\xbd";  // U+FFFD, the replacement character
      i += 2;
      continue;
    }
    switch (plain[i]) {
      case '&':
        shown += "&amp;";
        break;
      case '<':
        shown += "&lt;";
        break;
      case '>':
        shown += "&gt;";
        break;
      case '"':
        shown += "&quot;";
        break;
      default:
        shown += plain[i];
    }
  }
  return shown;
}

std::string attribute(std::string_view name, const std::string& value) {
  return " " + std::string(name) + "=\"" + xml(value) + "\"";
}

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
    return attribute("tests", std::to_string(tests)) +
           attribute("failures", std::to_string(failures)) +
           attribute("errors", std::to_string(errors)) +
           attribute("skipped", std::to_string(skipped)) +
           attribute("time", fixed(time_s, kDigits));
  }
};

std::string outcome_of(const Result& result) {
  const std::string message = attribute("message", result.reason);
  const std::string type = attribute("type", std::string(name_of(result.status)));
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
      return "      <skipped" + attribute("message", "untrusted: " + result.reason) + "/>\n";
  }
  return "";
}

std::string case_of(const ExportedCell& cell) {
  const Result& result = *cell.result;
  std::string text = "    <testcase" + attribute("classname", "mla-bench." + result.cell.variant) +
                     attribute("name", cell.name);
  std::string output;
  if (has_exported_time(cell)) {
    const Summary& summary = *result.summary;
    const double half = (summary.ci95_high_ns - summary.ci95_low_ns) / 2;
    text += attribute("time", fixed(summary.median_ns * 1e-9, 12));
    output =
        "      <system-out>" +
        xml("median " + human_time(summary.median_ns) +
            (std::isfinite(half) ? " +-" + fixed(100 * half / summary.median_ns, 2) + " %" : "") +
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
    suites += "  <testsuite" + attribute("name", recorded->path) + counts.attributes() +
              attribute("timestamp", recorded->document.started_at.substr(0, 19)) + ">\n" + cases +
              "  </testsuite>\n";
  }
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites" +
         attribute("name", "mla-bench") + all.attributes() + ">\n" + suites + "</testsuites>\n";
}

}  // namespace mla_bench
