// NVML behind dlopen, so that the program starts without it. Its header is often missing, so the
// few functions and types used are declared here, after NVIDIA's NVML API reference.
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "environment.hpp"

namespace mla_bench {
namespace {

using NvmlDevice = struct nvmlDevice_st*;

constexpr int kSuccess = 0;
constexpr int kInsufficientSize = 7;
constexpr int kClockSm = 1;
constexpr int kClockMemory = 2;
constexpr int kTemperatureGpu = 0;

// nvmlClocksEventReasons bits.
constexpr unsigned long long kSoftwarePowerCap = 0x4;
constexpr unsigned long long kHardwareSlowdown = 0x8;
constexpr unsigned long long kSoftwareThermal = 0x20;
constexpr unsigned long long kHardwareThermal = 0x40;
constexpr unsigned long long kPowerBrake = 0x80;

// nvmlProcessInfo_t as nvmlDeviceGetComputeRunningProcesses_v3 fills it.
struct ProcessInfo {
  unsigned int pid;
  unsigned long long used_memory;
  unsigned int gpu_instance;
  unsigned int compute_instance;
};

// The functions used; one that this driver does not have is null.
struct Api {
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*driver_version)(char*, unsigned) = nullptr;
  int (*by_uuid)(const char*, NvmlDevice*) = nullptr;
  int (*whole_of_slice)(NvmlDevice, NvmlDevice*) = nullptr;
  int (*clock)(NvmlDevice, int, unsigned*) = nullptr;
  int (*max_clock)(NvmlDevice, int, unsigned*) = nullptr;
  int (*event_reasons)(NvmlDevice, unsigned long long*) = nullptr;
  int (*power)(NvmlDevice, unsigned*) = nullptr;
  int (*power_limit)(NvmlDevice, unsigned*) = nullptr;
  int (*temperature)(NvmlDevice, int, unsigned*) = nullptr;
  int (*ecc)(NvmlDevice, int*, int*) = nullptr;
  int (*mig)(NvmlDevice, unsigned*, unsigned*) = nullptr;
  int (*persistence)(NvmlDevice, int*) = nullptr;
  int (*processes)(NvmlDevice, unsigned*, ProcessInfo*) = nullptr;
};

template <typename Function>
void load(void* library, Function& function, const char* name) {
  function = reinterpret_cast<Function>(dlsym(library, name));
}

Api load_api(void* library) {
  Api api;
  load(library, api.init, "nvmlInit_v2");
  load(library, api.shutdown, "nvmlShutdown");
  load(library, api.driver_version, "nvmlSystemGetDriverVersion");
  load(library, api.by_uuid, "nvmlDeviceGetHandleByUUID");
  load(library, api.whole_of_slice, "nvmlDeviceGetDeviceHandleFromMigDeviceHandle");
  load(library, api.clock, "nvmlDeviceGetClockInfo");
  load(library, api.max_clock, "nvmlDeviceGetMaxClockInfo");
  load(library, api.event_reasons, "nvmlDeviceGetCurrentClocksEventReasons");
  if (api.event_reasons == nullptr) {  // its name before driver 535
    load(library, api.event_reasons, "nvmlDeviceGetCurrentClocksThrottleReasons");
  }
  load(library, api.power, "nvmlDeviceGetPowerUsage");
  load(library, api.power_limit, "nvmlDeviceGetEnforcedPowerLimit");
  load(library, api.temperature, "nvmlDeviceGetTemperature");
  load(library, api.ecc, "nvmlDeviceGetEccMode");
  load(library, api.mig, "nvmlDeviceGetMigMode");
  load(library, api.persistence, "nvmlDeviceGetPersistenceMode");
  load(library, api.processes, "nvmlDeviceGetComputeRunningProcesses_v3");
  return api;
}

// A number that the driver may not have.
template <typename Value, typename Function, typename... Arguments>
std::optional<Value> ask(Function function, Arguments... arguments) {
  Value value{};
  if (function == nullptr || function(arguments..., &value) != kSuccess) {
    return std::nullopt;
  }
  return value;
}

template <typename Function>
std::optional<int> ask_clock(Function function, NvmlDevice device, int which) {
  const std::optional<unsigned> mhz = ask<unsigned>(function, device, which);
  return mhz ? std::optional(static_cast<int>(*mhz)) : std::nullopt;
}

// NVML counts in milliwatts.
template <typename Function>
std::optional<double> ask_watts(Function function, NvmlDevice device) {
  const std::optional<unsigned> milliwatts = ask<unsigned>(function, device);
  return milliwatts ? std::optional(*milliwatts / 1000.0) : std::nullopt;
}

class Nvml : public Environment {
 public:
  Nvml(void* library, const Api& api) : library_(library), api_(api) {}
  ~Nvml() override {
    api_.shutdown();
    dlclose(library_);
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  std::optional<GpuSetup> setup(const std::string& uuid) override {
    const std::optional<Gpu> gpu = find(uuid);
    if (!gpu) {
      return std::nullopt;
    }
    const NvmlDevice device = gpu->whole;
    GpuSetup setup;
    std::array<char, 96> version{};
    if (api_.driver_version != nullptr &&
        api_.driver_version(version.data(), version.size()) == kSuccess) {
      setup.driver = version.data();
    }
    setup.max_sm_clock_mhz = ask_clock(api_.max_clock, device, kClockSm);
    setup.max_memory_clock_mhz = ask_clock(api_.max_clock, device, kClockMemory);
    setup.power_limit_w = ask_watts(api_.power_limit, device);
    int current = 0;
    int pending = 0;
    if (api_.ecc != nullptr && api_.ecc(device, &current, &pending) == kSuccess) {
      setup.ecc = current != 0;
    }
    unsigned mig = 0;
    unsigned mig_pending = 0;
    if (gpu->is_slice()) {
      setup.mig = true;
    } else if (api_.mig != nullptr && api_.mig(device, &mig, &mig_pending) == kSuccess) {
      setup.mig = mig != 0;
    }
    if (const std::optional<int> persistence = ask<int>(api_.persistence, device)) {
      setup.persistence = *persistence != 0;
    }
    return setup;
  }

  std::optional<GpuState> state(const std::string& uuid) override {
    const std::optional<Gpu> gpu = find(uuid);
    if (!gpu) {
      return std::nullopt;
    }
    const NvmlDevice device = gpu->whole;
    GpuState state;
    state.sm_clock_mhz = ask_clock(api_.clock, device, kClockSm);
    state.memory_clock_mhz = ask_clock(api_.clock, device, kClockMemory);
    state.power_w = ask_watts(api_.power, device);
    if (const auto celsius = ask<unsigned>(api_.temperature, device, kTemperatureGpu)) {
      state.temperature_c = static_cast<int>(*celsius);
    }
    const unsigned long long reasons =
        ask<unsigned long long>(api_.event_reasons, device).value_or(0);
    state.throttle = {.software_power_cap = (reasons & kSoftwarePowerCap) != 0,
                      .hardware_slowdown = (reasons & kHardwareSlowdown) != 0,
                      .software_thermal = (reasons & kSoftwareThermal) != 0,
                      .hardware_thermal = (reasons & kHardwareThermal) != 0,
                      .power_brake = (reasons & kPowerBrake) != 0};
    state.other_processes = other_processes(gpu->device);
    return state;
  }

 private:
  // As CUDA counts devices: a GPU, or a slice of one (MIG). Clocks, power and temperature are the
  // whole GPU's, and NVML does not tell them of a slice.
  struct Gpu {
    NvmlDevice device;
    NvmlDevice whole;

    bool is_slice() const { return device != whole; }
  };

  // CUDA tells the sixteen bytes of a UUID, NVML wants to hear of what they are: GPU- or MIG-.
  std::optional<Gpu> find(const std::string& uuid) const {
    if (const auto device = ask<NvmlDevice>(api_.by_uuid, uuid.c_str())) {
      return Gpu{.device = *device, .whole = *device};
    }
    const std::string as_slice = "MIG" + uuid.substr(std::min(uuid.find('-'), uuid.size()));
    const auto slice = ask<NvmlDevice>(api_.by_uuid, as_slice.c_str());
    const auto whole = slice ? ask<NvmlDevice>(api_.whole_of_slice, *slice) : std::nullopt;
    return whole ? std::optional(Gpu{.device = *slice, .whole = *whole}) : std::nullopt;
  }

  // In a container process ids are another namespace's: then ours is not among them, and one of the
  // processes is taken to be this one.
  std::optional<int> other_processes(NvmlDevice device) const {
    std::vector<ProcessInfo> processes(64);
    if (api_.processes == nullptr) {
      return std::nullopt;
    }
    auto count = static_cast<unsigned>(processes.size());
    int status = api_.processes(device, &count, processes.data());
    if (status == kInsufficientSize) {
      processes.resize(count);
      status = api_.processes(device, &count, processes.data());
    }
    if (status != kSuccess || count == 0) {
      return std::nullopt;  // this process is on it: who counts none cannot see any
    }
    return static_cast<int>(count) - 1;
  }

  void* library_;
  Api api_;
};

}  // namespace

std::unique_ptr<Environment> load_nvml() {
  void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return nullptr;
  }
  const Api api = load_api(library);
  if (api.init == nullptr || api.shutdown == nullptr || api.by_uuid == nullptr ||
      api.init() != kSuccess) {
    dlclose(library);
    return nullptr;
  }
  return std::make_unique<Nvml>(library, api);
}

}  // namespace mla_bench
