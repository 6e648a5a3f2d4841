// Keys of cells beside those of other documents, some of which may be older than the telling of
// what is in an input file.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>

#include "cell_key.hpp"
#include "document_reader.hpp"

namespace mla_bench {

class InputContents {
 public:
  explicit InputContents(std::span<const RecordedDocument> documents);

  // The cell's key. Where its document does not tell the content of its input file, it has the one
  // of those cells whose work is the same but for it, if these have one alone: what a document does
  // not tell is not held against it.
  CellKey key_of(const Cell& cell) const;

 private:
  std::map<std::string, std::set<std::string>> known_;  // by the id of the work without it
};

}  // namespace mla_bench
