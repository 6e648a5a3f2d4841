#include "json.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace mla_bench {
namespace {

constexpr std::array kL2States{L2State::kHot, L2State::kCold};
constexpr std::array kStatuses{Status::kPassed, Status::kIncorrect, Status::kFailed,
                               Status::kSkipped, Status::kUntrusted};
constexpr std::array kMethods{CheckMethod::kFull, CheckMethod::kDevice, CheckMethod::kProjection};

Json to_json(const Extent3& extent) {
  return Json::array({extent.x, extent.y, extent.z});
}

Extent3 extent_from_json(const Json& json, const char* key) {
  const auto sizes = get<std::vector<std::int64_t>>(json, key);
  if (sizes.size() != 3) {
    throw UsageError("key '" + std::string(key) + "' has not three sizes");
  }
  return {.x = sizes[0], .y = sizes[1], .z = sizes[2]};
}

Problem problem_from_json(const Json& json) {
  return {.batch = get<std::int64_t>(json, "batch"),
          .seq = get<std::int64_t>(json, "seq"),
          .model_dim = get<std::int64_t>(json, "model_dim"),
          .rank = get<std::int64_t>(json, "rank"),
          .kv_heads = get<std::int64_t>(json, "kv_heads"),
          .head_dim = get<std::int64_t>(json, "head_dim")};
}

Planted planted_from_json(const Json& json) {
  const std::optional<std::string> text = get_optional<std::string>(json, "planted");
  const std::optional<Planted> planted = text ? planted_from(*text) : Planted{};
  if (!planted) {
    throw UsageError("key 'planted' has the unknown value " + in_quotes(*text));
  }
  return *planted;
}

InputSource inputs_from_json(const Json& json) {
  InputSource inputs;
  inputs.file = get_optional<std::string>(json, "file");
  if (inputs.file) {
    inputs.content = get_optional<std::string>(json, "content").value_or("");
  } else {
    inputs.distribution = get_named<Distribution>(json, "distribution", kDistributions);
    inputs.seed = get<std::uint64_t>(json, "seed");
  }
  return inputs;
}

Check check_from_json(const Json& json) {
  Check check;
  check.method = get_named<CheckMethod>(json, "method", kMethods);
  check.passed = get<bool>(json, "passed");
  check.reason = get<std::string>(json, "reason");
  check.elements = get<std::int64_t>(json, "elements");
  check.wrong_elements = get<std::int64_t>(json, "wrong_elements");
  check.projected_rows = get<std::int64_t>(json, "projected_rows");
  check.max_error_over_bound = get_optional<double>(json, "max_error_over_bound").value_or(NAN);
  check.frobenius_error = get_optional<double>(json, "frobenius_error").value_or(NAN);
  check.frobenius_error_limit = get_optional<double>(json, "frobenius_error_limit");
  check.bit_exact = get<bool>(json, "bit_exact");
  if (const Json* found = find_member(json, "worst")) {
    const Json& worst = *found;
    check.worst = WorstElement{
        .is_v = get<std::string>(worst, "tensor") == "v",
        .batch = get<std::int64_t>(worst, "batch"),
        .seq = get<std::int64_t>(worst, "seq"),
        .head = get<std::int64_t>(worst, "head"),
        .dim = get<std::int64_t>(worst, "dim"),
        .actual = get_optional<double>(worst, "actual").value_or(NAN),
        .expected = get_optional<double>(worst, "expected").value_or(NAN),
        .bound = get_optional<double>(worst, "bound").value_or(NAN),
    };
  }
  return check;
}

KernelFacts kernel_from_json(const Json& json) {
  return {.name = get<std::string>(json, "name"),
          .grid = extent_from_json(json, "grid"),
          .block = extent_from_json(json, "block"),
          .cluster = extent_from_json(json, "cluster"),
          .shared_bytes = get<std::int64_t>(json, "shared_bytes"),
          .registers = get<int>(json, "registers"),
          .local_bytes = get<std::int64_t>(json, "local_bytes"),
          .blocks_per_sm = get<int>(json, "blocks_per_sm")};
}

KernelCounts counts_from_json(const Json& json) {
  KernelCounts counts;
  counts.missing = get_optional<std::string>(json, "missing").value_or("");
  if (counts.missing.empty()) {
    counts.captured = get<std::int64_t>(json, "captured");
    counts.called = get<std::int64_t>(json, "called");
    counts.escaped = get<std::int64_t>(json, "escaped");
  }
  return counts;
}

std::optional<GpuState> optional_state(const Json& json, const char* key) {
  const Json* state = find_member(json, key);
  return state != nullptr ? std::optional(state_from_json(*state)) : std::nullopt;
}

Json to_json(const Floors& floors) {
  return {{"empty_ns", floors.empty_ns}, {"touch_ns", floors.touch_ns}};
}

Json to_json(const ColdProof& proof) {
  return {{"sets", proof.sets},
          {"period_ns", proof.period_ns},
          {"more_sets", proof.more_sets},
          {"more_sets_period_ns", proof.more_sets_period_ns}};
}

Json to_json(const KernelCounts& counts) {
  if (!counts.missing.empty()) {
    return {{"missing", counts.missing}};
  }
  return {{"captured", counts.captured}, {"called", counts.called}, {"escaped", counts.escaped}};
}

Json to_json(const Summary& summary) {
  return {{"median_ns", summary.median_ns},
          {"min_ns", summary.min_ns},
          {"mad_ns", summary.mad_ns},
          // One round says nothing of its own spread: no interval.
          {"ci95_low_ns", finite(summary.ci95_low_ns)},
          {"ci95_high_ns", finite(summary.ci95_high_ns)},
          {"samples", summary.samples},
          {"resolution_ns", summary.resolution_ns}};
}

}  // namespace

