// Documents as a gate's evidence: for each cell what every fresh process found of it, and under
// which circumstances.
//
// The unit of evidence is the process, not the round: two runs of the same code on one H200 lie up
// to 0.3 % apart though the rounds inside each agree to 0.01 % (results/h200/repeat/), so rounds
// would make a gate certain of what is only another start.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cell_key.hpp"
#include "document_reader.hpp"

namespace mla_bench {

struct ProcessFinding {
  Status status = Status::kSkipped;
  std::string reason;
  double ns = 0;  // median of its samples, per launch; only where the status is kPassed
  std::int64_t rounds = 0;
  bool unfit = false;                // throttled, or others were on the GPU
  bool is_witnessed = false;         // the second witness was asked, or cold was to be proven
  bool is_doubted = false;           // and the time is not to be believed
  std::optional<double> anchors_ns;  // geometric mean of the anchors beside it
  std::optional<double> clock_mhz;   // SM clock over its passes, the mean of the rounds
  // Of the check, where one was made.
  std::optional<double> error_over_bound;
  std::optional<double> frobenius_error;
};

// Names and values that must be the same for two times to be of the same circumstances.
using Facts = std::vector<std::pair<std::string, std::string>>;

struct CellEvidence {
  CellKey key;
  std::string device_name;
  Facts device;  // GPU, driver, clocks, power limit...
  Facts build;   // compilers and flags
  // In the order of the processes; one whose document does not hold the cell has kSkipped.
  std::vector<ProcessFinding> processes;
  std::vector<std::string> concurrent_with;  // UUIDs, as of a Cell
  std::string anchors;   // what the anchors were made from; empty where there were none
  std::string conflict;  // how the documents' own circumstances differ; empty where they agree
};

// The cells in the order in which they first stand. A document is one process, or as many as its
// rounds name.
std::vector<CellEvidence> evidence_of(std::span<const RecordedDocument> documents);

// "driver 580.159.04 instead of 570.10": how `now` differs from `then`; empty where it does not.
std::string differences(const Facts& then, const Facts& now);

// One document of several runs of the same program on the same machine: the devices of the first,
// and every round of the runs in which a cell passed, marked by its run; what did not pass there is
// no evidence, unless the cell passed in none. Throws std::invalid_argument where there is none.
Document merge_runs(std::span<const RecordedDocument> runs);

}  // namespace mla_bench
