// Stands in for executor_cuda.cpp in a build without CUDA.
#include "errors.hpp"
#include "executor.hpp"

namespace mla_bench {
namespace {

constexpr const char* kNoCuda = "this build has no CUDA";

}  // namespace

DeviceList find_cuda_devices() {
  return {.devices = {}, .no_cuda = kNoCuda};
}

std::unique_ptr<Executor> make_cuda_executor(const Device&) {
  throw NoDeviceError(kNoCuda);
}

}  // namespace mla_bench