Json to_json(const Problem& problem) {
  return {{"batch", problem.batch},         {"seq", problem.seq},
          {"model_dim", problem.model_dim}, {"rank", problem.rank},
          {"kv_heads", problem.kv_heads},   {"head_dim", problem.head_dim}};
}

Json to_json(const InputSource& inputs) {
  if (inputs.file) {
    Json json{{"file", *inputs.file}};
    if (!inputs.content.empty()) {
      json["content"] = inputs.content;
    }
    return json;
  }
  return {{"distribution", name_of(inputs.distribution)}, {"seed", inputs.seed}};
}

Json to_json(const Cell& cell) {
  Json json{{"id", cell.id()},
            {"variant", cell.variant},
            {"backend", name_of(cell.backend)},
            {"ordinal", cell.ordinal},
            {"device", cell.device},
            {"threads", cell.threads},
            {"precision", name_of(cell.precision)},
            {"l2", name_of(cell.l2)},
            {"problem", to_json(cell.problem)},
            {"inputs", to_json(cell.inputs)}};
  if (!cell.concurrent_with.empty()) {
    json["concurrent_with"] = cell.concurrent_with;
  }
  if (cell.copy != 0) {
    json["copy"] = cell.copy;
  }
  if (cell.planted != Planted{}) {
    json["planted"] = text_of(cell.planted);
  }
  return json;
}

Json to_json(const Check& check) {
  Json json{{"method", name_of(check.method)},
            {"passed", check.passed},
            {"reason", check.reason},
            {"elements", check.elements},
            {"wrong_elements", check.wrong_elements},
            {"projected_rows", check.projected_rows},
            {"max_error_over_bound", finite(check.max_error_over_bound)},
            {"frobenius_error", finite(check.frobenius_error)},
            {"bit_exact", check.bit_exact}};
  if (check.frobenius_error_limit) {
    json["frobenius_error_limit"] = *check.frobenius_error_limit;
  }
  if (check.worst) {
    const WorstElement& worst = *check.worst;
    json["worst"] = {{"tensor", worst.is_v ? "v" : "k"},
                     {"batch", worst.batch},
                     {"seq", worst.seq},
                     {"head", worst.head},
                     {"dim", worst.dim},
                     {"actual", finite(worst.actual)},
                     {"expected", finite(worst.expected)},
                     {"bound", finite(worst.bound)}};
  }
  return json;
}

Json to_json(const KernelFacts& kernel) {
  return {{"name", kernel.name},
          {"grid", to_json(kernel.grid)},
          {"block", to_json(kernel.block)},
          {"cluster", to_json(kernel.cluster)},
          {"shared_bytes", kernel.shared_bytes},
          {"registers", kernel.registers},
          {"local_bytes", kernel.local_bytes},
          {"blocks_per_sm", kernel.blocks_per_sm}};
}

