// Documents from files, which may be anybody's: what is read is checked, so that the commands that
// compare, judge and export need not.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "document.hpp"

namespace mla_bench {

// How much of a document is read.
enum class Detail {
  kAll,
  kTimes,  // cells, status, summary, and of rounds the samples; no checks, kernels or floors
};

struct RecordedDocument {
  std::string path;  // as the user named the file
  // The program that wrote it.
  std::string version;
  std::string commit;
  bool dirty = false;
  // How it was built; empty where the document does not say.
  std::string build_type;
  std::string flags;
  std::string compiler;
  std::string cuda_compiler;
  Document document;
};

// A larger file is refused: it is a hundred times what a run of a hundred cells writes.
inline constexpr std::size_t kLargestDocument = std::size_t{256} << 20;

// Throws UsageError that names `path` and the place where the text is truncated, foreign, of
// another schema, inconsistent, holds a cell twice, or a time that is not positive.
RecordedDocument document_from_text(std::string_view text, const std::string& path, Detail detail);

// What read_documents lets in beside the documents of runs.
enum class Origin {
  kRun,
  kSelftest,  // hidden copies, whose times are not the variants' own
};

// The documents in the order of their paths, read side by side. Throws UsageError that names the
// first file at fault, also one that is of another origin, or holds measurements of another one in
// the list: a copy of a run is not a second run.
std::vector<RecordedDocument> read_documents(std::span<const std::string> paths, Detail detail,
                                             Origin origin = Origin::kRun);

}  // namespace mla_bench
