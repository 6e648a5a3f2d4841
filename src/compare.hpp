// Documents side by side: which cells may be compared, how they compare, and with what certainty.
// Values to values; compare_report.hpp shows them.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cell_key.hpp"
#include "document_reader.hpp"
#include "ratio.hpp"
#include "result.hpp"

namespace mla_bench {

// One document among those compared.
struct ComparedRun {
  std::string path;
  std::string started_at;
  std::string version;
  std::string commit;
  bool dirty = false;
  std::string label;  // for people: date and commit, or the path where those do not tell it apart
};

struct ComparedDevice {
  Place place;
  std::string label;  // its name, with a part of its UUID where the name is not its own
};

struct ComparedCell {
  std::size_t run = 0;     // index
  std::size_t device = 0;  // index
  CellKey key;
  std::string id;  // in its document
  Status status = Status::kSkipped;
  std::string reason;
  // Only of a passed cell: no time is shown for a wrong output, nor compared if it is not trusted.
  std::optional<Summary> summary;
  std::vector<double> round_medians_ns;
  std::vector<std::pair<std::int64_t, std::int64_t>> round_turns;  // of each of them
  // The cell it is told against, which may be itself, and that cell's time over this one's.
  std::optional<std::size_t> reference;
  std::optional<Ratio> speed;
};

// Two cells of the same work, the faster by the estimate first.
struct Finding {
  std::size_t faster = 0;
  std::size_t slower = 0;
  Ratio ratio;  // slower / faster, from 1 up
};

// Two variants, the same work, two devices: what is faster on one is slower on the other, on both
// beyond doubt.
struct RankingFlip {
  Finding here;
  Finding there;  // its faster cell has the variant of here.slower, its slower that of here.faster
};

// What the cells are told against: the cell of the same work with this variant on the same device,
// or with the same variant on this device or in this document.
struct SpeedReference {
  enum class Kind { kVariant, kDevice, kRun } kind = Kind::kVariant;
  std::string name;  // the variant; the device's uuid; the run's path
  Place place = {};  // of kDevice: a CPU is another device with other threads
};

struct DocumentComparison {
  std::vector<ComparedRun> runs;
  std::vector<ComparedDevice> devices;
  std::vector<ComparedCell> cells;  // in the order of the documents
  SpeedReference reference;
  std::vector<Finding> findings;  // each cell and its reference; the two fastest of a device
  std::vector<RankingFlip> flips;
  std::vector<std::string> notes;  // what is not compared and why, a line each
  bool tells_runs_apart = false;   // a cell stands in several documents
  // Some cell, and of several documents each, stands beside another of the same work.
  bool is_comparable = false;
};

// `reference` is a variant, the name, UUID or label of a device, or the path of one of the
// documents; where it is left out, the first document if another has cells of the same work and
// variant, else the first variant, or else the first device. Throws UsageError where it is none of
// them or several.
DocumentComparison compare(std::span<const RecordedDocument> documents,
                           const std::optional<std::string>& reference);

}  // namespace mla_bench
