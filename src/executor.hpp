// A device as the tool uses it: memory, copies, launches and timed replays. Two implementations,
// the CPU's and CUDA's; a build without CUDA has a stand-in for the latter that finds no device.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "check.hpp"
#include "mla_bench/variant.hpp"

namespace mla_bench {

// Owned memory of a device, freed with it. Null when empty.
using Memory = std::unique_ptr<std::byte[], std::function<void(std::byte*)>>;

// Two stretches of a device's memory of the same length.
struct BytePair {
  const std::byte* a = nullptr;
  const std::byte* b = nullptr;
  std::int64_t bytes = 0;
};

// One timed pass over `launches` consecutive launches.
struct Replay {
  std::int64_t launches = 0;
  double ns = 0;  // of the whole pass, fixed costs included
  // SM clock over the pass and the launches around it; 0 where it could not be read, and on a CPU.
  double clock_mhz = 0;
};

// Most nodes in one CUDA graph: each costs time to build and memory on host and device to keep.
inline constexpr std::int64_t kMaxGraphNodes = 1 << 16;

// Times passes over a ring of launches (one per operand set; one set is hot, many are cold). Must
// not outlive its executor, nor the variants that its launches come from.
class Timer {
 public:
  virtual ~Timer() = default;

  // One pass over `launches` launches, taken round the ring from its start, after enough untimed
  // ones to be in steady state, which end at the ring's end. CUDA: a graph with
  // the events as nodes, built untimed at the first pass of that length and kept, its node count
  // verified. A later pass of that length runs the graph and nothing else, so that outputs poisoned
  // in between show whether the graph does the work. Throws CudaError, std::runtime_error where the
  // graph does not hold what was launched or would pass kMaxGraphNodes, std::invalid_argument for
  // no launches.
  virtual Replay replay(std::int64_t launches) = 0;

  // About how much of a pass is no launch: events and the start of a graph, or two clock reads.
  virtual double fixed_cost_ns() const = 0;
};

// A launch and what one of it does: bytes moved (read plus written), or FLOPs.
struct Workload {
  Launch launch;
  double amount = 0;
};

// Frozen launches that a baseline of another day is compared by. Whoever holds them must not
// outlive the executor.
struct AnchorLaunches {
  std::shared_ptr<const std::array<Memory, 2>> memory;
  Launch copy;
  Launch fma;
  std::string_view source;  // what they were made from: a hash
};

// How long the kernels of one launch ran by the GPU's own time stamps, or why that cannot be told.
struct Durations {
  std::string missing;
  double launch_ns = 0;  // sum over a launch's kernels, mean over launches
};

// Kernels of one launch by where they run, or why they cannot be counted. All of an honest launch
// enter the graph that is timed: what it puts on a stream of its own does not.
struct KernelCounts {
  std::string missing;
  std::int64_t captured = 0;  // in the graph of one captured launch
  std::int64_t called = 0;    // that ran, on whatever stream, when the launch was called once
  std::int64_t escaped = 0;   // that ran while the launch was only captured
};

class Executor {
 public:
  virtual ~Executor() = default;

  // With `free_memory` as it was when the executor was made.
  virtual const Device& device() const = 0;

  // 256-byte aligned, contents undefined, null for no bytes. Throws OutOfMemoryError that names the
  // bytes asked for and those that are free.
  virtual Memory allocate(std::int64_t bytes) = 0;
  virtual void fill(std::byte* target, std::byte value, std::int64_t bytes) = 0;
  virtual void upload(std::byte* to, std::span<const std::byte> from) = 0;
  virtual void download(std::span<std::byte> to, const std::byte* from) = 0;

  // Within the device's memory, without a detour over the host.
  virtual void copy(std::byte* to, const std::byte* from, std::int64_t bytes) = 0;
  // Whether the two of every pair hold the same bytes.
  virtual bool equal(std::span<const BytePair> pairs) = 0;

