// To be put in front of the C library (LD_PRELOAD): libraries that cannot be opened, and a calendar
// clock that somebody sets while the program runs.
#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <ctime>
#include <string_view>

namespace {

// Beginnings of names without their folder, between commas: "libcupti,libnvidia-ml".
constexpr const char* kRefused = "MLA_BENCH_TEST_REFUSED_LIBRARIES";
// Seconds by which the clock is set forward, or back, before each time that it is asked.
constexpr const char* kClockStep = "MLA_BENCH_TEST_CLOCK_STEP";

bool is_refused(std::string_view path) {
  const char* refused = std::getenv(kRefused);
  const std::string_view name = path.substr(path.find_last_of('/') + 1);
  for (std::string_view left = refused != nullptr ? refused : ""; !left.empty();) {
    const std::string_view beginning = left.substr(0, left.find(','));
    if (name.substr(0, beginning.size()) == beginning) {
      return true;
    }
    left.remove_prefix(std::min(left.size(), beginning.size() + 1));
  }
  return false;
}

// What stands behind this library under that name.
template <typename Function>
Function original(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

void* dlopen(const char* path, int mode) {
  if (path != nullptr && is_refused(path)) {
    return original<void* (*)(const char*, int)>("dlopen")("/refused", mode);  // for dlerror
  }
  return original<void* (*)(const char*, int)>("dlopen")(path, mode);
}

std::time_t time(std::time_t* result) {
  static std::atomic<std::time_t> steps = 0;
  const char* step = std::getenv(kClockStep);
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  const std::time_t told = now.tv_sec + (step != nullptr ? ++steps * std::atol(step) : 0);
  if (result != nullptr) {
    *result = told;
  }
  return told;
}

}  // extern "C"
