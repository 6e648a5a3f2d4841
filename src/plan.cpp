#include "plan.hpp"

#include <algorithm>
#include <array>
#include <set>

#include "build_facts.hpp"
#include "errors.hpp"
#include "measure.hpp"
#include "operand_set.hpp"
#include "problem_size.hpp"
#include "reference.hpp"
#include "text.hpp"

namespace mla_bench {
namespace {

// Part of the peak that the slowest honest variant reaches: naive on an H200 and on CPUs alike
// gives a few percent. A guess too low skips a cell that --force can run; too high hangs a run.
constexpr double kPessimisticEfficiency = 0.02;
// Launches that a cell costs at least: check, estimate, warm-up, one round of three samples,
// recheck.
constexpr double kFewestLaunches = 12;
// And a cold one: turns of its ring of operand sets, for the estimate, the warm-up and two samples.
constexpr double kFewestTurns = 4;
// FLOPs of one fp32 lane and cycle (a fused multiply-add), and lanes of one SM or core.
constexpr double kFlopsPerLane = 2;
constexpr double kLanesPerSm = 128;
constexpr double kLanesPerCore = 16;  // two 8-wide units
constexpr double kAssumedClockMhz = 1500;
// Sets that a cold run allocates: the ring and, for the proof, as many again.
constexpr std::int64_t kColdProofFactor = 2;

struct SizeOption {
  std::string_view name;
  std::vector<std::int64_t> RunOptions::*list;
  std::int64_t Problem::*field;
};

constexpr std::array kSizeOptions{
    SizeOption{"batch", &RunOptions::batch, &Problem::batch},
    SizeOption{"seq", &RunOptions::seq, &Problem::seq},
    SizeOption{"model-dim", &RunOptions::model_dim, &Problem::model_dim},
    SizeOption{"rank", &RunOptions::rank, &Problem::rank},
    SizeOption{"kv-heads", &RunOptions::kv_heads, &Problem::kv_heads},
    SizeOption{"head-dim", &RunOptions::head_dim, &Problem::head_dim},
};

void refuse_overflow(const Problem& problem) {
  if (const std::optional<std::string> why = why_too_large(problem)) {
    throw UsageError(*why +
                     "; make --batch, --seq, --model-dim, --rank, --kv-heads or --head-dim "
                     "smaller");
  }
}

// More would take days, and their plan memory that there may not be.
constexpr std::size_t kMostCells = 100'000;

void refuse_too_many(std::size_t cells) {
  if (cells > kMostCells) {
    throw UsageError(
        "the lists of --batch, --seq, --variant and the others multiply to more than " +
        std::to_string(kMostCells) + " cells: make them shorter");
  }
}

std::vector<Problem> problems_of(const RunOptions& options, const std::optional<FileFacts>& file) {
  if (file) {
    for (const SizeOption& size : kSizeOptions) {
      const bool splits_heads = size.name == "kv-heads" || size.name == "head-dim";
      if (!splits_heads && !(options.*size.list).empty()) {
        throw UsageError("--" + std::string(size.name) +
                         " cannot be set with --input: the shape comes from the file");
      }
    }
    refuse_overflow(file->problem);
    return {file->problem};
  }
  std::vector<Problem> problems{Problem{}};
  for (const SizeOption& size : kSizeOptions) {
    const std::vector<std::int64_t>& list = options.*size.list;
    if (list.empty()) {
      continue;
    }
    refuse_too_many(problems.size() * list.size());
    std::vector<Problem> grown;
    for (const Problem& problem : problems) {
      for (const std::int64_t value : list) {
        Problem next = problem;
        next.*size.field = value;
        grown.push_back(next);
      }
    }
    problems = std::move(grown);
  }
  std::for_each(problems.begin(), problems.end(), refuse_overflow);
  return problems;
}

std::vector<std::string> names_of(std::span<const Listed> registry) {
  std::vector<std::string> names;
  for (const Listed& listed : registry) {
    if (std::find(names.begin(), names.end(), listed.name) == names.end()) {
      names.emplace_back(listed.name);
    }
  }
  return names;
}

// The variants that this build runs on the CPU.
std::vector<std::string> cpu_names(std::span<const Listed> registry) {
  std::vector<std::string> names;
  for (const Listed& listed : registry) {
    if (listed.backend == Backend::kCpu && listed.variant != nullptr) {
      names.emplace_back(listed.name);
    }
  }
  return names;
}

// The list's entries that the user named (all of them unless any), in the list's order. `no_cuda`
// is why there is no GPU; what needs one is left out with a warning, unless nothing else is named.
std::vector<Listed> choose_variants(const RunOptions& options, std::span<const Device> devices,
                                    const std::string& no_cuda, std::span<const Listed> registry,
                                    std::vector<std::string>& warnings) {
  const std::vector<std::string> valid = names_of(registry);
  for (const std::vector<std::string>& named :
       {options.variants,
        options.reference ? std::vector{*options.reference} : std::vector<std::string>{}}) {
    for (const std::string& name : named) {
      if (std::find(valid.begin(), valid.end(), name) == valid.end()) {
        throw UsageError(unknown_name("variant", name, valid));
      }
    }
  }
  const auto is_here = [&](const Listed& listed) {
    return std::any_of(devices.begin(), devices.end(),
                       [&](const Device& device) { return device.backend == listed.backend; });
  };
  std::vector<std::string> left_out;
  for (const std::string& name : options.variants) {
    const bool runs_somewhere = std::any_of(registry.begin(), registry.end(), [&](const Listed& l) {
      return l.name == name && is_here(l);
    });
    if (!runs_somewhere) {
      const auto other = std::find_if(registry.begin(), registry.end(),
                                      [&](const Listed& l) { return l.name == name; });
      const bool needs_cpu = other->backend == Backend::kCpu;
      if (!needs_cpu && !no_cuda.empty()) {
        left_out.push_back(name);
        continue;
      }
      throw UsageError("variant '" + name + "' runs on " + (needs_cpu ? "the CPU" : "CUDA") +
                       " only: add --device " + (needs_cpu ? "cpu" : "cuda:0"));
    }
  }
  if (!left_out.empty()) {
    const std::string what = "--variant " + join(left_out, ",");
    if (left_out.size() == options.variants.size()) {
      throw NoDeviceError(what + " runs on CUDA only: " + no_cuda + "; on the CPU run " +
                          join(cpu_names(registry), ", "));
    }
    warnings.push_back(what + " is left out: it runs on CUDA only, and " + no_cuda);
  }
  std::vector<Listed> chosen;
  for (const Listed& listed : registry) {
    const bool named = options.variants.empty() ||
                       std::find(options.variants.begin(), options.variants.end(), listed.name) !=
                           options.variants.end();
    if (named && is_here(listed)) {
      chosen.push_back(listed);
    }
  }
  return chosen;
}

// "cuda:0 (GPU-6750905a-...), cuda:1 (GPU-...)"
std::string gpu_words(const std::vector<Device>& gpus) {
  std::vector<std::string> words;
  for (const Device& gpu : gpus) {
    words.push_back("cuda:" + std::to_string(gpu.ordinal) + " (" + gpu.uuid + ")");
  }
  return join(words, ", ");
}

// What one request stands for here; one device, unless it is cuda:all.
std::vector<Device> devices_named(const DeviceRequest& request, const DeviceList& devices) {
  using Kind = DeviceRequest::Kind;
  std::vector<Device> gpus = devices.devices;
  std::erase_if(gpus, [](const Device& device) { return device.backend != Backend::kCuda; });
  if (request.kind == Kind::kCpu || (request.kind == Kind::kAuto && gpus.empty())) {
    return {devices.devices.back()};
  }
  if (gpus.empty()) {
    throw NoDeviceError("--device " + name_of(request) + ": " + devices.no_cuda +
                        "; --device cpu runs here");
  }
  if (request.kind == Kind::kCudaAll) {
    return gpus;
  }
  if (request.kind == Kind::kAuto) {
    return {gpus.front()};
  }
  std::vector<Device> found = gpus;
  std::erase_if(found, [&](const Device& gpu) {
    // Whether it is a slice, GPU- or MIG-, only the driver's tools say.
    constexpr std::size_t kPrefix = 4;
    return request.kind == Kind::kUuid
               ? !gpu.uuid.substr(kPrefix).starts_with(request.uuid.substr(kPrefix))
               : gpu.ordinal != request.ordinal;
  });
  if (found.empty()) {
    throw NoDeviceError("--device " + name_of(request) + ": this machine has " + gpu_words(gpus) +
                        " only");
  }
  if (found.size() > 1) {
    throw UsageError("--device " + name_of(request) + " may be " + gpu_words(found) +
                     ": give more of the UUID");
  }
  return found;
}

// Tells each cell which other GPUs do the same at the same time. Throws where no cell has any.
void put_together(std::vector<PlannedCell>& cells, const std::vector<Device>& devices) {
  const auto is_partner = [](const PlannedCell& a, const PlannedCell& b) {
    const Cell& left = a.cell;
    const Cell& right = b.cell;
    return a.skip.empty() && b.skip.empty() && left.backend == Backend::kCuda &&
           right.backend == Backend::kCuda && left.device != right.device &&
           left.variant == right.variant && left.copy == right.copy &&
           left.precision == right.precision && left.l2 == right.l2 &&
           left.problem == right.problem && left.inputs == right.inputs;
  };
  const auto gpus = std::count_if(devices.begin(), devices.end(), [](const Device& device) {
    return device.backend == Backend::kCuda;
  });
  if (gpus < 2) {
    throw UsageError("--concurrent measures several GPUs at the same time, and --device names " +
                     std::string(gpus == 0 ? "none" : "one") +
                     ": give cuda:all on a machine that has more, or leave it out");
  }
  for (PlannedCell& planned : cells) {
    for (const PlannedCell& other : cells) {
      if (is_partner(planned, other)) {
        planned.cell.concurrent_with.push_back(other.cell.device);
      }
    }
    std::vector<std::string>& uuids = planned.cell.concurrent_with;
    std::sort(uuids.begin(), uuids.end());
  }
}

}  // namespace

std::vector<Device> choose_devices(std::span<const DeviceRequest> requests,
                                   const DeviceList& devices, std::vector<std::string>& warnings) {
  using Kind = DeviceRequest::Kind;
  struct Chosen {
    Device device;
    const DeviceRequest* request;
  };
  std::vector<Chosen> chosen;
  for (const DeviceRequest& request : requests) {
    for (const Device& device : devices_named(request, devices)) {
      const auto same = std::find_if(chosen.begin(), chosen.end(), [&](const Chosen& other) {
        return other.device.backend == device.backend && other.device.uuid == device.uuid;
      });
      if (same == chosen.end()) {
        chosen.push_back({.device = device, .request = &request});
      } else if (request.kind != Kind::kAuto && same->request->kind != Kind::kAuto) {
        const bool is_cpu = device.backend == Backend::kCpu;
        throw UsageError("--device names " +
                         (is_cpu ? "the CPU" : printable(device.name) + " " + device.uuid) +
                         " twice, as " + name_of(*same->request) + " and as " + name_of(request) +
                         ": name each device once");
      }
    }
    if (request.kind == Kind::kAuto && !devices.no_cuda.empty()) {
      warnings.push_back("no GPU (" + devices.no_cuda + "): running on the CPU");
    }
  }
  std::vector<Device> list;
  for (Chosen& entry : chosen) {
    list.push_back(std::move(entry.device));
  }
  return list;
}

double predicted_launch_s(const Variant& variant, const Problem& problem, const Device& device) {
  const double lanes = device.backend == Backend::kCuda ? kLanesPerSm * device.multiprocessors
                                                        : kLanesPerCore * device.threads;
  const double clock_hz = 1e6 * (device.clock_mhz > 0 ? device.clock_mhz : kAssumedClockMhz);
  return variant.executed_flops(problem) /
         (lanes * kFlopsPerLane * clock_hz * kPessimisticEfficiency);
}

double predicted_host_bytes(const Problem& problem, Precision precision) {
  const auto element = static_cast<double>(size_of(stored_type(precision)));
  const double inputs = problem.compulsory_elements() - static_cast<double>(problem.kv_count());
  // The inputs and kv, twice: a check holds the downloaded kv and compares inputs with a second
  // copy.
  const double tensors = 2 * element * (inputs + static_cast<double>(problem.kv_count()));
  // The fp64 reference and its magnitudes.
  const double reference = too_large_for_full_reference(problem)
                               ? 0
                               : 2 * sizeof(double) * static_cast<double>(problem.kv_count());
  return tensors + reference;
}

std::int64_t ring_of(const Cell& cell, const Device& device) {
  return ring_size(cell.l2, OperandSet::operand_bytes(cell.problem, stored_type(cell.precision)),
                   device.last_level_cache);
}

double predicted_device_bytes(const Variant& variant, const Cell& cell, const Device& device) {
  const StoredType type = stored_type(cell.precision);
  const std::int64_t ring = ring_of(cell, device);
  const std::int64_t sets = cell.l2 == L2State::kCold ? kColdProofFactor * ring : ring;
  return static_cast<double>(sets) *
             static_cast<double>(OperandSet::allocated_bytes(cell.problem, type)) +
         static_cast<double>(variant.workspace_bytes(cell.problem, cell.precision, device));
}

std::optional<std::string> why_not(const Variant& variant, const Problem& problem,
                                   Precision precision, const Device& device,
                                   const std::string& architectures) {
  if (std::optional<std::string> why = variant.why_not(problem, precision, device)) {
    return why;
  }
  if (device.backend != Backend::kCuda || architectures.empty() ||
      has_code_for(architectures, device.sm)) {
    return std::nullopt;
  }
  return "this build has code for sm_" + join(split(architectures, ','), ", sm_") +
         ", this device is sm_" + std::to_string(device.sm) +
         "; build with CMAKE_CUDA_ARCHITECTURES=" + std::to_string(device.sm);
}

std::string reason_to_skip(const Variant& variant, const Cell& cell, const Device& device,
                           const Device& host, const std::string& architectures, double seconds,
                           bool force) {
  if (const std::optional<std::string> why =
          why_not(variant, cell.problem, cell.precision, device, architectures)) {
    return *why;
  }
  const double on_device = predicted_device_bytes(variant, cell, device);
  const double in_host = predicted_host_bytes(cell.problem, cell.precision);
  if (device.backend == Backend::kCuda && on_device > static_cast<double>(device.memory)) {
    return "needs " + human_bytes(on_device) + " of device memory, " + device.name + " has " +
           human_bytes(static_cast<double>(device.memory));
  }
  const double needed = in_host + (device.backend == Backend::kCpu ? on_device : 0);
  if (needed > static_cast<double>(host.free_memory)) {
    return "needs " + human_bytes(needed) + " of host memory, " +
           human_bytes(static_cast<double>(host.free_memory)) + " are free";
  }
  const double launches =
      std::max(kFewestLaunches, kFewestTurns * static_cast<double>(ring_of(cell, device)));
  const double predicted_s = launches * predicted_launch_s(variant, cell.problem, device);
  if (!force && predicted_s > seconds) {
    return "predicted to take " + human_time(predicted_s * 1e9) + ", more than the " +
           fixed(seconds, seconds < 10 ? 1 : 0) + " s of --time-budget; --force runs it";
  }
  return "";
}

Plan make_plan(const RunOptions& options, const DeviceList& devices,
               std::span<const Listed> registry, const std::optional<FileFacts>& file) {
  Plan plan;
  const std::vector<Device> chosen_devices =
      choose_devices(options.devices, devices, plan.warnings);
  const std::vector<Listed> variants =
      choose_variants(options, chosen_devices, devices.no_cuda, registry, plan.warnings);
  std::vector<Precision> precisions = options.precisions;
  if (precisions.empty()) {
    precisions.push_back(file ? file->precision : Precision::kFp32);
  }
  InputSource inputs = options.inputs;
  inputs.content = file ? file->content : "";
  Device host = devices.devices.back();
  if (options.concurrent) {  // a process for each device, with inputs and references of its own
    host.free_memory /= static_cast<std::int64_t>(chosen_devices.size());
  }

  const std::vector<Copy> copies = options.copies.empty() ? std::vector<Copy>(1) : options.copies;
  std::set<std::string> ids;
  const std::vector<Problem> problems = problems_of(options, file);
  std::size_t cells = problems.size();
  for (const std::size_t factor : {chosen_devices.size(), precisions.size(),
                                   options.l2_states.size(), variants.size(), copies.size()}) {
    cells *= factor;
    refuse_too_many(cells);
  }
  for (const Device& device : chosen_devices) {
    for (const Problem& problem : problems) {
      for (const Precision precision : precisions) {
        for (const L2State l2 : options.l2_states) {
          for (const Listed& listed : variants) {
            if (listed.backend != device.backend) {
              continue;
            }
            for (const Copy& copy : copies) {
              const bool on_cpu = device.backend == Backend::kCpu;
              PlannedCell planned{.cell = {.variant = std::string(listed.name),
                                           .backend = device.backend,
                                           .ordinal = device.ordinal,
                                           .device = device.uuid,
                                           .threads = on_cpu ? device.threads : 0,
                                           .precision = precision,
                                           .l2 = l2,
                                           .problem = problem,
                                           .inputs = inputs},
                                  .skip = ""};
              planned.cell.copy = copy.number;
              planned.cell.planted = copy.planted;
              planned.skip = listed.variant == nullptr
                                 ? std::string(listed.missing)
                                 : reason_to_skip(*listed.variant, planned.cell, device, host,
                                                  devices.cuda_architectures,
                                                  options.measuring.time_budget_s, options.force);
              if (ids.insert(planned.cell.id()).second) {
                plan.cells.push_back(std::move(planned));
              }
            }
          }
        }
      }
    }
  }
  if (options.concurrent) {
    put_together(plan.cells, chosen_devices);
  }
  if (options.save && plan.cells.size() != 1) {
    throw UsageError("--save writes the kv of one cell, and this run has " +
                     std::to_string(plan.cells.size()) +
                     ": name one --variant, --precision, shape and device");
  }
  return plan;
}

std::string describe(const Plan& plan) {
  std::string text;
  for (const PlannedCell& planned : plan.cells) {
    text += planned.cell.id() + (planned.skip.empty() ? "" : "  skipped: " + planned.skip) + "\n";
  }
  return text;
}

}  // namespace mla_bench
