// main of the tests that need a GPU: without one the run counts as skipped, not as passed.
#include <gtest/gtest.h>

#include <iostream>

#include "errors.hpp"
#include "executor.hpp"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const mla_bench::DeviceList found = mla_bench::find_cuda_devices();
  if (found.devices.empty() && !GTEST_FLAG_GET(list_tests)) {
    std::cerr << "skipped: " << found.no_cuda << '\n';
    return static_cast<int>(mla_bench::ExitCode::kNothingRan);
  }
  return RUN_ALL_TESTS();
}