Json to_json(const Anchors& anchors) {
  return {{"copy_ns", anchors.copy_ns}, {"fma_ns", anchors.fma_ns}, {"source", anchors.source}};
}

Json to_json(const Round& round) {
  Json json{{"short_launches", round.short_launches},
            {"long_launches", round.long_launches},
            {"short_ns", round.short_ns},
            {"long_ns", round.long_ns},
            {"samples_ns", round.samples_ns}};
  if (round.process != 0) {
    json["process"] = round.process;
  }
  if (round.retaken_samples != 0) {
    json["retaken_samples"] = round.retaken_samples;
  }
  if (!round.clock_mhz.empty()) {
    json["clock_mhz"] = round.clock_mhz;
    json["slow_clock_samples"] = round.slow_clock_samples;
  }
  if (round.before) {
    json["before"] = to_json(*round.before);
  }
  if (round.after) {
    json["after"] = to_json(*round.after);
  }
  if (round.anchors) {
    json["anchors"] = to_json(*round.anchors);
  }
  return json;
}

Json to_json(const Referee& referee) {
  Json json;
  if (!referee.missing.empty()) {
    json["missing"] = referee.missing;
  } else {
    json = {{"duration_ns", referee.duration_ns},
            {"gap_ns", referee.gap_ns},
            {"empty_gap_ns", referee.empty_gap_ns},
            {"band_ns", referee.band_ns}};
  }
  if (referee.counts) {
    json["kernels"] = to_json(*referee.counts);
  }
  return json;
}

Json to_json(const Result& result) {
  Json json = to_json(result.cell);
  json["status"] = name_of(result.status);
  json["reason"] = result.reason;
  if (result.check) {
    json["check"] = to_json(*result.check);
  }
  if (result.recheck) {
    json["recheck"] = to_json(*result.recheck);
  }
  json["kernels"] = Json::array();
  for (const KernelFacts& kernel : result.kernels) {
    json["kernels"].push_back(to_json(kernel));
  }
  json["choice"] = result.choice;
  if (result.floors) {
    json["floors"] = to_json(*result.floors);
  }
  put(json, "api_latency_ns", result.api_latency_ns);
  if (result.roofline) {
    json["roofline"] = {{"ns", result.roofline->ns},
                        {"bound", result.roofline->by_memory ? "memory" : "arithmetic"}};
  }
  if (result.cold_proof) {
    json["cold_proof"] = to_json(*result.cold_proof);
  }
  if (result.referee) {
    json["referee"] = to_json(*result.referee);
  }
  if (result.planted_work) {
    Json work{{"spin_ns", result.planted_work->spin_ns},
              {"launches", result.planted_work->launches}};
    put(work, "slow_down", result.planted_work->slow_down);
    json["planted_work"] = std::move(work);
  }
  json["rounds"] = Json::array();
  for (const Round& round : result.rounds) {
    json["rounds"].push_back(to_json(round));
  }
  if (result.summary) {
    json["summary"] = to_json(*result.summary);
  }
  json["command"] = command_of(result.cell);
  return json;
}

Cell cell_from_json(const Json& json) {
  return {.variant = get<std::string>(json, "variant"),
          .backend = get_named<Backend>(json, "backend", kBackends),
          .ordinal = get<int>(json, "ordinal"),
          .device = get<std::string>(json, "device"),
          .threads = get<int>(json, "threads"),
          .precision = get_named<Precision>(json, "precision", kPrecisions),
          .l2 = get_named<L2State>(json, "l2", kL2States),
          .problem = problem_from_json(member(json, "problem")),
          .inputs = inputs_from_json(member(json, "inputs")),
          .concurrent_with = get_optional<std::vector<std::string>>(json, "concurrent_with")
                                 .value_or(std::vector<std::string>{}),
          .copy = get_optional<int>(json, "copy").value_or(0),
          .planted = planted_from_json(json)};
}

Anchors anchors_from_json(const Json& json) {
  Anchors anchors{.copy_ns = get<double>(json, "copy_ns"),
                  .fma_ns = get<double>(json, "fma_ns"),
                  .source = get<std::string>(json, "source")};
  if (!(anchors.copy_ns > 0) || !(anchors.fma_ns > 0)) {
    throw UsageError("a time of the anchors is not positive");
  }
  return anchors;
}

