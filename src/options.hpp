// The command line as values. The only place that knows cxxopts.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "compare_report.hpp"
#include "export_formats.hpp"
#include "gate_report.hpp"
#include "inputs.hpp"
#include "result.hpp"

namespace mla_bench {

// A device as the user names it: auto, cpu, cuda:all, cuda:N, or a GPU's UUID or its beginning.
struct DeviceRequest {
  enum class Kind { kAuto, kCpu, kCudaAll, kCuda, kUuid } kind = Kind::kAuto;
  int ordinal = 0;   // of kCuda
  std::string uuid;  // of kUuid: "GPU-6750905a-23f5-d4d2-6f98-a08ebac8ba1b", "GPU-6750905a"
};

// How long and how often a run measures.
struct MeasuringOptions {
  std::optional<int> rounds;        // fixed; otherwise as many as the precision target needs
  int samples = 31;                 // of a round, at most
  bool times_only = false;          // leave out what stands beside a time: floors, second witness
  bool measure_plants = false;      // of selftest: by how much planted work slows launches down
  double precision_target = 0.005;  // half width of the 95 % interval over the median
  double time_budget_s = 60;        // for the whole run
  double warmup_s = 0.5;            // at most, for each cell; ends early when times have settled
  double timeout_s = 120;           // without an answer from the worker process
};

// One of several copies of each cell, and what selftest plants in it.
struct Copy {
  int number = 0;
  Planted planted;
};

struct RunOptions {
  std::vector<std::string> variants;  // empty: all
  std::vector<Precision> precisions;  // empty: fp32, or the input file's
  std::vector<DeviceRequest> devices;
  bool concurrent = false;  // the GPUs among them are measured at the same time
  std::vector<L2State> l2_states;
  // The product of these lists is the shapes of the run. A size that the user left alone has no
  // entry: the headline problem's, or the input file's.
  std::vector<std::int64_t> batch;
  std::vector<std::int64_t> seq;
  std::vector<std::int64_t> model_dim;
  std::vector<std::int64_t> rank;
  std::vector<std::int64_t> kv_heads;
  std::vector<std::int64_t> head_dim;
  InputSource inputs;
  std::optional<std::string> save;       // safetensors file for inputs and kv
  std::optional<std::string> json;       // file, "-" for stdout; unset: results/local/
  std::optional<std::string> reference;  // variant that the others' speed is told against
  std::optional<int> threads;            // OpenMP threads of CPU cells
  std::vector<Copy> copies;              // of each cell; none: the cell itself
  MeasuringOptions measuring;
  bool quiet = false;
  bool dry_run = false;
  bool force = false;        // run cells that are predicted to take too long
  bool strict = false;       // untrusted cells end with kInconclusive
  bool recalibrate = false;  // measure the devices' ceilings though they are known
  bool profile = false;      // launch each cell once for an outside profiler, and end
};

struct ListOptions {
  std::vector<DeviceRequest> devices;  // empty: all that are here
};

struct CompareOptions {
  std::vector<std::string> files;
  std::optional<std::string> reference;  // variant, device or one of the files
  Layout layout;
  CompareFormat format = CompareFormat::kText;
};

struct ExportOptions {
  std::vector<std::string> files;
  ExportFormat format;
  std::string output = "-";  // file, "-" for stdout
  bool aggregates = true;    // of gbench
};

// Fresh processes: how each measures, and what is kept of them.
struct SeriesOptions {
  int rounds = 2;              // of a cell in one process
  std::optional<int> samples;  // of a round; unset: a run's own default
  double warmup_s = 0.5;       // at most, for each cell of a process
  bool times_only = false;     // no process has floors and second witness, not even the first
  double timeout_s = 600;      // for one process
  bool quiet = false;
  std::optional<std::string> keep;  // folder for the documents of the processes
};

struct GateOptions {
  // One of the two: documents, or the program that the candidate takes turns with.
  std::vector<std::string> baselines;
  std::optional<std::string> against;
  std::vector<std::string> candidates;  // documents; none: this program is measured
  std::vector<std::string> cells;       // with `against`: what to run, as words of a run
  GateRules rules;
  std::optional<int> processes;  // of each side; with `against` the most of each
  SeriesOptions series;
  bool strict = false;                // inconclusive cells end with kInconclusive
  bool confirm = true;                // a regression must show in a second series too
  bool update = false;                // write what was measured as the new baseline; strict then
  std::optional<std::string> output;  // file of the report; stdout has the text then
  GateFormat format = GateFormat::kText;
};

struct SelftestOptions {
  std::vector<std::string> cells;  // what to run, as words of a run
  std::vector<Planted> plants;     // one copy of each cell for each
  double threshold = 0.03;
  int pairs = 9;  // at most
  SeriesOptions series;
  bool json = false;                  // instead of the table
  std::optional<std::string> output;  // file of the JSON report
};

// A text to print on stdout and end with kFine.
struct HelpOptions {
  std::string text;
};

// The process that runs cells for another one of this program; not for users.
struct WorkerOptions {
  int channel = -1;  // file descriptor
};

using Options = std::variant<RunOptions, CompareOptions, ExportOptions, GateOptions,
                             SelftestOptions, ListOptions, HelpOptions, WorkerOptions>;

// Reads a whole command line, program name first. Throws UsageError that names the option.
Options parse_options(std::span<const char* const> argv);

// As it stands on the command line.
std::string name_of(const DeviceRequest& request);

}  // namespace mla_bench
