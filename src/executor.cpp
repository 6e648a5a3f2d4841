#include "executor.hpp"

namespace mla_bench {

DeviceList find_devices() {
  DeviceList list = find_cuda_devices();
  list.devices.push_back(find_cpu_device());
  return list;
}

std::unique_ptr<Executor> make_executor(const Device& device) {
  return device.backend == Backend::kCuda ? make_cuda_executor(device) : make_cpu_executor(device);
}

}  // namespace mla_bench
