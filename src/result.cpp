#include "result.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <stdexcept>

#include "statistics.hpp"
#include "text.hpp"

namespace mla_bench {

std::string_view name_of(L2State state) {
  return state == L2State::kHot ? "hot" : "cold";
}

std::string_view name_of(Status status) {
  switch (status) {
    case Status::kPassed:
      return "passed";
    case Status::kIncorrect:
      return "incorrect";
    case Status::kFailed:
      return "failed";
    case Status::kSkipped:
      return "skipped";
    case Status::kUntrusted:
      return "untrusted";
  }
  return "?";
}

std::string id_of(const Problem& problem) {
  const auto size = [](std::string_view name, std::int64_t value) {
    return std::string(name) + ":" + std::to_string(value);
  };
  return size("B", problem.batch) + "/" + size("S", problem.seq) + "/" +
         size("Dm", problem.model_dim) + "/" + size("R", problem.rank) + "/" +
         size("H", problem.kv_heads) + "/" + size("D", problem.head_dim);
}

std::string Cell::id() const {
  const std::string place = backend == Backend::kCuda ? device : std::string("cpu");
  return variant + "/" + place + "/" + id_of(problem) + "/" + std::string(name_of(precision)) +
         "/" + std::string(name_of(l2)) + (copy == 0 ? "" : "/copy:" + std::to_string(copy)) +
         concurrent_id(gpus_at_once(*this));
}

int gpus_at_once(const Cell& cell) {
  return 1 + static_cast<int>(cell.concurrent_with.size());
}

std::string concurrent_id(int gpus) {
  return gpus > 1 ? "/concurrent:" + std::to_string(gpus) : "";
}

bool Cell::shares_tensors_with(const Cell& other) const {
  return backend == other.backend && device == other.device && precision == other.precision &&
         problem == other.problem && inputs == other.inputs;
}

namespace {

double resolution_ns(const std::vector<Round>& rounds) {
  std::vector<double> passes;
  std::int64_t launches = std::numeric_limits<std::int64_t>::max();
  for (const Round& round : rounds) {
    passes.insert(passes.end(), round.short_ns.begin(), round.short_ns.end());
    passes.insert(passes.end(), round.long_ns.begin(), round.long_ns.end());
    launches = std::min(launches, round.long_launches - round.short_launches);
  }
  if (passes.empty() || launches < 1) {
    return 0;
  }
  // A GPU's times come in single precision, whose own steps are no ticks.
  const double rounding = static_cast<double>(std::numeric_limits<float>::epsilon()) *
                          *std::max_element(passes.begin(), passes.end());
  // CUDA events resolve about half a microsecond (cudaEventElapsedTime in the runtime API), a
  // host's clock less: among few passes a larger step is their spread.
  constexpr double kCoarsestTickNs = 500;
  return std::min(smallest_step(passes, rounding), kCoarsestTickNs) / static_cast<double>(launches);
}

}  // namespace

bool is_at_power_limit(const Round& round) {
  return (round.before && round.before->throttle.software_power_cap) ||
         (round.after && round.after->throttle.software_power_cap);
}

std::vector<double> round_medians_ns(const std::vector<Round>& rounds) {
  std::vector<double> medians;
  for (const Round& round : rounds) {
    if (!round.samples_ns.empty()) {
      medians.push_back(median(round.samples_ns));
    }
  }
  return medians;
}

std::vector<std::pair<std::int64_t, std::int64_t>> round_turns(const std::vector<Round>& rounds) {
  std::map<std::int64_t, std::int64_t> counts;  // by process
  std::vector<std::pair<std::int64_t, std::int64_t>> turns;
  for (const Round& round : rounds) {
    const std::int64_t turn = counts[round.process]++;
    if (!round.samples_ns.empty()) {
      turns.emplace_back(round.process, turn);
    }
  }
  return turns;
}

Summary summarize(const std::vector<Round>& rounds) {
  std::vector<double> samples;
  samples.reserve(rounds.empty() ? 0 : rounds.size() * rounds.front().samples_ns.size());
  for (const Round& round : rounds) {
    samples.insert(samples.end(), round.samples_ns.begin(), round.samples_ns.end());
  }
  if (samples.empty()) {
    throw std::invalid_argument("no samples to summarize");
  }
  Summary summary;
  summary.median_ns = median(samples);
  summary.min_ns = *std::min_element(samples.begin(), samples.end());
  summary.mad_ns = median_absolute_deviation(samples);
  summary.samples = static_cast<std::int64_t>(samples.size());
  const double half = half_width_95(round_medians_ns(rounds));
  summary.ci95_low_ns = summary.median_ns - half;
  summary.ci95_high_ns = summary.median_ns + half;
  summary.resolution_ns = resolution_ns(rounds);
  return summary;
}

std::string command_of(const Cell& cell) {
  const auto option = [](std::string_view name, const std::string& value) {
    return " --" + std::string(name) + " " + shell_word(value);
  };
  const Problem& problem = cell.problem;
  std::vector<std::string> devices = cell.concurrent_with;
  devices.insert(devices.begin(), cell.backend == Backend::kCuda ? cell.device : "cpu");
  std::string command = "mla-bench" + option("variant", cell.variant) +
                        option("device", join(devices, ",")) +
                        (devices.size() > 1 ? " --concurrent" : "");
  if (cell.backend == Backend::kCpu) {
    command += option("threads", std::to_string(cell.threads));
  }
  command += option("precision", std::string(name_of(cell.precision))) +
             option("l2", std::string(name_of(cell.l2)));
  if (cell.copy != 0 || cell.planted != Planted{}) {
    command += option("plant", std::to_string(cell.copy) + "=" + text_of(cell.planted));
  }
  if (cell.inputs.file) {
    return command + option("input", *cell.inputs.file) +
           option("kv-heads", std::to_string(problem.kv_heads)) +
           option("head-dim", std::to_string(problem.head_dim));
  }
  return command + option("batch", std::to_string(problem.batch)) +
         option("seq", std::to_string(problem.seq)) +
         option("model-dim", std::to_string(problem.model_dim)) +
         option("rank", std::to_string(problem.rank)) +
         option("kv-heads", std::to_string(problem.kv_heads)) +
         option("head-dim", std::to_string(problem.head_dim)) +
         option("inputs", std::string(name_of(cell.inputs.distribution))) +
         option("seed", std::to_string(cell.inputs.seed));
}

}  // namespace mla_bench
