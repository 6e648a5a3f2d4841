#include <optional>
#include <span>
#include <string>

#include "document_reader.hpp"
#include "errors.hpp"
#include "export_formats.hpp"
#include "json.hpp"
#include "promise.hpp"
#include "targets.hpp"

namespace mla_bench {
namespace {

constexpr const char* kPath = "a.json";

std::optional<RecordedDocument> read(std::string_view text, Detail detail) {
  try {
    return document_from_text(text, kPath, detail);
  } catch (const UsageError& error) {
    promised_refusal(error.what(), kPath);
    return std::nullopt;
  }
}

void check_exports(const RecordedDocument& document) {
  for (const ExportFormat format : kExportFormats) {
    try {
      const std::string text = export_text(format, std::span(&document, 1), {});
      for (const char c : text) {
        const bool is_control = static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\r';
        promised(!is_control && c != 0x7f, "an export has no control characters", text);
      }
    } catch (const UsageError& error) {
      promised(std::string_view(error.what()).find('\n') == std::string_view::npos,
               "a refusal is one line", error.what());
    }
  }
}

}  // namespace

void fuzz_documents(std::string_view bytes) {
  // One of the two ways, by the length, for speed: a fuzzer varies that too.
  read(bytes, bytes.size() % 2 == 0 ? Detail::kAll : Detail::kTimes);
}

void fuzz_exports(std::string_view bytes) {
  const std::optional<RecordedDocument> all = read(bytes, Detail::kAll);
  const std::optional<RecordedDocument> times = read(bytes, Detail::kTimes);
  if (!all) {
    return;  // what only `times` takes lies in what it passes over
  }
  if (times) {
    promised(times->document.cells.size() == all->document.cells.size(), "no cell is lost");
  }
  const std::string text = to_text(all->document);
  const std::optional<RecordedDocument> again = read(text, Detail::kAll);
  promised(again.has_value(), "what was read can be written and read again", text);
  promised(to_text(again->document) == text, "nothing is lost on the way", text);
  check_exports(*all);
}

}  // namespace mla_bench
