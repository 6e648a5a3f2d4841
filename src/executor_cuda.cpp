// A CUDA device: its memory, a stream of its own, and passes timed inside a graph.
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <nvtx3/nvToolsExt.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <stdexcept>
#include <utility>

#include "anchors.hpp"
#include "build_facts.hpp"
#include "captured_kernels.hpp"
#include "check_cuda.hpp"
#include "compare_bytes_cuda.hpp"
#include "errors.hpp"
#include "executor.hpp"
#include "kernel_recorder.hpp"
#include "mla_bench/cuda_check.hpp"
#include "mla_bench/cuda_stream.hpp"
#include "probes.hpp"
#include "text.hpp"

namespace mla_bench {
namespace {

// For destructors and clean-up, where there is nothing to do about a failure but to keep it from
// being blamed on the next call.
void ignore(cudaError_t code) noexcept {
  if (code != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
  }
}

struct StreamDeleter {
  void operator()(cudaStream_t stream) const noexcept { ignore(cudaStreamDestroy(stream)); }
};
struct EventDeleter {
  void operator()(cudaEvent_t event) const noexcept { ignore(cudaEventDestroy(event)); }
};
struct GraphDeleter {
  void operator()(cudaGraph_t graph) const noexcept { ignore(cudaGraphDestroy(graph)); }
};
struct GraphExecDeleter {
  void operator()(cudaGraphExec_t graph) const noexcept { ignore(cudaGraphExecDestroy(graph)); }
};

using OwnedStream = std::unique_ptr<CUstream_st, StreamDeleter>;
using OwnedEvent = std::unique_ptr<CUevent_st, EventDeleter>;
using OwnedGraph = std::unique_ptr<CUgraph_st, GraphDeleter>;
using OwnedGraphExec = std::unique_ptr<CUgraphExec_st, GraphExecDeleter>;

// For captures; what runs, runs on process_stream(). Unlike that one, this one takes part in the
// default stream's implicit order: a launch that forgets its stream argument then fails the capture
// instead of running at once, outside the graph.
OwnedStream make_capture_stream() {
  cudaStream_t stream = nullptr;
  MLA_BENCH_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamDefault));
  return OwnedStream(stream);
}

OwnedEvent make_event() {
  cudaEvent_t event = nullptr;
  MLA_BENCH_CHECK(cudaEventCreate(&event));
  return OwnedEvent(event);
}

std::string version_text(int version) {  // 13000 is "13.0"
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

bool has_driver() {
  void* const library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) {
    return false;
  }
  dlclose(library);
  return true;
}

// The runtime says cudaErrorInsufficientDriver for a driver that is too old and for none at all.
std::string why_no_device(cudaError_t error) {
  if (error == cudaErrorInsufficientDriver && !has_driver()) {
    return "no NVIDIA driver on this machine";
  }
  if (error == cudaErrorInsufficientDriver) {
    int version = 0;
    ignore(cudaDriverGetVersion(&version));
    return "the driver (CUDA " + version_text(version) +
           ") is too old for this build, which needs one for CUDA " +
           version_text(CUDART_VERSION / 1000 * 1000) + " or newer";  // any of that major version
  }
  if (error == cudaErrorNoDevice || error == cudaSuccess) {
    return "no CUDA device";
  }
  return std::string("no CUDA device: ") + cudaGetErrorName(error) + " (" +
         cudaGetErrorString(error) + ")";
}

// "GPU-" and the sixteen bytes in hexadecimal, as nvidia-smi prints them.
std::string uuid_text(const cudaUUID_t& uuid) {
  std::string text = "GPU";
  for (int i = 0; i < 16; ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) {
      text += '-';
    }
    char hex[3];
    std::snprintf(hex, sizeof hex, "%02x",
                  static_cast<unsigned int>(static_cast<unsigned char>(uuid.bytes[i])));
    text += hex;
  }
  return text;
}

Device describe(int ordinal, const cudaDeviceProp& properties) {
  Device device;
  device.backend = Backend::kCuda;
  device.ordinal = ordinal;
  device.name = properties.name;
  device.uuid = uuid_text(properties.uuid);
  device.sm = 10 * properties.major + properties.minor;
  device.multiprocessors = properties.multiProcessorCount;
  int clock_khz = 0;
  ignore(cudaDeviceGetAttribute(&clock_khz, cudaDevAttrClockRate, ordinal));
  device.clock_mhz = clock_khz / 1000;
  device.shared_memory_per_block = static_cast<std::int64_t>(properties.sharedMemPerBlockOptin);
  device.shared_memory_per_sm = static_cast<std::int64_t>(properties.sharedMemPerMultiprocessor);
  device.last_level_cache = properties.l2CacheSize;
  device.memory = static_cast<std::int64_t>(properties.totalGlobalMem);
  return device;
}

