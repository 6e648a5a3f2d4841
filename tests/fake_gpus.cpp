// Stands in for the CUDA half of executor.hpp and for the generated registry: GPUs that the CPU
// plays, so that a host with several can be tried anywhere. MLA_BENCH_TEST_GPUS names them in the
// order in which this "driver" counts them, by the beginnings of their UUIDs: "11111111,22222222".
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <string>

#include "executor.hpp"
#include "text.hpp"

namespace mla_bench {

namespace cpu {
extern const Variant naive;
}

namespace {

constexpr const char* kGpus = "MLA_BENCH_TEST_GPUS";
// A file that each GPU writes a line to while it launches, with its UUID: who was at work when.
constexpr const char* kActivity = "MLA_BENCH_TEST_ACTIVITY";
constexpr std::chrono::microseconds kBetweenLines{500};

// The GPUs whose UUID begins so have a fault, or an older architecture.
constexpr const char* kFaulty = "GPU-2";
constexpr int kOlderSm = 75;

bool is_faulty(const Device& device) {
  return device.uuid.starts_with(kFaulty);
}

void tell_activity(const std::string& uuid) {
  static std::chrono::steady_clock::time_point last;
  const auto now = std::chrono::steady_clock::now();
  const char* path = std::getenv(kActivity);
  if (path == nullptr || now - last < kBetweenLines) {
    return;
  }
  last = now;
  const std::string line = uuid + "\n";
  const int file = open(path, O_CREAT | O_WRONLY | O_APPEND, 0600);
  static_cast<void>(!write(file, line.data(), line.size()));  // at once, so lines stay in order
  close(file);
}

enum class Fault { kNone, kWrongOutput, kDiesLater };

template <Fault kFault>
Prepared prepare(const Problem& problem, Precision precision, const Device& device) {
  const Prepared right = cpu::naive.prepare(problem, precision, device);
  return {.choice = "played by the CPU",
          .bind = [right, problem, device](const Operands& operands) -> Launch {
            const Launch launch = right.bind(operands);
            return [=, launches = 0](Stream stream) mutable {
              launch(stream);
              tell_activity(device.uuid);
              constexpr int kLater =
                  15'000;  // some rounds of a small problem, on a slow machine too
              if (kFault == Fault::kWrongOutput && is_faulty(device)) {
                *static_cast<float*>(operands.kv) += 1;
              }
              if (kFault == Fault::kDiesLater && is_faulty(device) && ++launches > kLater) {
                _exit(7);
              }
            };
          }};
}

std::optional<std::string> needs_newer(const Problem&, Precision, const Device& device) {
  return device.sm <= kOlderSm
             ? std::optional("needs sm_80, this device is sm_" + std::to_string(device.sm))
             : std::nullopt;
}

template <Fault kFault>
Variant on_gpu() {
  Variant variant = cpu::naive;
  variant.summary = "played by the CPU";
  variant.backend = Backend::kCuda;
  variant.prepare = prepare<kFault>;
  return variant;
}

std::string uuid_of(const std::string& beginning) {
  return "GPU-" + beginning + "-0000-0000-0000-000000000000";
}

}  // namespace

std::span<const Listed> registry() {
  static const Variant kNaive = on_gpu<Fault::kNone>();
  static const Variant kTwin = on_gpu<Fault::kNone>();
  static const Variant kWrong = on_gpu<Fault::kWrongOutput>();
  static const Variant kDies = on_gpu<Fault::kDiesLater>();
  static const Variant kNewer = [] {
    Variant variant = on_gpu<Fault::kNone>();
    variant.why_not = needs_newer;
    return variant;
  }();
  static const std::array kListed{
      Listed{"naive", Backend::kCuda, &kNaive, ""},
      Listed{"naive", Backend::kCpu, &cpu::naive, ""},
      Listed{"twin", Backend::kCuda, &kTwin, ""},
      Listed{"wrong_on_some", Backend::kCuda, &kWrong, ""},
      Listed{"dies_on_some", Backend::kCuda, &kDies, ""},
      Listed{"newer", Backend::kCuda, &kNewer, ""},
  };
  return kListed;
}

DeviceList find_cuda_devices() {
  DeviceList list{.devices = {}, .no_cuda = "", .cuda_runtime = "13.0", .cuda_driver = "13.0"};
  const char* named = std::getenv(kGpus);
  if (named == nullptr || *named == 0) {
    list.no_cuda = "no GPU is played";
    return list;
  }
  for (const std::string& beginning : split(named, ',')) {
    Device device;
    device.backend = Backend::kCuda;
    device.ordinal = static_cast<int>(list.devices.size());
    device.name = "Played GPU";
    device.uuid = uuid_of(beginning);
    device.sm = beginning.starts_with('3') ? kOlderSm : 90;
    device.multiprocessors = 1;
    device.clock_mhz = 1000;
    device.last_level_cache = 1 << 16;
    device.memory = 1 << 30;
    list.devices.push_back(device);
  }
  return list;
}

std::unique_ptr<Executor> make_cuda_executor(const Device& device) {
  // What a real one would find: the device that this process counts so.
  const DeviceList here = find_cuda_devices();
  if (here.devices.at(static_cast<std::size_t>(device.ordinal)).uuid != device.uuid) {
    throw std::runtime_error("ordinal and UUID are of two devices");
  }
  return make_cpu_executor(device);
}

}  // namespace mla_bench
