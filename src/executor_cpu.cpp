// The CPU as a device: what this process may use of it, host memory, and passes timed by the clock.
#include <omp.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>
#include <stdexcept>
#include <utility>

#include "anchors.hpp"
#include "errors.hpp"
#include "executor.hpp"
#include "host.hpp"
#include "text.hpp"

namespace mla_bench {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kAlignment = 256;  // as cudaMalloc's
constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();

std::vector<std::string> lines_of(const fs::path& path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    lines.push_back(line);
  }
  return lines;
}

std::string first_line_of(const fs::path& path) {
  const std::vector<std::string> lines = lines_of(path);
  return lines.empty() ? std::string() : lines.front();
}

// The number that `text` starts with after spaces: "  16303428 kB" is 16303428. Nothing for "max".
std::optional<std::int64_t> leading_integer(std::string_view text) {
  const std::size_t begin = std::min(text.find_first_not_of(" \t"), text.size());
  const std::size_t end = std::min(text.find_first_not_of("0123456789", begin), text.size());
  return parse_integer(text.substr(begin, end - begin));
}

// The number behind the first line that starts with `key`.
std::optional<std::int64_t> keyed_integer(const fs::path& path, std::string_view key) {
  for (const std::string& line : lines_of(path)) {
    if (std::string_view(line).starts_with(key)) {
      return leading_integer(std::string_view(line).substr(key.size()));
    }
  }
  return std::nullopt;
}

std::string cpu_name(const fs::path& root) {
  for (const std::string& line : lines_of(root / "proc/cpuinfo")) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) {
      return line.substr(colon + 2);
    }
  }
  utsname names{};
  return uname(&names) == 0 ? names.machine : "CPU";
}

// The version 2 control groups that this process is in, from its own up to the outermost visible
// one: each of them may hold a limit.
std::vector<fs::path> control_groups(const fs::path& root) {
  std::vector<fs::path> groups;
  for (const std::string& line : lines_of(root / "proc/self/cgroup")) {
    if (!line.starts_with("0::/")) {
      continue;
    }
    fs::path group = fs::path(line.substr(4));
    for (; !group.empty(); group = group.parent_path()) {
      groups.push_back(root / "sys/fs/cgroup" / group);
    }
  }
  groups.push_back(root / "sys/fs/cgroup");
  return groups;
}

// Whole CPUs' worth of time that the control groups grant, rounded up. cpu.max holds the quota and
// the period in us: "150000 100000", or "max 100000".
std::int64_t cpu_quota(const fs::path& root) {
  std::int64_t cpus = kUnlimited;
  for (const fs::path& group : control_groups(root)) {
    const std::vector<std::string> words = split(first_line_of(group / "cpu.max"), ' ');
    if (words.size() != 2) {
      continue;
    }
    const std::optional<std::int64_t> quota = parse_integer(words[0]);
    const std::optional<std::int64_t> period = parse_integer(words[1]);
    if (quota && period && *quota > 0 && *period > 0) {
      cpus = std::min(cpus, (*quota + *period - 1) / *period);
    }
  }
  return cpus;
}

struct HostMemory {
  std::int64_t total = 0;
  std::int64_t free = 0;
};

std::int64_t memory_pages_in_bytes(int which) {
  return std::max<std::int64_t>(sysconf(which), 0) * sysconf(_SC_PAGESIZE);
}