std::int64_t free_device_memory() {
  std::size_t free = 0;
  std::size_t total = 0;
  MLA_BENCH_CHECK(cudaMemGetInfo(&free, &total));
  return static_cast<std::int64_t>(free);
}

// Launches once on `stream` and waits. What was enqueued before a launch threw is waited for too,
// so that the next one finds an idle device.
void launch_and_wait(const Launch& launch, cudaStream_t stream) {
  try {
    launch(stream);
    MLA_BENCH_CHECK(cudaGetLastError());
  } catch (...) {
    ignore(cudaStreamSynchronize(stream));
    throw;
  }
  MLA_BENCH_CHECK(cudaStreamSynchronize(stream));
}

// A stream in capture, until `end`. Left by an exception it ends the capture and drops the graph.
class Capture {
 public:
  explicit Capture(cudaStream_t stream) : stream_(stream) {
    MLA_BENCH_CHECK(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  ~Capture() {
    if (capturing_) {
      cudaGraph_t graph = nullptr;
      ignore(cudaStreamEndCapture(stream_, &graph));
      const OwnedGraph dropped(graph);
    }
  }

  void launch(const Launch& launch) {
    launch(stream_);
    MLA_BENCH_CHECK(cudaGetLastError());
  }

  void record(cudaEvent_t event) {
    MLA_BENCH_CHECK(cudaEventRecordWithFlags(event, stream_, cudaEventRecordExternal));
  }

  OwnedGraph end() {
    capturing_ = false;
    cudaGraph_t graph = nullptr;
    MLA_BENCH_CHECK(cudaStreamEndCapture(stream_, &graph));
    return OwnedGraph(graph);
  }

 private:
  cudaStream_t stream_;
  bool capturing_ = true;
};

std::int64_t count_nodes(const OwnedGraph& graph) {
  std::size_t nodes = 0;
  MLA_BENCH_CHECK(cudaGraphGetNodes(graph.get(), nullptr, &nodes));
  return static_cast<std::int64_t>(nodes);
}

// The SM clock between two points of a graph. Samples lie in host memory that the GPU writes, so
// that reading them costs no copy.
class ClockWindow {
 public:
  explicit ClockWindow(const Device& device) : device_(device) {
    void* data = nullptr;
    MLA_BENCH_CHECK(cudaHostAlloc(&data, 2 * sms() * sizeof(ClockSample), cudaHostAllocMapped));
    samples_.reset(static_cast<ClockSample*>(data));
  }

  Launch before() const { return clock_launch(samples_.get(), device_); }
  Launch after() const { return clock_launch(samples_.get() + sms(), device_); }

  // An SM that no block of a pass visited then has no sample, rather than an old one.
  void reset() { std::fill_n(samples_.get(), 2 * sms(), ClockSample{}); }

  double mhz() const { return clock_mhz({samples_.get(), sms()}, {samples_.get() + sms(), sms()}); }

 private:
  struct HostDeleter {
    void operator()(ClockSample* samples) const noexcept { ignore(cudaFreeHost(samples)); }
  };

  std::size_t sms() const { return static_cast<std::size_t>(device_.multiprocessors); }

  Device device_;
  std::unique_ptr<ClockSample, HostDeleter> samples_;
};

// Times n launches by a graph that holds the events as nodes, behind launches that warm up:
//
//   [W warm launches] [clocks] [event a] [n launches] [event b] [clocks]
//
//   period = (T(n2) - T(n1)) / (n2 - n1)
//
// Each [clocks] reads every SM's cycle counter beside the GPU's nanosecond clock, outside the
// events, so that neither the host nor the start of the graph is between the events; what is left
// of a fixed cost is the same for every n and cancels in the caller's slope. Events as graph nodes
// (cudaEventRecordExternal) are documented at cudaEventRecordWithFlags in the CUDA runtime API; the
// CUTLASS profiler times so under --use-cuda-graphs.
class CudaTimer final : public Timer {
 public:
  // `stream` is that device's.
  CudaTimer(const Device& device, cudaStream_t stream, std::vector<Launch> ring)
      : ordinal_(device.ordinal), stream_(stream), ring_(std::move(ring)), clocks_(device) {
    if (ring_.empty()) {
      throw std::invalid_argument("a timer needs at least one launch");
    }
    capture_stream_ = make_capture_stream();
    begin_ = make_event();
    end_ = make_event();
    // Once for real, because kernels and libraries load lazily, which a capture may not allow.
    launch_and_wait(ring_.front(), stream_);
    for (const Launch& launch : ring_) {
      nodes_.push_back(nodes_of(launch));
    }
  }

  Replay replay(std::int64_t launches) override {
    MLA_BENCH_CHECK(cudaSetDevice(ordinal_));
    if (launches < 1) {
      throw std::invalid_argument("a timed pass needs at least one launch");
    }
    if (!graphs_.contains(launches)) {
      build(launches);
    }
    clocks_.reset();
    run_graph(graphs_.at(launches).exec.get());
    float elapsed_ms = 0;
    MLA_BENCH_CHECK(cudaEventElapsedTime(&elapsed_ms, begin_.get(), end_.get()));
    constexpr double kNsPerMs = 1e6;
    return {.launches = launches,
            .ns = static_cast<double>(elapsed_ms) * kNsPerMs,
            .clock_mhz = clocks_.mhz()};
  }

  // The intercept over pass lengths, as measured on an H200.
  double fixed_cost_ns() const override { return 2300; }

 private:
  struct Graph {
    OwnedGraphExec exec;
    std::int64_t nodes = 0;
  };

  // Enough that the first timed launch finds the device at work and its caches in use.
  static constexpr std::int64_t kWarmLaunches = 16;
  // The two lengths of a slope always fit together, however long they are.
  static constexpr std::int64_t kMaxKeptNodes = 2 * kMaxGraphNodes;
  static constexpr std::int64_t kEventNodes = 2;
  static constexpr std::int64_t kClockNodes = 2;
  static constexpr std::int64_t kOwnNodes = kEventNodes + kClockNodes;

  std::int64_t ring_size() const { return static_cast<std::int64_t>(ring_.size()); }

  // Position in the ring of timed launch i; negative ones are warm launches, the last of which is
  // -1.
  std::size_t position(std::int64_t i) const {
    return static_cast<std::size_t>((i % ring_size() + ring_size()) % ring_size());
  }

  // Graph nodes that one launch makes: kernels, copies and fills.
  std::int64_t nodes_of(const Launch& launch) const {
    Capture capture(capture_stream_.get());
    capture.launch(launch);
    const std::int64_t nodes = count_nodes(capture.end());
    if (nodes == 0) {
      throw std::runtime_error("the launch put no work on the stream that it was given");
    }
    return nodes;
  }

  // Captures, verifies, instantiates and runs once untimed the graph of that many timed launches.
  void build(std::int64_t launches) {
    // No more than are timed: for slow launches the warm ones would be most of the run. A long ring
    // needs no more either, since the pass before this one went round it.
    const std::int64_t warm = std::min(kWarmLaunches, launches);
    if (launches > kMaxGraphNodes) {  // before counting, which takes as long as there are launches
      throw_too_long(launches, launches);
    }
    std::int64_t expected = 0;
    for (std::int64_t i = -warm; i < launches; ++i) {
      expected += nodes_[position(i)];
    }
    if (expected + kOwnNodes > kMaxGraphNodes) {
      throw_too_long(launches, expected + kOwnNodes);
    }

    Capture capture(capture_stream_.get());
    for (std::int64_t i = -warm; i < 0; ++i) {
      capture.launch(ring_[position(i)]);
    }
    capture.launch(clocks_.before());
    capture.record(begin_.get());
    for (std::int64_t i = 0; i < launches; ++i) {
      capture.launch(ring_[position(i)]);
    }
    capture.record(end_.get());
    capture.launch(clocks_.after());
    const OwnedGraph graph = capture.end();
    const std::int64_t captured = count_nodes(graph) - kOwnNodes;
    if (captured != expected) {
      throw std::runtime_error("the graph of " + std::to_string(warm) + " + " +
                               std::to_string(launches) + " launches captured " +
                               std::to_string(captured) + " nodes where " +
                               std::to_string(expected) + " were launched");
    }

    std::int64_t kept = expected;
    for (const auto& [length, other] : graphs_) {
      kept += other.nodes;
    }
    if (kept > kMaxKeptNodes) {
      graphs_.clear();
    }
    cudaGraphExec_t exec = nullptr;
    MLA_BENCH_CHECK(cudaGraphInstantiateWithFlags(&exec, graph.get(), 0));
    OwnedGraphExec owned(exec);
    run_graph(exec);
    graphs_.emplace(launches, Graph{.exec = std::move(owned), .nodes = expected});
  }

  [[noreturn]] static void throw_too_long(std::int64_t launches, std::int64_t nodes) {
    throw std::runtime_error("a pass of " + std::to_string(launches) +
                             " launches needs a graph of " + std::to_string(nodes) +
                             " nodes or more; the limit is " + std::to_string(kMaxGraphNodes));
  }

  void run_graph(cudaGraphExec_t exec) const {
    MLA_BENCH_CHECK(cudaGraphLaunch(exec, stream_));
    MLA_BENCH_CHECK(cudaStreamSynchronize(stream_));
  }

  int ordinal_;
  cudaStream_t stream_;
  std::vector<Launch> ring_;
  ClockWindow clocks_;
  std::vector<std::int64_t> nodes_;  // of each launch of the ring
  OwnedStream capture_stream_;
  OwnedEvent begin_;
  OwnedEvent end_;
  std::map<std::int64_t, Graph> graphs_;  // by number of timed launches
};

// A pass is warm launches, a clock sample, the timed launches and another clock sample: the records
// of the last API call, in order of time, end with `launches` launches of `kernels` kernels each,
// and the clock's.
double launch_duration_ns(std::vector<KernelRecord> records, std::size_t kernels,
                          std::int64_t launches) {
  if (!records.empty()) {
    const std::uint32_t last = records.back().correlation;
    std::erase_if(records, [last](const KernelRecord& r) { return r.correlation != last; });
  }
  const std::size_t timed = kernels * static_cast<std::size_t>(launches);
  constexpr std::size_t kClockKernels = 2;
  if (kernels == 0 || records.size() < timed + kClockKernels ||
      (records.size() - kClockKernels) % kernels != 0) {
    throw std::runtime_error("CUPTI recorded " + std::to_string(records.size()) +
                             " kernels of a pass of " + std::to_string(launches) + " launches of " +
                             std::to_string(kernels));
  }
  // The later half, whose clock has settled. The stamps tick coarsely (256 ns were seen on an
  // H200): a mean sees through that, a median does not.
  const std::int64_t settled = (launches + 1) / 2;
  double total_ns = 0;
  for (std::size_t i = records.size() - 1 - kernels * static_cast<std::size_t>(settled);
       i + 1 < records.size(); ++i) {
    total_ns += records[i].end_ns - records[i].start_ns;
  }
  return total_ns / static_cast<double>(settled);
}

class CudaExecutor final : public Executor {
 public:
  explicit CudaExecutor(const Device& device) : device_(device) {
    make_current();
    stream_ = process_stream();
    differ_ = allocate(sizeof(int));
    // Not cudaCtxResetPersistingL2Cache(), for the reason that cuda_stream.hpp gives. A new context
    // has no lines that L2 was asked to keep; a variant that asks for some has to give them back.
    device_.free_memory = free_device_memory();
  }

  const Device& device() const override { return device_; }

  Memory allocate(std::int64_t bytes) override {
    make_current();
    if (bytes < 0) {
      throw std::invalid_argument("cannot allocate " + std::to_string(bytes) + " bytes");
    }
    if (bytes == 0) {
      return {};
    }
    void* data = nullptr;
    const cudaError_t error = cudaMalloc(&data, static_cast<std::size_t>(bytes));
    if (error == cudaErrorMemoryAllocation) {
      ignore(error);
      const std::int64_t free = free_device_memory();
      throw OutOfMemoryError("cuda:" + std::to_string(device_.ordinal) + " has no room for " +
                             std::to_string(bytes) + " bytes (" +
                             human_bytes(static_cast<double>(bytes)) +
                             "): " + human_bytes(static_cast<double>(free)) + " are free");
    }
    MLA_BENCH_CHECK(error);
    return {static_cast<std::byte*>(data), [](std::byte* owned) { ignore(cudaFree(owned)); }};
  }

  void fill(std::byte* target, std::byte value, std::int64_t bytes) override {
    make_current();
    if (bytes > 0) {
      MLA_BENCH_CHECK(cudaMemsetAsync(target, std::to_integer<int>(value),
                                      static_cast<std::size_t>(bytes), stream_));
      MLA_BENCH_CHECK(cudaStreamSynchronize(stream_));
    }
  }

  void upload(std::byte* to, std::span<const std::byte> from) override {
    copy_and_wait(to, from.data(), from.size(), cudaMemcpyHostToDevice);
  }

  void download(std::span<std::byte> to, const std::byte* from) override {
    copy_and_wait(to.data(), from, to.size(), cudaMemcpyDeviceToHost);
  }

  void copy(std::byte* to, const std::byte* from, std::int64_t bytes) override {
    copy_and_wait(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToDevice);
  }

  bool equal(std::span<const BytePair> pairs) override {
    make_current();
    int differ = 0;
    compare_bytes(stream_, pairs, reinterpret_cast<int*>(differ_.get()));
    download(std::as_writable_bytes(std::span(&differ, 1)), differ_.get());
    return differ == 0;
  }

  void run(const Launch& launch) override {
    make_current();
    launch_and_wait(launch, stream_);
  }

  std::unique_ptr<Timer> make_timer(std::vector<Launch> ring) override {
    make_current();
    return std::make_unique<CudaTimer>(device_, stream_, std::move(ring));
  }

  std::vector<KernelFacts> kernels_of(const Launch& launch) override {
    make_current();
    const OwnedStream capture_stream = make_capture_stream();
    Capture capture(capture_stream.get());
    capture.launch(launch);
    return kernels_of_graph(capture.end().get());
  }

  Launch empty_launch(const std::vector<KernelFacts>& kernels) override {
    make_current();
    return mla_bench::empty_launch(kernels);
  }

  Launch touch_launch(const Problem& problem, StoredType type, const Operands& operands) override {
    return mla_bench::touch_launch(problem, type, operands, device_);
  }

  Launch spin_launch(double ns) override { return mla_bench::spin_launch(ns, device_); }

  Launch fill_launch(std::byte* target, std::byte value, std::int64_t bytes) override {
    return [=](Stream stream) {
      MLA_BENCH_CHECK(cudaMemsetAsync(target, std::to_integer<int>(value),
                                      static_cast<std::size_t>(bytes),
                                      static_cast<cudaStream_t>(stream)));
    };
  }

  Workload copy_workload(std::byte* to, const std::byte* from, std::int64_t bytes) override {
    return copy_probe(to, from, bytes, device_);
  }

  std::optional<Workload> arithmetic_workload(Unit unit, Precision precision) override {
    return unit == Unit::kFma ? fma_probe(device_) : tensor_probe(precision, device_);
  }

  AnchorLaunches anchor_launches() override {
    auto memory = std::make_shared<std::array<Memory, 2>>();
    for (Memory& half : *memory) {
      half = allocate(cuda_anchors::kBytes);
      fill(half.get(), std::byte{0x5A}, cuda_anchors::kBytes);
    }
    return {.memory = memory,
            .copy = cuda_anchors::copy_launch((*memory)[0].get(), (*memory)[1].get(), device_),
            .fma = cuda_anchors::fma_launch(device_),
            .source = cuda_anchors::source()};
  }

  double enqueue_ns(const Launch& launch) override {
    make_current();
    constexpr int kLaunches = 500;  // fits the queue, so that none waits for the GPU
    run(launch);
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kLaunches; ++i) {
      launch(stream_);
    }
    const std::chrono::duration<double, std::nano> elapsed =
        std::chrono::steady_clock::now() - start;
    MLA_BENCH_CHECK(cudaStreamSynchronize(stream_));
    return elapsed.count() / kLaunches;
  }

  Durations durations(const std::vector<Launch>& ring, std::int64_t launches) override {
    make_current();
    if (recorder().recorder == nullptr) {
      return {.missing = recorder().missing, .launch_ns = 0};
    }
    const std::size_t kernels = kernels_of(ring.front()).size();
    try {
      // A timer of its own, so that its graph is made while kernels are recorded.
      const std::vector<KernelRecord> records =
          recorder().recorder->record([&] { make_timer(ring)->replay(launches); });
      return {.missing = "", .launch_ns = launch_duration_ns(records, kernels, launches)};
    } catch (const CudaError&) {
      throw;
    } catch (const std::runtime_error& error) {
      return {.missing = error.what(), .launch_ns = 0};
    }
  }

  KernelCounts count_kernels(const Launch& launch) override {
    make_current();
    if (recorder().recorder == nullptr) {
      return {.missing = recorder().missing};
    }
    const auto count = [this](const std::function<void()>& work) {
      const std::vector<KernelRecord> records = recorder().recorder->record([&] {
        work();
        // Streams that are not ours are to be seen too.
        MLA_BENCH_CHECK(cudaDeviceSynchronize());
      });
      return static_cast<std::int64_t>(records.size());
    };
    const Launch known = empty_launch({KernelFacts{}});
    run(known);  // loads it
    KernelCounts counts;
    counts.captured = static_cast<std::int64_t>(kernels_of(launch).size());
    MLA_BENCH_CHECK(cudaDeviceSynchronize());  // what escaped just now belongs to no count
    try {
      counts.called = count([&] { run(launch); });
      // One kernel of ours beside it, so that a count of none is known from a recorder that sees
      // none.
      counts.escaped = count([&] {
        kernels_of(launch);
        run(known);
      });
    } catch (const CudaError&) {
      throw;
    } catch (const std::runtime_error& error) {
      return {.missing = error.what()};
    }
    if (counts.called == 0 || counts.escaped == 0) {
      return {.missing = "CUPTI recorded no kernel"};
    }
    counts.escaped -= 1;
    return counts;
  }

  void run_in_range(const Launch& launch, const char* name) override {
    nvtxRangePushA(name);
    run(launch);
    nvtxRangePop();
  }

  std::optional<Check> check_on_device(const Operands& operands, const Reference& sample,
                                       const CheckContext& context) override {
    make_current();
    return check_on_cuda(*this, stream_, operands, sample, context);
  }

 private:
  // Before every call: another executor of this thread may have chosen its own device.
  void make_current() const { MLA_BENCH_CHECK(cudaSetDevice(device_.ordinal)); }

  // Loaded when it is first asked for.
  LoadedRecorder& recorder() {
    if (!recorder_) {
      recorder_ = load_kernel_recorder();
      if (recorder_->recorder != nullptr) {
        recorder_->recorder->discard_first_session([&] { run(empty_launch({KernelFacts{}})); });
      }
    }
    return *recorder_;
  }

  void copy_and_wait(std::byte* to, const std::byte* from, std::size_t bytes,
                     cudaMemcpyKind kind) const {
    make_current();
    if (bytes > 0) {
      MLA_BENCH_CHECK(cudaMemcpyAsync(to, from, bytes, kind, stream_));
      MLA_BENCH_CHECK(cudaStreamSynchronize(stream_));
    }
  }

  Device device_;
  cudaStream_t stream_ = nullptr;
  Memory differ_;  // of `equal`
  std::optional<LoadedRecorder> recorder_;
};

}  // namespace

