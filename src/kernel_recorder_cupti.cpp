// CUPTI's activity records behind dlopen, so that the program starts without it.
#include <cuda_runtime_api.h>
#include <cupti.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <mutex>
#include <stdexcept>
#include <utility>

#include "kernel_recorder.hpp"

namespace mla_bench {
namespace {

// The oldest record with every field read here (start, end, correlationId); newer ones begin alike.
using Record = CUpti_ActivityKernel9;

struct Api {
  decltype(&cuptiActivityEnable) enable = nullptr;
  decltype(&cuptiActivityDisable) disable = nullptr;
  decltype(&cuptiActivityRegisterCallbacks) register_callbacks = nullptr;
  decltype(&cuptiActivityFlushAll) flush_all = nullptr;
  decltype(&cuptiActivityGetNextRecord) next_record = nullptr;
  decltype(&cuptiActivityGetNumDroppedRecords) dropped_records = nullptr;
  decltype(&cuptiGetResultString) result_string = nullptr;
};

template <typename Function>
bool load(void* library, Function& function, const char* name) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

bool load_api(void* library, Api& api) {
  return load(library, api.enable, "cuptiActivityEnable") &&
         load(library, api.disable, "cuptiActivityDisable") &&
         load(library, api.register_callbacks, "cuptiActivityRegisterCallbacks") &&
         load(library, api.flush_all, "cuptiActivityFlushAll") &&
         load(library, api.next_record, "cuptiActivityGetNextRecord") &&
         load(library, api.dropped_records, "cuptiActivityGetNumDroppedRecords") &&
         load(library, api.result_string, "cuptiGetResultString");
}

// CUPTI's callbacks carry no pointer of ours, and its buffers are the process's: so are these.
// Filled by CUPTI's own thread.
struct Collected {
  std::mutex mutex;
  Api api;
  std::vector<KernelRecord> records;
  std::size_t dropped = 0;
};

Collected& collected() {
  static Collected instance;
  return instance;
}

// libcupti.so.13 belongs to CUDA 13 , and so on.
constexpr int kSoMajor = CUDART_VERSION / 1000;

constexpr std::size_t kBufferBytes = 8 << 20;
constexpr std::size_t kBufferAlignment = 8;  // ACTIVITY_RECORD_ALIGNMENT

void CUPTIAPI buffer_requested(std::uint8_t** buffer, std::size_t* size, std::size_t* max_records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(kBufferAlignment, kBufferBytes));
  *size = *buffer != nullptr ? kBufferBytes : 0;
  *max_records = 0;  // as many as fit
}

void CUPTIAPI buffer_completed(CUcontext context, std::uint32_t stream, std::uint8_t* buffer,
                               std::size_t, std::size_t valid_bytes) {
  Collected& into = collected();
  const std::lock_guard lock(into.mutex);
  CUpti_Activity* activity = nullptr;
  while (into.api.next_record(buffer, valid_bytes, &activity) == CUPTI_SUCCESS) {
    if (activity->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
      const auto* kernel = reinterpret_cast<const Record*>(activity);
      into.records.push_back({.correlation = kernel->correlationId,
                              .start_ns = static_cast<double>(kernel->start),
                              .end_ns = static_cast<double>(kernel->end)});
    }
  }
  std::size_t dropped = 0;
  into.api.dropped_records(context, stream, &dropped);
  into.dropped += dropped;
  std::free(buffer);
}

class CuptiRecorder : public KernelRecorder {
 public:
  void discard_first_session(const std::function<void()>& work) override { session(work); }

  std::vector<KernelRecord> record(const std::function<void()>& work) override {
    std::vector<KernelRecord> records = session(work);
    const auto begins_before = [](const KernelRecord& a, const KernelRecord& b) {
      return a.start_ns < b.start_ns;
    };
    std::sort(records.begin(), records.end(), begins_before);
    return records;
  }

 private:
  static void check(CUptiResult result, const char* what) {
    if (result != CUPTI_SUCCESS) {
      const char* text = nullptr;
      collected().api.result_string(result, &text);
      throw std::runtime_error(std::string(what) + ": " + (text != nullptr ? text : "CUPTI error"));
    }
  }

  std::vector<KernelRecord> session(const std::function<void()>& work) {
    Collected& from = collected();
    {
      const std::lock_guard lock(from.mutex);
      from.records.clear();
      from.dropped = 0;
    }
    check(from.api.enable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL), "cuptiActivityEnable");
    try {
      work();
    } catch (...) {
      from.api.disable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
      throw;
    }
    // Off in any case: what records would slow down whatever is timed afterwards.
    const CUptiResult flushed = from.api.flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    check(from.api.disable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL), "cuptiActivityDisable");
    check(flushed, "cuptiActivityFlushAll");
    const std::lock_guard lock(from.mutex);
    if (from.dropped > 0) {
      throw std::runtime_error("CUPTI dropped " + std::to_string(from.dropped) + " records");
    }
    return std::move(from.records);
  }
};

void* open_library() {
  // The loader's own search first; then where the toolkit puts it without telling the loader.
  const std::string file = "libcupti.so." + std::to_string(kSoMajor);
  std::vector<std::string> paths{file, "libcupti.so"};
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const char* root = std::getenv(variable)) {
      paths.push_back(std::string(root) + "/extras/CUPTI/lib64/" + file);
      paths.push_back(std::string(root) + "/lib64/" + file);
    }
  }
  paths.push_back("/usr/local/cuda/extras/CUPTI/lib64/" + file);
  paths.push_back("/usr/local/cuda/lib64/" + file);
  for (const std::string& path : paths) {
    if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
      return library;
    }
  }
  return nullptr;
}

}  // namespace

LoadedRecorder load_kernel_recorder() {
  void* library = open_library();
  if (library == nullptr) {
    return {.recorder = nullptr, .missing = "libcupti is not on this machine"};
  }
  Api& api = collected().api;
  if (!load_api(library, api)) {
    return {.recorder = nullptr, .missing = "this libcupti has not the functions needed"};
  }
  // Another subscriber (ncu, nsys, compute-sanitizer) refuses this.
  CUptiResult result = api.register_callbacks(buffer_requested, buffer_completed);
  if (result == CUPTI_SUCCESS) {
    result = api.enable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  }
  if (result != CUPTI_SUCCESS) {
    const char* text = nullptr;
    api.result_string(result, &text);
    return {
        .recorder = nullptr,
        .missing = std::string("CUPTI cannot be used here: ") + (text ? text : "unknown error")};
  }
  api.disable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  return {.recorder = std::make_unique<CuptiRecorder>(), .missing = ""};
}

}  // namespace mla_bench
