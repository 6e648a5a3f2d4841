// Fresh processes that take turns, and their documents as evidence: what gate and selftest measure.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "console.hpp"
#include "document_reader.hpp"
#include "errors.hpp"
#include "gate.hpp"
#include "options.hpp"
#include "planted.hpp"

namespace mla_bench {

// A series of pairs is looked at after so many, and after each kLookEvery more.
inline constexpr int kFirstLook = 5;
inline constexpr int kLookEvery = 4;

// How often a series of at most so many pairs is looked at.
int looks_of(int most_pairs);

// A process that left no document to judge.
class ProcessFailed : public std::runtime_error {
 public:
  ProcessFailed(const std::string& what, ExitCode ends_with)
      : std::runtime_error(what), code(ends_with) {}
  ExitCode code;
};

// A folder for the processes' documents; gone with it, unless the user named one.
class DocumentFolder {
 public:
  explicit DocumentFolder(const std::optional<std::string>& kept);
  ~DocumentFolder();
  DocumentFolder(const DocumentFolder&) = delete;
  DocumentFolder& operator=(const DocumentFolder&) = delete;

  std::string next(std::string_view side);

 private:
  bool is_kept_;
  std::string path_;
  int count_ = 0;
};

// One run of mla-bench: its words, and which copies of each of its cells (none: the cell itself).
struct CellRun {
  std::vector<std::string> words;
  std::vector<int> copies;
};

// The cells as as few runs as their lists allow: those that differ on one axis alone become one.
// Cells of a variant that this build does not have are left out.
std::vector<CellRun> runs_of(std::span<const CellEvidence> cells);

enum class Side { kBaseline, kCandidate };

class Runner {
 public:
  // `plants` are in the candidate's copies; the baseline's have nothing.
  Runner(const SeriesOptions& options, std::vector<CellRun> runs, std::map<int, Planted> plants);

  // From now on these runs only.
  void limit_to(std::vector<CellRun> runs) { runs_ = std::move(runs); }

  // One fresh process of `program` for each run, as one document. Where it is not the `whole`, it
  // lacks what stands beside a time, unless the program is too old to know how. Throws
  // ProcessFailed.
  RecordedDocument measure(const std::string& program, Side side, bool whole,
                           const std::string& progress);

 private:
  RecordedDocument measure_run(const std::string& program, Side side, bool whole,
                               const CellRun& run);
  std::vector<std::string> words_of(Side side, bool whole, const CellRun& run,
                                    const std::string& path) const;

  const SeriesOptions& options_;
  std::vector<CellRun> runs_;
  std::map<int, Planted> plants_;
  DocumentFolder folder_;
  ProgressLine progress_;
  bool is_old_baseline_ = false;  // it does not know --times-only
};

// What was measured.
struct Series {
  std::vector<RecordedDocument> baseline;  // of the program that took turns
  std::vector<RecordedDocument> candidate;
  GateResult result;
};

// This program.
inline constexpr const char* kThisProgram = "/proc/self/exe";

// This program in `processes` fresh processes, against documents.
Series measure_candidate(Runner& runner, std::span<const CellEvidence> baseline, int processes,
                         const GateRules& rules);

// Both programs in turns, from one look to the next until nothing is left to learn or `most` pairs
// are taken. After a look only the cells that it left open are measured again. The first process
// of each side is whole, with floors and second witness; the others take times only.
Series measure_pairs(Runner& runner, const std::string& old_program, int first_look, int most,
                     const GateRules& rules);

// Calls a regression only if a series of its own, of the cells in question, repeats it. A series of
// pairs begins its looks where the first one ended, or a regression that was found by a lucky look
// would mostly be lost again.
void confirm(Runner& runner, Series& series, const std::function<Series()>& measure_again);

}  // namespace mla_bench