DeviceList find_cuda_devices() {
  DeviceList list;
  list.cuda_runtime = version_text(CUDART_VERSION);
  list.cuda_architectures = build_facts().cuda_architectures;
  int driver = 0;
  ignore(cudaDriverGetVersion(&driver));
  if (driver > 0) {
    list.cuda_driver = version_text(driver);
  }
  int count = 0;
  cudaError_t error = cudaGetDeviceCount(&count);
  for (int ordinal = 0; error == cudaSuccess && ordinal < count; ++ordinal) {
    cudaDeviceProp properties{};
    error = cudaGetDeviceProperties(&properties, ordinal);
    list.devices.push_back(describe(ordinal, properties));
  }
  if (error != cudaSuccess || count == 0) {
    ignore(error);
    list.devices.clear();
    list.no_cuda = why_no_device(error);
  }
  return list;
}

std::unique_ptr<Executor> make_cuda_executor(const Device& device) {
  try {
    return std::make_unique<CudaExecutor>(device);
  } catch (const CudaError& error) {
    if (error.code() == cudaErrorMemoryAllocation) {
      throw OutOfMemoryError("cuda:" + std::to_string(device.ordinal) +
                             " has no room for a context: other processes hold its memory");
    }
    throw;
  }
}

}  // namespace mla_bench
