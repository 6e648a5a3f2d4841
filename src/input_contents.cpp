#include "input_contents.hpp"

namespace mla_bench {

InputContents::InputContents(std::span<const RecordedDocument> documents) {
  for (const RecordedDocument& recorded : documents) {
    for (const Result& result : recorded.document.cells) {
      const std::string& content = result.cell.inputs.content;
      if (!content.empty()) {
        Work work = mla_bench::key_of(result.cell).work;
        work.inputs.content.clear();
        known_[id_of(work)].insert(content);
      }
    }
  }
}

CellKey InputContents::key_of(const Cell& cell) const {
  CellKey key = mla_bench::key_of(cell);
  InputSource& inputs = key.work.inputs;
  if (inputs.file && inputs.content.empty()) {
    const auto found = known_.find(id_of(key.work));
    if (found != known_.end() && found->second.size() == 1) {
      inputs.content = *found->second.begin();
    }
  }
  return key;
}

}  // namespace mla_bench
