// A libcuda.so.1 of CUDA 11.4, older than any runtime that this project is built with: it has what
// the runtime looks for when it is loaded, says its age, and can do nothing else.
#include <cstring>

namespace {

constexpr int kVersion = 11040;
constexpr int kSuccess = 0;
constexpr int kNotFound = 500;
constexpr int kUnknown = 999;

int do_nothing() {
  return kUnknown;
}

}  // namespace

extern "C" {

int cuInit(unsigned int) {
  return kSuccess;
}

int cuDriverGetVersion(int* version) {
  *version = kVersion;
  return kSuccess;
}

// The runtime asks for each function by its name and the version that it came with.
int cuGetProcAddress_v2(const char* name, void** function, int version, unsigned long long, void*) {
  if (std::strcmp(name, "cuInit") == 0) {
    *function = reinterpret_cast<void*>(cuInit);
  } else if (std::strcmp(name, "cuDriverGetVersion") == 0) {
    *function = reinterpret_cast<void*>(cuDriverGetVersion);
  } else if (std::strncmp(name, "cuGetProcAddress", std::strlen("cuGetProcAddress")) == 0) {
    *function = reinterpret_cast<void*>(cuGetProcAddress_v2);
  } else {
    *function = version <= kVersion ? reinterpret_cast<void*>(do_nothing) : nullptr;
  }
  return *function != nullptr ? kSuccess : kNotFound;
}

}  // extern "C"