  // Launches once and waits. Throws what the launch throws, and CudaError for what it caused.
  // Usable afterwards unless the CUDA context is lost (an illegal address), when every later call
  // throws.
  virtual void run(const Launch& launch) = 0;

  // Throws std::invalid_argument for an empty ring.
  virtual std::unique_ptr<Timer> make_timer(std::vector<Launch> ring) = 0;

  // The kernels that a launch puts on its stream, a library's too, in order. None on a CPU.
  virtual std::vector<KernelFacts> kernels_of(const Launch& launch) = 0;

  // Floors under any launch: nothing at all in the same launch shapes (on a CPU, an empty parallel
  // region), and every input read and every output written once without computing.
  virtual Launch empty_launch(const std::vector<KernelFacts>& kernels) = 0;
  virtual Launch touch_launch(const Problem& problem, StoredType type,
                              const Operands& operands) = 0;

  // Of selftest: nothing for about that long, on one SM or on the calling thread; and `bytes` bytes
  // set to `value`, enqueued as any launch.
  virtual Launch spin_launch(double ns) = 0;
  virtual Launch fill_launch(std::byte* target, std::byte value, std::int64_t bytes) = 0;

  // Ceilings. Bytes are a multiple of 16; no arithmetic where the device has no such unit or no
  // probe.
  virtual Workload copy_workload(std::byte* to, const std::byte* from, std::int64_t bytes) = 0;
  virtual std::optional<Workload> arithmetic_workload(Unit unit, Precision precision) = 0;

  // The two frozen launches of anchors.hpp, with the memory that they need.
  virtual AnchorLaunches anchor_launches() = 0;

  // Host time to enqueue one launch, many in a row; 0 on a CPU, which has no queue.
  virtual double enqueue_ns(const Launch& launch) = 0;

  // Durations over a pass round the ring. Loads a profiling library into the process, which may
  // slow whatever is timed later: the last thing to ask of a process.
  virtual Durations durations(const std::vector<Launch>& ring, std::int64_t launches) = 0;

  // Where the kernels of a launch run. Loads what `durations` loads.
  virtual KernelCounts count_kernels(const Launch& launch) = 0;

  // Launches once inside a named range for an outside profiler, and waits.
  virtual void run_in_range(const Launch& launch, const char* name) = 0;

  // Compares every element of `kv` (device memory) with an fp64 product made on the device from
  // `operands` by an independent plain path, whose rows `sample.rows` are themselves held against
  // `sample`, from the CPU. Returns nothing where the device has no such path (a CPU).
  virtual std::optional<Check> check_on_device(const Operands& operands, const Reference& sample,
                                               const CheckContext& context) = 0;
};

// What is here. Never throws for a missing driver: says why in `no_cuda`.
struct DeviceList {
  std::vector<Device> devices;  // CUDA devices by ordinal, then the CPU
  std::string no_cuda;          // why there is no CUDA device; empty when there is one
  std::string cuda_runtime;     // "13.0": of this build; empty without CUDA
  std::string cuda_driver;      // the newest that the driver supports; empty without one
  // What this program has machine code for, "80,90a" (has_code_for); empty: for whatever is here.
  std::string cuda_architectures = "";
};

// Quick: makes no CUDA context, and leaves the free memory of CUDA devices to their executors.
DeviceList find_devices();

// Makes the device current for this thread and returns its executor.
std::unique_ptr<Executor> make_executor(const Device& device);

// The most threads that OpenMP may use in this process, whatever it is asked for
// (OMP_THREAD_LIMIT).
int most_threads();

// The CPU half. `root` is where /proc and /sys are looked for. Makes `device.threads` the number of
// OpenMP threads of this thread's parallel regions.
Device find_cpu_device(const std::filesystem::path& root = "/");
std::unique_ptr<Executor> make_cpu_executor(const Device& device);

// The CUDA half, in executor_cuda.cpp, or executor_no_cuda.cpp for a build without CUDA.
DeviceList find_cuda_devices();
std::unique_ptr<Executor> make_cuda_executor(const Device& device);

}  // namespace mla_bench
