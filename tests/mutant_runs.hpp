// Runs every mutant as a user would, by the whole program from outside, and says what caught it.
#pragma once

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "build_facts.hpp"
#include "json.hpp"
#include "mutants.hpp"
#include "output_file.hpp"

namespace mla_bench {

// Whether the reason has one of the parts that stand between bars.
inline bool says_one_of(const std::string& reason, std::string_view parts) {
  const std::size_t bar = parts.find('|');
  return reason.find(parts.substr(0, bar)) != std::string::npos ||
         (bar != std::string_view::npos && says_one_of(reason, parts.substr(bar + 1)));
}

// What caught a mutant, by the result of its cell; empty where nothing did as it should.
inline std::string caught_by(const Mutant& mutant, const Result& result) {
  const bool as_expected = name_of(result.status) == mutant.status && !mutant.status.empty() &&
                           says_one_of(result.reason, mutant.says);
  const bool is_silent = result.status == Status::kPassed || result.reason.empty();
  if (!as_expected || is_silent || result.summary) {
    return "";
  }
  const bool is_late = result.recheck && !result.recheck->passed;
  const std::optional<Check>& check = is_late ? result.recheck : result.check;
  if (!check || check->passed) {
    return "";
  }
  const std::string when = is_late ? " after timing" : "";
  const auto says = [&result](std::string_view part) {
    return result.reason.find(part) != std::string::npos;
  };
  if (says("unwritten") || says(kNeverWritten)) {
    return "poison" + when;
  }
  if (says(kKept)) {
    return "other inputs" + when;
  }
  if (says("guard band")) {
    return "guard bands" + when;
  }
  if (says("it changed its input")) {
    return "inputs compared" + when;
  }
  if (says(kOutlier)) {
    return "outlier limit" + when;
  }
  if (says(kTogether)) {
    return "Frobenius error" + when;
  }
  return (says("differ from the exact answer") ? "equal bits" : "bound of an element") + when;
}

// One line of the table.
struct Caught {
  Mutant mutant;
  std::string command;  // without the program
  Result result;
  std::string by;
};

// The program and the device that the mutants of one backend run on.
struct MutantRig {
  std::string program;
  std::string device;  // value of --device
  std::string batch;   // a shape that is quick there
  int seq = 0;         // one more where a mutant is ragged
  int model_dim = 0;   // the same
  std::string more;    // further options
};

// The cells of one run by variant, and its exit code.
struct MutantRun {
  int exit_code = -1;
  std::map<std::string, Result> cells;
};

inline MutantRun run_mutants(const MutantRig& rig, const std::string& options) {
  namespace fs = std::filesystem;
  const fs::path path =
      fs::temp_directory_path() / ("mla-bench-mutants-" + std::to_string(getpid()) + ".json");
  const std::string command =
      "'" + rig.program + "' " + options + " --quiet --json '" + path.string() + "' " + rig.more;
  const int status = std::system(command.c_str());
  MutantRun run{.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1, .cells = {}};
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const Json document = parse_json(text, path.string());
  for (const Json& cell : document.at("cells")) {
    const Result result = result_from_json(cell);
    run.cells.emplace(result.cell.variant, result);
  }
  fs::remove(path);
  return run;
}

inline std::string options_of(const MutantRig& rig, const Mutant& mutant,
                              const std::string& variants) {
  const int more = mutant.ragged ? 1 : 0;
  constexpr int kLargeSeq = 80000;
  const int seq = mutant.large ? kLargeSeq : rig.seq + more;
  return "--variant " + variants + " --device " + rig.device + " --precision " +
         std::string(name_of(mutant.precision)) + " --inputs " + std::string(mutant.inputs) +
         " --batch " + rig.batch + " --seq " + std::to_string(seq) + " --model-dim " +
         std::to_string(rig.model_dim + more);
}

// Every mutant of the backend. Those run alike share a run, behind `right`; but the one that robs
// `right` must stand next to it, and the one whose damage comes after its own cell must stand
// alone.
template <typename CheckRun>
std::vector<Caught> catch_mutants(const MutantRig& rig, Backend backend, CheckRun check_run) {
  std::map<std::tuple<Precision, std::string_view, bool, bool, std::string_view>,
           std::vector<Mutant>>
      runs;
  for (const Mutant& mutant : kMutants) {
    if (backend == Backend::kCpu ? mutant.on_cpu : mutant.on_gpu) {
      const bool is_alone = mutant.recipe.defect == Defect::kWritesLate ||
                            mutant.recipe.defect == Defect::kStealsOutput;
      runs[{mutant.precision, mutant.inputs, mutant.ragged, mutant.large,
            is_alone ? mutant.name : ""}]
          .push_back(mutant);
    }
  }
  std::vector<Caught> all;
  for (const auto& [key, mutants] : runs) {
    const bool has_right = mutants.front().precision == Precision::kFp32;
    std::string variants = has_right ? "right" : "";
    for (const Mutant& mutant : mutants) {
      variants += (variants.empty() ? "" : ",") + std::string(mutant.name);
    }
    const MutantRun run = run_mutants(rig, options_of(rig, mutants.front(), variants));
    check_run(run, has_right);
    for (const Mutant& mutant : mutants) {
      const auto found = run.cells.find(std::string(mutant.name));
      Caught caught{.mutant = mutant,
                    .command = options_of(rig, mutant, std::string(mutant.name)),
                    .result = {},
                    .by = ""};
      if (found != run.cells.end()) {
        caught.result = found->second;
        caught.by = caught_by(mutant, found->second);
      }
      all.push_back(std::move(caught));
    }
  }
  return all;
}

// The table as JSON, in the order of kMutants.
inline void write_mutant_table(const std::string& path, Backend backend,
                               const std::vector<Caught>& all) {
  Json table{{"schema", "mla-bench-mutants/1"},
             {"backend", name_of(backend)},
             {"commit", build_facts().commit},
             {"dirty", build_facts().dirty},
             {"mutants", Json::array()}};
  std::int64_t count = 0;
  for (const Mutant& mutant : kMutants) {
    for (const Caught& caught : all) {
      if (caught.mutant.name == mutant.name) {
        count += caught.by.empty() ? 0 : 1;
        table["mutants"].push_back({{"mutant", mutant.name},
                                    {"fault", mutant.fault},
                                    {"command", caught.command},
                                    {"status", name_of(caught.result.status)},
                                    {"caught_by", caught.by},
                                    {"message", caught.result.reason}});
      }
    }
  }
  table["planted"] = all.size();
  table["caught"] = count;
  write_whole_file(path, table.dump(1) + "\n");
}

// Where the table goes: MLA_BENCH_MUTANT_TABLE, or `otherwise`.
inline std::string mutant_table_path(const std::string& otherwise) {
  const char* asked = std::getenv("MLA_BENCH_MUTANT_TABLE");
  return asked != nullptr ? asked : otherwise;
}

// Each of them, with the message that its line in the table promises; writes what caught it to
// `path`.
inline void expect_all_caught(const std::vector<Caught>& all, Backend backend,
                              const std::string& path) {
  EXPECT_GE(all.size(), 24u);
  for (const Caught& caught : all) {
    EXPECT_NE(caught.by, "") << caught.mutant.name << " (" << caught.mutant.fault << ") is "
                             << name_of(caught.result.status) << ": " << caught.result.reason
                             << "\nexpected: " << caught.mutant.says;
  }
  write_mutant_table(path, backend, all);
}

}  // namespace mla_bench
