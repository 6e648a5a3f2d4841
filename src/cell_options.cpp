#include "cell_options.hpp"

#include <algorithm>
#include <array>

namespace mla_bench {
namespace {

const OptionRow kDevice{"device", "LIST",
                        "auto, cpu, cuda:N, cuda:all, or UUIDs (default: auto, the first GPU, "
                        "else the CPU), one after the other"};

// The beginning of a GPU's UUID, as nvidia-smi -L prints it: "GPU-" or "MIG-", then hexadecimal
// digits and hyphens.
bool is_uuid(std::string_view text) {
  constexpr std::size_t kPrefix = 4;
  const auto is_part = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F') || c == '-';
  };
  return (text.starts_with("GPU-") || text.starts_with("MIG-")) && text.size() > kPrefix &&
         std::all_of(text.begin() + kPrefix, text.end(), is_part);
}

InputSource inputs_of(const Parsed& parsed) {
  InputSource source{
      .distribution = Distribution::kNormal, .seed = 0, .file = text_of(parsed, "input")};
  const std::vector<Distribution> chosen =
      values_of<Distribution>(parsed, "inputs", kDistributions);
  if (source.file && (!chosen.empty() || parsed.has("seed"))) {
    throw UsageError("--input reads every tensor from the file: leave out --inputs and --seed");
  }
  if (chosen.size() > 1) {
    throw UsageError("--inputs takes one distribution, not a list");
  }
  if (!chosen.empty()) {
    source.distribution = chosen.front();
  }
  if (const std::optional<std::string> seed = text_of(parsed, "seed")) {
    const std::optional<std::uint64_t> value = parse_unsigned(*seed);
    if (!value) {
      throw UsageError("--seed takes a whole number from 0 to 2^64 - 1, not '" + printable(*seed) +
                       "'");
    }
    source.seed = *value;
  }
  return source;
}

std::vector<L2State> l2_states_of(const Parsed& parsed) {
  const std::string text = text_of(parsed, "l2").value_or("hot");
  if (text == "both") {
    return {L2State::kHot, L2State::kCold};
  }
  if (text != "hot" && text != "cold") {
    throw UsageError("--l2 takes hot, cold or both, not '" + printable(text) + "'");
  }
  return {text == "hot" ? L2State::kHot : L2State::kCold};
}

}  // namespace

std::vector<OptionRow> cell_rows() {
  return {
      {"variant", "LIST", "variants by name, or all (see mla-bench list)"},
      {"precision", "LIST", "fp32, tf32, bf16, fp16 (default: fp32, or the input file's)"},
      kDevice,
      {"concurrent", nullptr, "all GPUs of --device at the same time, round by round"},
      {"l2", "STATE", "hot, cold or both: are operands in the last-level cache (default: hot)"},
      {"threads", "N", "OpenMP threads of CPU variants (default: all cores)"},
  };
}

std::vector<OptionRow> problem_rows() {
  return {
      {"batch", "LIST", "sequences"},
      {"seq", "LIST", "tokens of a sequence"},
      {"model-dim", "LIST", "columns of hidden"},
      {"rank", "LIST", "columns of the latent"},
      {"kv-heads", "LIST", "heads of k and of v"},
      {"head-dim", "LIST", "columns of a head"},
  };
}

std::vector<OptionRow> input_rows() {
  return {
      {"inputs", "KIND", "normal, positive or exact (default: normal)"},
      {"seed", "N", "of generated inputs (default: 0)"},
      {"input", "FILE", "safetensors file with hidden, w_down, w_up_k, w_up_v", FileUse::kRead},
  };
}

std::vector<DeviceRequest> devices_of(const Parsed& parsed) {
  using Kind = DeviceRequest::Kind;
  std::vector<DeviceRequest> devices;
  for (const std::string& item : list_of(parsed, "device")) {
    const std::int64_t ordinal =
        item.starts_with("cuda:") ? parse_integer(item.substr(5)).value_or(-1) : -1;
    if (item == "auto") {
      devices.push_back({.kind = Kind::kAuto});
    } else if (item == "cpu") {
      devices.push_back({.kind = Kind::kCpu});
    } else if (item == "cuda:all") {
      devices.push_back({.kind = Kind::kCudaAll});
    } else if (ordinal >= 0 && ordinal <= 1023) {
      devices.push_back({.kind = Kind::kCuda, .ordinal = static_cast<int>(ordinal)});
    } else if (is_uuid(item)) {
      devices.push_back({.kind = Kind::kUuid, .uuid = item});
    } else {
      throw UsageError(
          "--device takes auto, cpu, cuda:all, cuda:N or a UUID (GPU-...), or a list of them, "
          "not '" +
          printable(item) + "'");
    }
  }
  return devices;
}

void read_cells(const Parsed& parsed, RunOptions& options) {
  options.variants = list_of(parsed, "variant");
  if (std::find(options.variants.begin(), options.variants.end(), "all") !=
      options.variants.end()) {
    if (options.variants.size() > 1) {
      throw UsageError("--variant all is every variant: give no other name beside it");
    }
    options.variants.clear();
  }
  options.precisions = values_of<Precision>(parsed, "precision", kPrecisions);
  options.devices = devices_of(parsed);
  if (options.devices.empty()) {
    options.devices = {DeviceRequest{}};
  }
  options.concurrent = parsed.flags.contains("concurrent");
  options.l2_states = l2_states_of(parsed);
  options.batch = sizes_of(parsed, "batch");
  options.seq = sizes_of(parsed, "seq");
  options.model_dim = sizes_of(parsed, "model-dim");
  options.rank = sizes_of(parsed, "rank");
  options.kv_heads = sizes_of(parsed, "kv-heads");
  options.head_dim = sizes_of(parsed, "head-dim");
  options.inputs = inputs_of(parsed);
  options.threads = count_of(parsed, "threads", 1, 4096);
}

std::vector<std::string> cell_words(const Parsed& parsed) {
  std::vector<std::string> words;
  for (const std::vector<OptionRow>& rows : {cell_rows(), problem_rows(), input_rows()}) {
    for (const OptionRow& row : rows) {
      if (parsed.has(row.name)) {
        words.push_back("--" + std::string(row.name));
        if (row.value != nullptr) {
          words.push_back(parsed.values.at(row.name));
        }
      }
    }
  }
  return words;
}

std::string name_of(const DeviceRequest& request) {
  switch (request.kind) {
    case DeviceRequest::Kind::kAuto:
      return "auto";
    case DeviceRequest::Kind::kCpu:
      return "cpu";
    case DeviceRequest::Kind::kCudaAll:
      return "cuda:all";
    case DeviceRequest::Kind::kCuda:
      return "cuda:" + std::to_string(request.ordinal);
    case DeviceRequest::Kind::kUuid:
      return request.uuid;
  }
  return "?";
}

}  // namespace mla_bench
