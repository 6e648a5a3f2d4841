// What libFuzzer calls; MLA_BENCH_FUZZ_TARGET names the target.
#include <cstddef>
#include <cstdint>

#include "targets.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  mla_bench::MLA_BENCH_FUZZ_TARGET({reinterpret_cast<const char*>(data), size});
  return 0;
}