// The machine's memory, or what the control groups and the process's own limit (`ulimit -v`) leave
// of it. Page cache that the kernel would give back counts as free.
HostMemory host_memory(const fs::path& root) {
  constexpr std::int64_t kKib = 1024;
  const std::optional<std::int64_t> total_kib = keyed_integer(root / "proc/meminfo", "MemTotal:");
  const std::optional<std::int64_t> free_kib =
      keyed_integer(root / "proc/meminfo", "MemAvailable:");
  HostMemory memory;
  memory.total = total_kib ? *total_kib * kKib : memory_pages_in_bytes(_SC_PHYS_PAGES);
  memory.free = free_kib ? *free_kib * kKib : memory_pages_in_bytes(_SC_AVPHYS_PAGES);
  for (const fs::path& group : control_groups(root)) {
    const std::optional<std::int64_t> limit = parse_integer(first_line_of(group / "memory.max"));
    const std::optional<std::int64_t> used = parse_integer(first_line_of(group / "memory.current"));
    if (limit && used) {
      const std::int64_t cache = keyed_integer(group / "memory.stat", "inactive_file ").value_or(0);
      memory.total = std::min(memory.total, *limit);
      memory.free = std::clamp<std::int64_t>(*limit - *used + cache, 0, memory.free);
    }
  }
  const auto limit = keyed_integer(root / "proc/self/limits", "Max address space");
  const auto used_kib = keyed_integer(root / "proc/self/status", "VmSize:");
  if (limit && used_kib) {
    memory.free = std::clamp<std::int64_t>(*limit - *used_kib * kKib, 0, memory.free);
  }
  return memory;
}

// "32768K" or "32M" in bytes.
std::int64_t cache_bytes(const std::string& size) {
  const std::int64_t number = leading_integer(size).value_or(0);
  return size.ends_with('K') ? number << 10 : size.ends_with('M') ? number << 20 : number;
}

// The last-level caches that the CPUs share among them, added up: a working set must pass all of
// them to be cold. Each is counted once, by the list of the CPUs that share it.
std::int64_t last_level_cache(const fs::path& root, const std::vector<int>& cpus) {
  std::map<std::string, std::int64_t> bytes_by_sharers;
  for (const int cpu : cpus) {
    const fs::path caches =
        root / "sys/devices/system/cpu" / ("cpu" + std::to_string(cpu)) / "cache";
    std::int64_t highest = 0;
    std::pair<std::string, std::int64_t> last;
    for (int index = 0; fs::exists(caches / ("index" + std::to_string(index))); ++index) {
      const fs::path cache = caches / ("index" + std::to_string(index));
      const std::int64_t level = parse_integer(first_line_of(cache / "level")).value_or(0);
      if (level > highest) {
        highest = level;
        last = {first_line_of(cache / "shared_cpu_list"),
                cache_bytes(first_line_of(cache / "size"))};
      }
    }
    if (highest > 0) {
      bytes_by_sharers.insert(last);
    }
  }
  std::int64_t bytes = 0;
  for (const auto& [sharers, size] : bytes_by_sharers) {
    bytes += size;
  }
  return bytes;
}

// The words of `bytes`, folded together so that no read can be left out; the last bytes that fill
// no word are not read.
std::uint64_t fold(const void* data, std::int64_t bytes, std::int64_t part, std::int64_t parts) {
  const auto* words = static_cast<const std::uint64_t*>(data);
  const std::int64_t count = bytes / static_cast<std::int64_t>(sizeof(std::uint64_t));
  std::uint64_t folded = 0;
  for (std::int64_t i = count * part / parts; i < count * (part + 1) / parts; ++i) {
    folded ^= words[i];
  }
  return folded;
}

// Reads every input and writes every byte of kv once, a share a thread.
void touch(const Problem& problem, StoredType type, const Operands& operands, int threads) {
  const std::int64_t size = size_of(type);
  const std::int64_t kv_bytes = problem.kv_count() * size;
#pragma omp parallel for num_threads(threads) schedule(static, 1)
  for (int part = 0; part < threads; ++part) {
    const std::uint64_t folded =
        fold(operands.hidden, problem.hidden_count() * size, part, threads) ^
        fold(operands.w_down, problem.down_count() * size, part, threads) ^
        fold(operands.w_up_k, problem.up_count() * size, part, threads) ^
        fold(operands.w_up_v, problem.up_count() * size, part, threads);
    const std::int64_t begin = kv_bytes * part / threads;
    const std::int64_t end = kv_bytes * (part + 1) / threads;
    std::memset(static_cast<std::byte*>(operands.kv) + begin, static_cast<int>(folded & 0xff),
                static_cast<std::size_t>(end - begin));
  }
}