Round round_from_json(const Json& json) {
  const Json* anchors = find_member(json, "anchors");
  const std::int64_t retaken = get_optional<std::int64_t>(json, "retaken_samples").value_or(0);
  if (retaken < 0) {
    throw UsageError("retaken_samples is negative");
  }
  return {
      .process = get_optional<std::int64_t>(json, "process").value_or(0),
      .short_launches = get<std::int64_t>(json, "short_launches"),
      .long_launches = get<std::int64_t>(json, "long_launches"),
      .short_ns = get<std::vector<double>>(json, "short_ns"),
      .long_ns = get<std::vector<double>>(json, "long_ns"),
      .samples_ns = get<std::vector<double>>(json, "samples_ns"),
      .retaken_samples = retaken,
      .clock_mhz =
          get_optional<std::vector<double>>(json, "clock_mhz").value_or(std::vector<double>{}),
      .slow_clock_samples = get_optional<std::vector<std::int64_t>>(json, "slow_clock_samples")
                                .value_or(std::vector<std::int64_t>{}),
      .before = optional_state(json, "before"),
      .after = optional_state(json, "after"),
      .anchors = anchors != nullptr ? std::optional(anchors_from_json(*anchors)) : std::nullopt};
}

Referee referee_from_json(const Json& json) {
  Referee referee;
  if (json.contains("kernels")) {
    referee.counts = counts_from_json(json.at("kernels"));
  }
  referee.missing = get_optional<std::string>(json, "missing").value_or("");
  if (referee.missing.empty()) {
    referee.duration_ns = get<double>(json, "duration_ns");
    referee.gap_ns = get<double>(json, "gap_ns");
    referee.empty_gap_ns = get<double>(json, "empty_gap_ns");
    referee.band_ns = get<double>(json, "band_ns");
  }
  return referee;
}

Result result_from_json(const Json& json) {
  Result result;
  result.cell = cell_from_json(json);
  result.status = get_named<Status>(json, "status", kStatuses);
  result.reason = get<std::string>(json, "reason");
  if (const Json* check = find_member(json, "check")) {
    result.check = check_from_json(*check);
  }
  if (const Json* recheck = find_member(json, "recheck")) {
    result.recheck = check_from_json(*recheck);
  }
  for (const Json& kernel : member(json, "kernels")) {
    result.kernels.push_back(kernel_from_json(kernel));
  }
  result.choice = get<std::string>(json, "choice");
  if (const Json* floors = find_member(json, "floors")) {
    result.floors = Floors{.empty_ns = get<double>(*floors, "empty_ns"),
                           .touch_ns = get<double>(*floors, "touch_ns")};
  }
  result.api_latency_ns = get_optional<double>(json, "api_latency_ns");
  if (const Json* line = find_member(json, "roofline")) {
    result.roofline = Roofline{.ns = get<double>(*line, "ns"),
                               .by_memory = get<std::string>(*line, "bound") == "memory"};
  }
  if (const Json* proof = find_member(json, "cold_proof")) {
    result.cold_proof =
        ColdProof{.sets = get<std::int64_t>(*proof, "sets"),
                  .period_ns = get<double>(*proof, "period_ns"),
                  .more_sets = get<std::int64_t>(*proof, "more_sets"),
                  .more_sets_period_ns = get<double>(*proof, "more_sets_period_ns")};
  }
  if (const Json* referee = find_member(json, "referee")) {
    result.referee = referee_from_json(*referee);
  }
  if (const Json* work = find_member(json, "planted_work")) {
    result.planted_work = PlantedWork{.spin_ns = get<double>(*work, "spin_ns"),
                                      .launches = get<std::int64_t>(*work, "launches"),
                                      .slow_down = get_optional<double>(*work, "slow_down")};
  }
  for (const Json& round : member(json, "rounds")) {
    result.rounds.push_back(round_from_json(round));
  }
  const bool has_samples =
      std::any_of(result.rounds.begin(), result.rounds.end(),
                  [](const Round& round) { return !round.samples_ns.empty(); });
  if (find_member(json, "summary") != nullptr && has_samples) {
    result.summary = summarize(result.rounds);  // derived, so never trusted from a file
  }
  return result;
}

}  // namespace mla_bench
