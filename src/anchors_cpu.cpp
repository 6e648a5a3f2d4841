// The frozen launches of a CPU: see anchors.hpp before you change a byte of this file.
#include <cmath>
#include <cstring>

#include "anchors.hpp"

namespace mla_bench::cpu_anchors {

Launch copy_launch(std::byte* to, const std::byte* from, const Device& device) {
  return [=, threads = device.threads](Stream) {
#pragma omp parallel for num_threads(threads) schedule(static, 1)
    for (int part = 0; part < threads; ++part) {
      const std::int64_t begin = kBytes * part / threads;
      const std::int64_t end = kBytes * (part + 1) / threads;
      std::memcpy(to + begin, from + begin, static_cast<std::size_t>(end - begin));
    }
  };
}

Launch fma_launch(const Device& device) {
  constexpr int kSteps = 16384;
  constexpr int kChains = 32;  // independent, so that vector units and their latency fill
  return [threads = device.threads](Stream) {
#pragma omp parallel for num_threads(threads) schedule(static, 1)
    for (int part = 0; part < threads; ++part) {
      float chain[kChains];
      for (int i = 0; i < kChains; ++i) {
        chain[i] = static_cast<float>(part + i);
      }
      for (int step = 0; step < kSteps; ++step) {
        for (int i = 0; i < kChains; ++i) {
          chain[i] = chain[i] * 0.999f + 0.5f;
        }
      }
      volatile float sink = 0;  // the sums are made though nobody reads them
      for (const float value : chain) {
        sink = sink + value;
      }
    }
  };
}

std::string_view source() {
  return MLA_BENCH_ANCHOR_SOURCE;
}

}  // namespace mla_bench::cpu_anchors
