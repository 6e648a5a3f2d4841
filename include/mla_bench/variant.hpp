// The contract between the tool and a kernel variant. Needs no CUDA header, so the tool sees CUDA
// and CPU variants alike. kernels/CMakeLists.txt is the list of variants.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mla_bench/precision.hpp"
#include "mla_bench/problem.hpp"

namespace mla_bench {

enum class Backend { kCuda, kCpu };

inline constexpr std::array kBackends{Backend::kCuda, Backend::kCpu};

constexpr std::string_view name_of(Backend backend) {
  return backend == Backend::kCuda ? "cuda" : "cpu";
}

// The part of a processor that does a variant's products. It picks the roofline's ceiling and the
// error bound: tensor cores truncate their sums, and reach fp32 only by splitting operands
// (3xTF32 and the like).
enum class Unit { kFma, kTensorCore };

constexpr std::string_view name_of(Unit unit) {
  return unit == Unit::kFma ? "fma" : "tensor_core";
}

// What a variant may know of the device it is asked about. Zero where the backend has no such
// thing.
struct Device {
  Backend backend = Backend::kCpu;
  int ordinal = 0;   // CUDA index in this process
  std::string name;  // "NVIDIA H200", or the CPU's model name
  std::string uuid;  // "GPU-..." ; for a CPU its model name
  int sm = 0;        // compute capability as 10 * major + minor
  int multiprocessors = 0;
  int clock_mhz = 0;                         // largest SM or core clock; 0 if unknown
  int threads = 1;                           // OpenMP threads of a CPU run
  std::int64_t shared_memory_per_block = 0;  // bytes, opt-in limit
  std::int64_t shared_memory_per_sm = 0;     // bytes
  std::int64_t last_level_cache = 0;         // bytes: L2 of a GPU, L3 of a CPU
  std::int64_t memory = 0;                   // bytes installed
  std::int64_t free_memory = 0;              // bytes, when the device was asked
};

// One set of tensors in the device's memory, in the stored type of the precision. Each begins where
// an allocation of the device may begin; where they lie to one another is not promised.
struct Operands {
  const void* hidden = nullptr;  // (batch * seq, model_dim)
  const void* w_down = nullptr;  // (model_dim, rank)
  const void* w_up_k = nullptr;  // (rank, kv_heads * head_dim)
  const void* w_up_v = nullptr;  // (rank, kv_heads * head_dim)
  void* kv = nullptr;            // (2, batch * seq, kv_heads * head_dim)
};

// A cudaStream_t for CUDA variants; CPU variants ignore it.
using Stream = void*;

// Enqueues the variant's work on the stream (CUDA) or does it (CPU). The only part that is timed.
// Must be capturable into a CUDA graph. Throws CudaError, or the like of a library that it calls,
// where a launch is refused.
using Launch = std::function<void(Stream)>;

struct Extent3 {
  std::int64_t x = 1;
  std::int64_t y = 1;
  std::int64_t z = 1;
};

// One kernel of a launch as the driver sees it, for the document and for the floor of the same
// shape.
struct KernelFacts {
  std::string name;
  Extent3 grid;
  Extent3 block;
  Extent3 cluster;
  std::int64_t shared_bytes = 0;  // static + dynamic, a block
  int registers = 0;              // a thread
  std::int64_t local_bytes = 0;   // a thread: spills and stack
  int blocks_per_sm = 0;          // occupancy by the driver's calculation
};

// A variant made ready for one problem on one device. Owns workspaces and handles through `bind`,
// whose launches stay valid as long as this object lives.
struct Prepared {
  // What was chosen, in words: "pair, 8 rows, split K" or "algorithm 3 of 8, workspace 1 MiB".
  std::string choice;
  // Cheap and untimed, once for each operand set (cold runs rotate hundreds of them).
  std::function<Launch(const Operands&)> bind;
};

struct Variant {
  std::string_view name;     // file = symbol = CLI value = JSON value
  std::string_view summary;  // one line for `list`
  Backend backend;

  Unit (*unit)(Precision);

  // FLOPs it really executes, for the prediction of its time; at least problem.flops().
  double (*executed_flops)(const Problem&);

  // Memory beyond the operands, in bytes, where the device's is.
  std::int64_t (*workspace_bytes)(const Problem&, Precision, const Device&);

  // In words, why it cannot run this cell there ("needs sm_80, this device is sm_75"); nothing if
  // it can. Asks no driver: the same answer on every machine that describes the device alike, and
  // has the library that the variant calls, if it calls one.
  std::optional<std::string> (*why_not)(const Problem&, Precision, const Device&);

  // Untimed, once a cell, on the device's thread with the device current: algorithm search,
  // workspaces, opt-in shared memory. Throws CudaError or the like, or std::bad_alloc where memory
  // is short.
  Prepared (*prepare)(const Problem&, Precision, const Device&);
};

// A line of the list in kernels/CMakeLists.txt; `variant` is null where this build left it out.
struct Listed {
  std::string_view name;
  Backend backend;
  const Variant* variant;
  std::string_view missing;  // why it was left out: "this build has no CUDA"
};

// Every variant of every backend, in the order of the list.
std::span<const Listed> registry();

}  // namespace mla_bench
