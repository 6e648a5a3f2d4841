// mla-bench gate: gathers evidence from documents or fresh processes, judges it, reports.
#include <algorithm>
#include <filesystem>

#include "commands.hpp"
#include "console.hpp"
#include "document.hpp"
#include "document_reader.hpp"
#include "errors.hpp"
#include "gate_series.hpp"
#include "noise_cache.hpp"
#include "output_file.hpp"
#include "text.hpp"

namespace mla_bench {
namespace {

namespace fs = std::filesystem;

constexpr int kProcesses = 5;
constexpr int kMostPairs = 21;
constexpr double kAlphaOfSeries = 0.01;

std::string count_words(std::size_t count) {
  return std::to_string(count) + (count == 1 ? " process" : " processes");
}

std::string file_words(std::span<const std::string> files) {
  return files.size() == 1 ? files.front()
                           : files.front() + " and " + std::to_string(files.size() - 1) + " more";
}

void update_baseline(const GateOptions& options, const Series& series,
                     std::span<const char* const> argv, ExitCode code) {
  if (code != ExitCode::kFine) {
    print_note("the baseline stays as it is: not all is well");
    return;
  }
  Document merged = merge_runs(series.candidate);
  merged.argv.assign(argv.begin(), argv.end());
  merged.argv.front() = fs::path(merged.argv.front()).filename().string();
  write_whole_file(options.baselines.front(), to_text(merged));
  print_note("wrote the baseline " + printable(options.baselines.front()) + " from " +
             count_words(series.candidate.size()));
}

// To be known before anything is measured.
void check_outputs(const GateOptions& options) {
  if (options.output) {
    check_can_be_written(*options.output);
  }
  if (options.update) {
    check_can_be_written(options.baselines.front());
  }
}

}  // namespace

int gate_command(const GateOptions& options, std::span<const char* const> argv) {
  Series series;
  GateHeading heading{.baseline = "", .candidate = "this build", .strict = options.strict};
  GateRules rules = options.rules;
  rules.noise = kept_noise(utc_now());
  rules.is_confirmed = options.confirm && options.candidates.empty();
  if (options.against) {
    check_outputs(options);
    const int most = options.processes.value_or(kMostPairs);
    rules.alpha = kAlphaOfSeries / looks_of(most);
    Runner runner(options.series, {{.words = options.cells, .copies = {}}}, {});
    series = measure_pairs(runner, *options.against, kFirstLook, most, rules);
    heading.baseline = *options.against + ", " + count_words(series.baseline.size()) + " of each";
    if (options.confirm) {
      const auto pairs = static_cast<int>(series.baseline.size());
      confirm(runner, series,
              [&] { return measure_pairs(runner, *options.against, pairs, most, rules); });
    }
  } else {
    std::vector<std::string> files = options.baselines;
    files.insert(files.end(), options.candidates.begin(), options.candidates.end());
    // Of both sides together, since a run that stands on both is refused too.
    const std::vector<RecordedDocument> documents = read_documents(files, Detail::kAll);
    const auto first_candidate =
        documents.begin() + static_cast<std::ptrdiff_t>(options.baselines.size());
    const std::vector<CellEvidence> evidence =
        evidence_of(std::span(documents.begin(), first_candidate));
    check_outputs(options);
    heading.baseline = file_words(options.baselines);
    if (!options.candidates.empty()) {
      series.candidate.assign(first_candidate, documents.end());
      series.result = judge(evidence, evidence_of(series.candidate), rules);
      heading.candidate = file_words(options.candidates);
    } else {
      const int processes = options.processes.value_or(kProcesses);
      Runner runner(options.series, runs_of(evidence), {});
      series = measure_candidate(runner, evidence, processes, rules);
      heading.candidate += " in " + count_words(series.candidate.size());
      if (options.confirm) {
        confirm(runner, series,
                [&] { return measure_candidate(runner, evidence, processes, rules); });
      }
    }
  }
  const ExitCode code = exit_code(series.result, options.strict);
  const GateFormat shown = options.output ? GateFormat::kText : options.format;
  print_result_after(
      [&] {
        if (options.output) {
          write_whole_file(*options.output, render(series.result, heading, options.format));
        }
        if (options.update) {
          update_baseline(options, series, argv, code);
        }
      },
      render(series.result, heading, shown));
  if (series.result.failure) {
    print_note(series.result.failure->why);
  }
  return static_cast<int>(code);
}

}  // namespace mla_bench
