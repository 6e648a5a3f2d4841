// A libnvidia-ml.so.1 for GPUs that the CPU plays: what a driver tells of a GPU that is shared,
// throttled or cut into slices. MLA_BENCH_TEST_NVML says how it is, in words between spaces:
//   processes=N      processes on the GPU, with this one
//   throttle=BITS    clock event reasons
//   clocks=A,B,...   SM clocks in MHz, one for each time that they are asked; the last one stays
//   slice            the GPU is a MIG slice: known by its MIG- UUID alone, its clocks not told
//   old              a driver whose parts do not fit: NVML does not start
// Names, numbers and codes as in NVIDIA's NVML API reference.
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>

namespace {

constexpr int kSuccess = 0;
constexpr int kNotSupported = 3;
constexpr int kNotFound = 6;
constexpr int kInsufficientSize = 7;
constexpr int kLibraryMismatch = 18;
constexpr int kClockSm = 1;

// What a handle points to.
struct Played {
  bool is_slice;
};
Played whole{false};
Played slice{true};

// The value of `name=value`, or the word itself; empty where it is not said.
std::string said(const std::string& name) {
  const char* all = std::getenv("MLA_BENCH_TEST_NVML");
  std::istringstream words(all != nullptr ? all : "");
  for (std::string word; words >> word;) {
    if (word == name) {
      return word;
    }
    if (word.rfind(name + "=", 0) == 0) {
      return word.substr(name.size() + 1);
    }
  }
  return "";
}

bool is_said(const char* name) {
  return !said(name).empty();
}

}  // namespace

extern "C" {

struct ProcessInfo {
  unsigned int pid;
  unsigned long long used_memory;
  unsigned int gpu_instance;
  unsigned int compute_instance;
};

int nvmlInit_v2() {
  return is_said("old") ? kLibraryMismatch : kSuccess;
}

int nvmlShutdown() {
  return kSuccess;
}

int nvmlSystemGetDriverVersion(char* version, unsigned length) {
  std::strncpy(version, "999.1", length);
  return kSuccess;
}

int nvmlDeviceGetHandleByUUID(const char* uuid, Played** device) {
  *device = is_said("slice") ? &slice : &whole;
  const char* kind = is_said("slice") ? "MIG-" : "GPU-";
  return std::strncmp(uuid, kind, std::strlen(kind)) == 0 ? kSuccess : kNotFound;
}

int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(Played* device, Played** parent) {
  *parent = &whole;
  return device->is_slice ? kSuccess : kNotFound;
}

int nvmlDeviceGetClockInfo(Played* device, int which, unsigned* mhz) {
  if (device->is_slice || which != kClockSm) {
    return kNotSupported;
  }
  static std::istringstream clocks(said("clocks"));
  static unsigned now = 1980;
  if (std::string clock; std::getline(clocks, clock, ',')) {
    now = static_cast<unsigned>(std::atoi(clock.c_str()));
  }
  *mhz = now;
  return kSuccess;
}

int nvmlDeviceGetCurrentClocksEventReasons(Played* device, unsigned long long* reasons) {
  *reasons = std::strtoull(said("throttle").c_str(), nullptr, 0);
  return device->is_slice ? kNotSupported : kSuccess;
}

int nvmlDeviceGetMigMode(Played* device, unsigned* current, unsigned* pending) {
  *current = *pending = is_said("slice") ? 1 : 0;
  return device->is_slice ? kNotSupported : kSuccess;
}

int nvmlDeviceGetComputeRunningProcesses_v3(Played* device, unsigned* count,
                                            ProcessInfo* processes) {
  const unsigned room = *count;
  *count = is_said("processes") ? static_cast<unsigned>(std::atoi(said("processes").c_str())) : 1;
  if (is_said("slice") && !device->is_slice) {
    *count += 7;  // in the other slices
  }
  if (*count > room) {
    return kInsufficientSize;
  }
  for (unsigned i = 0; i < *count; ++i) {
    processes[i] = {.pid = i + 1, .used_memory = 0, .gpu_instance = 0, .compute_instance = 0};
  }
  return kSuccess;
}

}  // extern "C"
