// What the gate found of what was planted, beside what it promises: a pure function of its
// verdicts. selftest_command.cpp measures.
#pragma once

#include <array>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "document_reader.hpp"
#include "errors.hpp"
#include "gate.hpp"
#include "options.hpp"
#include "planted.hpp"

namespace mla_bench {

// Verdicts that are right on what was planted.
enum class Promise {
  kUnchanged,     // nothing planted: neither slower nor faster
  kNoRegression,  // half the threshold or less
  kNone,          // so near to the threshold that either verdict is right
  kRegression,    // two points above the threshold or more
  kIncorrect,     // a wrong output
};

Promise promise_on(const Planted& planted, double threshold);
std::string_view name_of(Promise promise);

enum class Outcome {
  kKept,       // the promise
  kUndecided,  // noise left it open
  kBroken,     // a false alarm, or something missed
  kNotTried,   // skipped, or wrong before anything was planted
};

inline constexpr std::array kOutcomes{Outcome::kKept, Outcome::kUndecided, Outcome::kBroken,
                                      Outcome::kNotTried};

std::string_view name_of(Outcome outcome);
Outcome outcome_of(Verdict verdict, Promise promise);

// The work that was planted in a cell, as its whole processes measured it; empty for others.
using PlantedParts = std::map<std::string, double>;  // by id_of(CellKey)
PlantedParts planted_parts(std::span<const RecordedDocument> candidate);

// Honest cells' spread from pair to pair.
struct HonestNoise {
  CellKey key;
  double deviation = 0;
};

struct TriedCell {
  JudgedCell judged;
  Planted planted;
  double measured_part = 0;  // of planted work
  Promise promise = Promise::kNone;
  Outcome outcome = Outcome::kNotTried;
};

struct SelftestResult {
  double threshold = 0;
  GateResult gate;
  std::vector<TriedCell> cells;  // in the gate's order
  std::vector<HonestNoise> noise;
  std::string not_kept;  // why the gate does not get this noise; empty where it does
  int pairs = 0;
  double seconds = 0;
};

// `plants` by the copies' numbers. The noise of a cell is that of its first honest copy.
SelftestResult selftest_of(const GateResult& gate, const std::map<int, Planted>& plants,
                           const PlantedParts& parts);

// kIncorrect where a cell with nothing planted is wrong, kNothingRan where not one was tried, else
// kUnfit, kRegression where a promise was broken, kInconclusive where noise left one open; or the
// series' failure, where that comes first.
ExitCode exit_code(const SelftestResult& result);

// Why the gate must not have this noise, which moves its thresholds for a month; empty where it
// may: of a machine that was calm enough, and of processes that measured no less than the gate's
// own.
std::string why_no_noise(const SelftestResult& result, const SeriesOptions& series);

// Tables for a terminal, or a JSON object that holds every cell.
std::string text_report(const SelftestResult& result);
std::string json_report(const SelftestResult& result);

}  // namespace mla_bench
