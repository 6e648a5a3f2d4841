// Frozen launches, one that moves memory and one that computes, timed beside cells: a gate against
// a baseline of another day compares cell over anchor, so that what shifts the whole device
// cancels. They are frozen, so each backend's stand in a file of their own, whose hash documents
// hold: times beside other anchors are not comparable. Do not improve them.
#pragma once

#include <cstdint>
#include <string_view>

#include "executor.hpp"

namespace mla_bench {

// Each copies `kBytes` bytes from `from` to `to`, and does independent chains of fp32 fused
// multiply-adds. `source` is the first 16 hex digits of the SHA-256 of the file.
namespace cpu_anchors {  // anchors_cpu.cpp
inline constexpr std::int64_t kBytes = 4 << 20;
Launch copy_launch(std::byte* to, const std::byte* from, const Device& device);
Launch fma_launch(const Device& device);
std::string_view source();
}  // namespace cpu_anchors

namespace cuda_anchors {                           // anchors_cuda.cu
inline constexpr std::int64_t kBytes = 256 << 20;  // several times the L2 of any GPU
Launch copy_launch(std::byte* to, const std::byte* from, const Device& device);
Launch fma_launch(const Device& device);
std::string_view source();
}  // namespace cuda_anchors

}  // namespace mla_bench
