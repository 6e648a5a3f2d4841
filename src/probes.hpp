// Launches whose work is known by construction: floors under every variant, ceilings over it, and
// the clock beside it.
#pragma once

#include <cstdint>
#include <span>

#include "executor.hpp"
#include "mla_bench/variant.hpp"

namespace mla_bench {

// Does nothing, in the same launch shapes (grid, block, cluster, shared memory), one kernel for
// each.
Launch empty_launch(std::span<const KernelFacts> kernels);

// Reads every byte of every input and writes every byte of kv, once, and computes nothing.
Launch touch_launch(const Problem& problem, StoredType type, const Operands& operands,
                    const Device& device);

// One thread that waits so long, counted in cycles of the device's highest clock.
Launch spin_launch(double ns, const Device& device);

// One SM's cycle counter and the GPU's nanosecond clock at one moment; zero where none was taken.
struct ClockSample {
  std::int64_t cycles = 0;
  std::int64_t ns = 0;
};

// Takes a sample on each SM that a block lands on, into `samples` (one entry for each SM, memory
// that the GPU can write).
Launch clock_launch(ClockSample* samples, const Device& device);

// The SM clock over the window between two sets of samples: the median over SMs that have both; 0
// where none has. A nanosecond clock that ticks coarsely needs a long window: 1 us in 500 us is 0.2
// %.
double clock_mhz(std::span<const ClockSample> before, std::span<const ClockSample> after);

// Copies `bytes` (a multiple of 16) on the device.
Workload copy_probe(std::byte* to, const std::byte* from, std::int64_t bytes, const Device& device);

// Arithmetic out of registers or shared memory on every SM: independent chains of fp32 fused
// multiply-adds,
Workload fma_probe(const Device& device);
// or tensor-core products of random operands: wgmma where the build and the device have it
// (sm_90a), else mma.sync. `precision` is tf32, bf16 or fp16.
Workload tensor_probe(Precision precision, const Device& device);

}  // namespace mla_bench