class CpuTimer final : public Timer {
 public:
  explicit CpuTimer(std::vector<Launch> ring) : ring_(std::move(ring)) {
    if (ring_.empty()) {
      throw std::invalid_argument("a timer needs at least one launch");
    }
  }

  Replay replay(std::int64_t launches) override {
    if (launches < 1) {
      throw std::invalid_argument("a timed pass needs at least one launch");
    }
    // Once round the ring wakes the OpenMP team and leaves the caches as a long run would. A pass
    // that has just ended did so too.
    if (std::chrono::steady_clock::now() - last_end_ > kStillWarm) {
      for (const Launch& launch : ring_) {
        launch(nullptr);
      }
    }
    const auto start = std::chrono::steady_clock::now();
    for (std::int64_t i = 0; i < launches; ++i) {
      ring_[static_cast<std::size_t>(i) % ring_.size()](nullptr);
    }
    last_end_ = std::chrono::steady_clock::now();
    const std::chrono::duration<double, std::nano> elapsed = last_end_ - start;
    return {.launches = launches, .ns = elapsed.count()};
  }

  // Two reads of the clock.
  double fixed_cost_ns() const override { return 50; }

 private:
  // Well below the time that an idle OpenMP team waits before it sleeps.
  static constexpr std::chrono::microseconds kStillWarm{200};

  std::chrono::steady_clock::time_point last_end_{};
  std::vector<Launch> ring_;
};

class CpuExecutor final : public Executor {
 public:
  explicit CpuExecutor(const Device& device) : device_(device) {
    device_.free_memory = host_memory("/").free;
    omp_set_dynamic(0);  // OMP_DYNAMIC would take fewer than the document says
    omp_set_num_threads(std::max(device_.threads, 1));
  }

  const Device& device() const override { return device_; }

  // Asks first: Linux promises more memory than it has, and kills whoever uses it. Not for little,
  // since asking takes longer than a cold run of a small problem has for each of its many tensors.
  Memory allocate(std::int64_t bytes) override {
    if (bytes < 0) {
      throw std::invalid_argument("cannot allocate " + std::to_string(bytes) + " bytes");
    }
    if (bytes == 0) {
      return {};
    }
    constexpr std::int64_t kLittle = 1 << 20;
    const bool fits = bytes <= kLittle || bytes <= host_memory("/").free;
    void* data = nullptr;
    if (fits) {
      const std::int64_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
      data = std::aligned_alloc(kAlignment, static_cast<std::size_t>(rounded));
    }
    if (data == nullptr) {
      const std::int64_t free = host_memory("/").free;
      throw OutOfMemoryError("the host has no room for " + std::to_string(bytes) + " bytes (" +
                             human_bytes(static_cast<double>(bytes)) +
                             "): " + human_bytes(static_cast<double>(free)) + " are free");
    }
    return {static_cast<std::byte*>(data), [](std::byte* owned) { std::free(owned); }};
  }

  void fill(std::byte* target, std::byte value, std::int64_t bytes) override {
    if (bytes > 0) {
      std::memset(target, std::to_integer<int>(value), static_cast<std::size_t>(bytes));
    }
  }

  void upload(std::byte* to, std::span<const std::byte> from) override {
    if (!from.empty()) {
      std::memcpy(to, from.data(), from.size());
    }
  }

  void download(std::span<std::byte> to, const std::byte* from) override {
    if (!to.empty()) {
      std::memcpy(to.data(), from, to.size());
    }
  }

  void copy(std::byte* to, const std::byte* from, std::int64_t bytes) override {
    if (bytes > 0) {
      std::memcpy(to, from, static_cast<std::size_t>(bytes));
    }
  }

  bool equal(std::span<const BytePair> pairs) override {
    return std::all_of(pairs.begin(), pairs.end(), [](const BytePair& pair) {
      return pair.bytes == 0 ||
             std::memcmp(pair.a, pair.b, static_cast<std::size_t>(pair.bytes)) == 0;
    });
  }

  void run(const Launch& launch) override { launch(nullptr); }

