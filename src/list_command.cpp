// mla-bench list: what is here, and what can run on it.
#include <algorithm>

#include "commands.hpp"
#include "console.hpp"
#include "errors.hpp"
#include "plan.hpp"
#include "text.hpp"
#include "worker_process.hpp"

namespace mla_bench {
namespace {

std::string describe(const Device& device) {
  std::string text = device.backend == Backend::kCuda ? "cuda:" + std::to_string(device.ordinal)
                                                      : std::string("cpu");
  text += "  " + printable(device.name) + ", ";
  if (device.backend == Backend::kCuda) {
    text += "sm_" + std::to_string(device.sm) + ", " + std::to_string(device.multiprocessors) +
            " SMs, " + human_bytes(static_cast<double>(device.last_level_cache)) + " L2, " +
            human_bytes(static_cast<double>(device.memory)) + ", " + printable(device.uuid);
  } else {
    text += std::to_string(device.threads) + " threads, " +
            human_bytes(static_cast<double>(device.memory));
  }
  return text + "\n";
}

std::string title_of(const Listed& listed) {
  return "  " + std::string(listed.name) +
         (listed.variant ? "  " + std::string(listed.variant->summary) : "") + "\n";
}

// The precisions in which the variant runs the headline problem there, and why not the others.
std::string describe(const Listed& listed, const Device& device, const std::string& architectures) {
  std::vector<std::string> can;
  std::string cannot;
  if (listed.variant == nullptr) {
    return "      cannot run: " + std::string(listed.missing) + "\n";
  }
  for (const Precision precision : kPrecisions) {
    if (const auto why = why_not(*listed.variant, Problem{}, precision, device, architectures)) {
      cannot += "      not " + std::string(name_of(precision)) + ": " + *why + "\n";
    } else {
      can.emplace_back(name_of(precision));
    }
  }
  return (can.empty() ? "" : "      runs " + join(can, ", ") + "\n") + cannot;
}

// GPUs of one model can do the same.
std::vector<std::vector<Device>> by_model(const std::vector<Device>& devices) {
  std::vector<std::vector<Device>> models;
  for (const Device& device : devices) {
    const auto same = std::find_if(models.begin(), models.end(), [&](const auto& model) {
      return model.front().backend == device.backend && model.front().name == device.name &&
             model.front().sm == device.sm;
    });
    if (same == models.end()) {
      models.push_back({device});
    } else {
      same->push_back(device);
    }
  }
  return models;
}

}  // namespace

int list_command(const ListOptions& options) {
  constexpr double kTimeout_s = 60;
  WorkerProcess worker(kTimeout_s);
  const DeviceList devices = worker.devices();
  std::string text = "Devices\n";
  for (const Device& device : devices.devices) {
    text += "  " + describe(device);
  }
  if (!devices.no_cuda.empty()) {
    text += "  no GPU: " + devices.no_cuda + "\n";
  }
  std::vector<std::string> warnings;
  const std::vector<Device> chosen = options.devices.empty()
                                         ? devices.devices
                                         : choose_devices(options.devices, devices, warnings);
  for (const std::vector<Device>& same : by_model(chosen)) {
    text += "\nVariants on " + printable(same.front().name) + "\n";
    for (const Listed& listed : registry()) {
      if (listed.backend == same.front().backend) {
        text += title_of(listed) + describe(listed, same.front(), devices.cuda_architectures);
      }
    }
  }
  if (options.devices.empty() && !devices.no_cuda.empty()) {
    text += "\nVariants on CUDA: " + devices.no_cuda + "\n";
    for (const Listed& listed : registry()) {
      if (listed.backend == Backend::kCuda) {
        text += title_of(listed);
      }
    }
  }
  print_result(text);
  return static_cast<int>(ExitCode::kFine);
}

}  // namespace mla_bench
