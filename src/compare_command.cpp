// mla-bench compare: documents side by side.
#include "commands.hpp"
#include "compare.hpp"
#include "compare_report.hpp"
#include "console.hpp"
#include "document_reader.hpp"
#include "errors.hpp"
#include "text.hpp"

namespace mla_bench {

int compare_command(const CompareOptions& options) {
  const std::vector<RecordedDocument> documents = read_documents(options.files, Detail::kTimes);
  const DocumentComparison comparison = compare(documents, options.reference);
  print_result(render(comparison, options.layout, options.format));
  if (options.format == CompareFormat::kCsv) {  // which has no place for them
    for (const std::string& note : comparison.notes) {
      print_note(printable(note));
    }
  }
  return static_cast<int>(comparison.is_comparable ? ExitCode::kFine : ExitCode::kIncomparable);
}

}  // namespace mla_bench