  std::unique_ptr<Timer> make_timer(std::vector<Launch> ring) override {
    return std::make_unique<CpuTimer>(std::move(ring));
  }

  std::vector<KernelFacts> kernels_of(const Launch&) override { return {}; }

  Launch empty_launch(const std::vector<KernelFacts>&) override {
    return [threads = device_.threads](Stream) {
#pragma omp parallel num_threads(threads)
      {
        // The fork and the join are what is timed; a region with no statement is left out.
        std::atomic_signal_fence(std::memory_order_seq_cst);
      }
    };
  }

  Launch touch_launch(const Problem& problem, StoredType type, const Operands& operands) override {
    return [=, threads = device_.threads](Stream) { touch(problem, type, operands, threads); };
  }

  Launch spin_launch(double ns) override {
    return [ns](Stream) {
      const auto start = std::chrono::steady_clock::now();
      while (std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start)
                 .count() < ns) {
      }
    };
  }

  Launch fill_launch(std::byte* target, std::byte value, std::int64_t bytes) override {
    return [=](Stream) {
      std::memset(target, std::to_integer<int>(value), static_cast<std::size_t>(bytes));
    };
  }

  Workload copy_workload(std::byte* to, const std::byte* from, std::int64_t bytes) override {
    const auto copy = [=, threads = device_.threads](Stream) {
#pragma omp parallel for num_threads(threads) schedule(static, 1)
      for (int part = 0; part < threads; ++part) {
        const std::int64_t begin = bytes * part / threads;
        const std::int64_t end = bytes * (part + 1) / threads;
        std::memcpy(to + begin, from + begin, static_cast<std::size_t>(end - begin));
      }
    };
    return {.launch = copy, .amount = 2.0 * static_cast<double>(bytes)};
  }

  std::optional<Workload> arithmetic_workload(Unit, Precision) override {
    return std::nullopt;
  }

  AnchorLaunches anchor_launches() override {
    auto memory = std::make_shared<std::array<Memory, 2>>();
    for (Memory& half : *memory) {
      half = allocate(cpu_anchors::kBytes);
      fill(half.get(), std::byte{0x5A}, cpu_anchors::kBytes);
    }
    return {.memory = memory,
            .copy = cpu_anchors::copy_launch((*memory)[0].get(), (*memory)[1].get(), device_),
            .fma = cpu_anchors::fma_launch(device_),
            .source = cpu_anchors::source()};
  }

  double enqueue_ns(const Launch&) override {
    return 0;
  }

  Durations durations(const std::vector<Launch>&, std::int64_t) override {
    return {.missing = "a CPU stamps no kernels", .launch_ns = 0};
  }

  KernelCounts count_kernels(const Launch&) override {
    return {.missing = "a CPU runs no kernels"};
  }

  void run_in_range(const Launch& launch, const char*) override {
    run(launch);
  }

  std::optional<Check> check_on_device(const Operands&, const Reference&,
                                       const CheckContext&) override {
    return std::nullopt;
  }

 private:
  Device device_;
};

}  // namespace

int most_threads() {
  return omp_get_thread_limit();
}

Device find_cpu_device(const fs::path& root) {
  const std::vector<int> cpus = allowed_cpus();
  const std::int64_t allowed = cpus.empty() ? kUnlimited : static_cast<std::int64_t>(cpus.size());
  const std::int64_t threads =
      std::min({static_cast<std::int64_t>(omp_get_max_threads()),
                static_cast<std::int64_t>(most_threads()), allowed, cpu_quota(root)});
  const HostMemory memory = host_memory(root);
  Device device;
  device.backend = Backend::kCpu;
  device.name = cpu_name(root);
  device.uuid = device.name;
  device.threads = static_cast<int>(std::max<std::int64_t>(threads, 1));
  device.last_level_cache = last_level_cache(root, cpus);
  device.memory = memory.total;
  device.free_memory = memory.free;
  return device;
}

std::unique_ptr<Executor> make_cpu_executor(const Device& device) {
  return std::make_unique<CpuExecutor>(device);
}

}  // namespace mla_bench
