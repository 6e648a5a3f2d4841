// mla-bench export: documents in the form that another tool reads.
#include <algorithm>

#include "commands.hpp"
#include "console.hpp"
#include "document_reader.hpp"
#include "errors.hpp"
#include "export_formats.hpp"
#include "output_file.hpp"
#include "text.hpp"

namespace mla_bench {

int export_command(const ExportOptions& options) {
  const std::vector<RecordedDocument> documents = read_documents(options.files, Detail::kAll);
  const std::string text =
      export_text(options.format, documents, {.aggregates = options.aggregates});
  if (options.output == "-") {
    print_result(text);
  } else {
    write_whole_file(options.output, text);
  }
  if (!leaves_out_untimed(options.format)) {
    return static_cast<int>(ExitCode::kFine);
  }
  const std::vector<ExportedCell> cells = exported_cells(documents);
  for (const ExportedCell& cell : cells) {
    if (!has_exported_time(cell)) {
      print_note(printable(cell.recorded->path) + ": left out " + cell.name + ": " +
                 std::string(name_of(cell.result->status)) + ": " + printable(cell.result->reason));
    }
  }
  if (std::none_of(cells.begin(), cells.end(), has_exported_time)) {
    print_note("no cell has a time to export");
    return static_cast<int>(ExitCode::kIncomparable);
  }
  return static_cast<int>(ExitCode::kFine);
}

}  // namespace mla_bench
