// The CPU as a device: memory, launches, the order of timed passes, and what it says of itself.
#include <gtest/gtest.h>
#include <omp.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "errors.hpp"
#include "executor.hpp"

namespace mla_bench {
namespace {

namespace fs = std::filesystem;

std::unique_ptr<Executor> cpu() {
  return make_executor(find_cpu_device());
}

// A directory that stands for / and goes with the test.
class FakeRoot {
 public:
  FakeRoot() : path_(fs::temp_directory_path() / ("mla-bench-root-" + std::to_string(getpid()))) {
    fs::create_directories(path_);
  }
  FakeRoot(const FakeRoot&) = delete;
  FakeRoot& operator=(const FakeRoot&) = delete;
  ~FakeRoot() { fs::remove_all(path_); }

  void write(const fs::path& name, const std::string& text) const {
    fs::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name) << text;
  }

  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

std::vector<int> allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    for (int i = 0; i < CPU_SETSIZE; ++i) {
      if (CPU_ISSET(i, &set)) {
        cpus.push_back(i);
      }
    }
  }
  return cpus;
}

TEST(ExecutorCpu, MovesBytes) {
  const auto executor = cpu();
  const Memory memory = executor->allocate(1000);
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.get()) % 256, 0u);
  executor->fill(memory.get(), std::byte{0xff}, 1000);
  const std::vector<std::byte> sent{std::byte{1}, std::byte{2}, std::byte{3}};
  executor->upload(memory.get() + 10, sent);
  std::vector<std::byte> received(5);
  executor->download(received, memory.get() + 9);
  EXPECT_EQ(received, (std::vector<std::byte>{std::byte{0xff}, std::byte{1}, std::byte{2},
                                              std::byte{3}, std::byte{0xff}}));
}

TEST(ExecutorCpu, ComparesAndCopiesWithinItsMemory) {
  const auto executor = cpu();
  constexpr std::int64_t kBytes = 1003;
  std::vector<std::byte> sent(kBytes);
  for (std::size_t i = 0; i < sent.size(); ++i) {
    sent[i] = static_cast<std::byte>(i * 7);
  }
  const Memory a = executor->allocate(kBytes);
  const Memory b = executor->allocate(kBytes + 1);
  executor->upload(a.get(), sent);
  for (const std::int64_t shift : {0, 1}) {
    const BytePair pair{.a = a.get(), .b = b.get() + shift, .bytes = kBytes};
    executor->copy(b.get() + shift, a.get(), kBytes);
    std::vector<std::byte> received(sent.size());
    executor->download(received, b.get() + shift);
    EXPECT_EQ(received, sent);
    EXPECT_TRUE(executor->equal(std::array{pair, BytePair{}})) << shift;
    for (const std::int64_t at : {std::int64_t{0}, std::int64_t{500}, kBytes - 1}) {
      executor->fill(b.get() + shift + at, ~sent[static_cast<std::size_t>(at)], 1);
      EXPECT_FALSE(executor->equal(std::array{BytePair{}, pair})) << shift << ' ' << at;
      executor->copy(b.get() + shift + at, a.get() + at, 1);
    }
    EXPECT_TRUE(executor->equal(std::array{pair})) << shift;
  }
  EXPECT_TRUE(executor->equal({}));
}

TEST(ExecutorCpu, TakesNoBytes) {
  const auto executor = cpu();
  const Memory memory = executor->allocate(0);
  EXPECT_EQ(memory, nullptr);
  executor->fill(memory.get(), std::byte{0}, 0);
  executor->upload(memory.get(), {});
  executor->copy(memory.get(), memory.get(), 0);
  executor->download({}, memory.get());
  EXPECT_THROW(executor->allocate(-1), std::invalid_argument);
}

TEST(ExecutorCpu, RefusesMoreMemoryThanThereIs) {
  const auto executor = cpu();
  constexpr std::int64_t kTooMuch = std::int64_t{1} << 60;
  try {
    executor->allocate(kTooMuch);
    FAIL() << "an exbibyte was allocated";
  } catch (const OutOfMemoryError& error) {
    EXPECT_NE(std::string(error.what()).find(std::to_string(kTooMuch)), std::string::npos)
        << error.what();
    EXPECT_NE(std::string(error.what()).find("free"), std::string::npos) << error.what();
  }
}

TEST(ExecutorCpu, RunsOnceAndLetsErrorsThrough) {
  const auto executor = cpu();
  int runs = 0;
  executor->run([&](Stream) { ++runs; });
  EXPECT_EQ(runs, 1);
  EXPECT_THROW(executor->run([](Stream) { throw std::runtime_error("refused"); }),
               std::runtime_error);
  executor->run([&](Stream) { ++runs; });
  EXPECT_EQ(runs, 2);
}

TEST(ExecutorCpu, PassesGoRoundTheRingFromItsStart) {
  const auto executor = cpu();
  std::vector<int> order;
  std::vector<Launch> ring;
  for (int i = 0; i < 3; ++i) {
    ring.push_back([&order, i](Stream) { order.push_back(i); });
  }
  const auto timer = executor->make_timer(ring);
  const Replay replay = timer->replay(5);
  EXPECT_EQ(replay.launches, 5);
  EXPECT_GE(replay.ns, 0);
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 0, 1, 2, 0, 1}));  // once round untimed, then five
  order.clear();
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  timer->replay(1);
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 0})) << "the team has gone to sleep in between";
}

TEST(ExecutorCpu, TimesTheTimedLaunchesAlone) {
  const auto executor = cpu();
  constexpr auto kSleep = std::chrono::milliseconds(2);
  const auto timer = executor->make_timer({[=](Stream) { std::this_thread::sleep_for(kSleep); }});
  for (const std::int64_t launches : {1, 4}) {
    const double least_ns = static_cast<double>(launches) * 2e6;
    EXPECT_GE(timer->replay(launches).ns, least_ns);
  }
}

TEST(ExecutorCpu, SpinsAndFills) {
  const std::unique_ptr<Executor> executor = cpu();
  constexpr double kNs = 200000;
  const auto start = std::chrono::steady_clock::now();
  executor->run(executor->spin_launch(kNs));
  const std::chrono::duration<double, std::nano> spun = std::chrono::steady_clock::now() - start;
  EXPECT_GE(spun.count(), kNs);
  const Memory memory = executor->allocate(4);
  executor->fill(memory.get(), std::byte{1}, 4);
  executor->run(executor->fill_launch(memory.get() + 1, std::byte{7}, 2));
  EXPECT_EQ(std::vector<std::byte>(memory.get(), memory.get() + 4),
            (std::vector{std::byte{1}, std::byte{7}, std::byte{7}, std::byte{1}}));
}

TEST(ExecutorCpu, AnchorsRun) {
  const std::unique_ptr<Executor> executor = cpu();
  const AnchorLaunches anchors = executor->anchor_launches();
  const auto& [to, from] = *anchors.memory;
  executor->fill(to.get(), std::byte{0}, 16);
  executor->run(anchors.copy);
  executor->run(anchors.fma);
  EXPECT_EQ(to.get()[15], from.get()[15]);
  EXPECT_EQ(anchors.source.size(), 16u);
}

TEST(ExecutorCpu, RefusesPassesOfNothing) {
  const auto executor = cpu();
  EXPECT_THROW(executor->make_timer({}), std::invalid_argument);
  const auto timer = executor->make_timer({[](Stream) {}});
  EXPECT_THROW(timer->replay(0), std::invalid_argument);
  EXPECT_THROW(timer->replay(-3), std::invalid_argument);
}

TEST(FindDevices, EndsWithTheCpu) {
  const DeviceList list = find_devices();
  ASSERT_FALSE(list.devices.empty());
  EXPECT_EQ(list.devices.back().backend, Backend::kCpu);
  EXPECT_EQ(list.no_cuda.empty(), list.devices.size() > 1);
}

TEST(FindCpuDevice, DescribesThisMachine) {
  const Device device = find_cpu_device();
  EXPECT_EQ(device.backend, Backend::kCpu);
  EXPECT_FALSE(device.name.empty());
  EXPECT_EQ(device.uuid, device.name);
  EXPECT_GE(device.threads, 1);
  EXPECT_GT(device.memory, 0);
  EXPECT_GT(device.free_memory, 0);
  EXPECT_LE(device.free_memory, device.memory);
}

TEST(FindCpuDevice, ReadsNameAndMemory) {
  const FakeRoot root;
  root.write("proc/cpuinfo", "processor\t: 0\nmodel name\t: Some CPU 9000\nmodel name\t: Other\n");
  root.write("proc/meminfo", "MemTotal:       2048 kB\nMemFree: 1 kB\nMemAvailable:   1024 kB\n");
  const Device device = find_cpu_device(root.path());
  EXPECT_EQ(device.name, "Some CPU 9000");
  EXPECT_EQ(device.memory, 2048 * 1024);
  EXPECT_EQ(device.free_memory, 1024 * 1024);
  EXPECT_EQ(device.last_level_cache, 0);
}

TEST(FindCpuDevice, ObeysControlGroups) {
  const FakeRoot root;
  root.write("proc/meminfo", "MemTotal: 4096 kB\nMemAvailable: 4096 kB\n");
  root.write("proc/self/cgroup", "0::/outer/inner\n");
  root.write("sys/fs/cgroup/outer/inner/cpu.max", "max 100000\n");
  root.write("sys/fs/cgroup/outer/cpu.max", "50000 100000\n");  // half a CPU is one thread
  root.write("sys/fs/cgroup/outer/memory.max", "1000000\n");
  root.write("sys/fs/cgroup/outer/memory.current", "700000\n");
  root.write("sys/fs/cgroup/outer/memory.stat", "anon 1\ninactive_file 100000\nactive_file 5\n");
  root.write("sys/fs/cgroup/outer/inner/memory.max", "max\n");
  root.write("sys/fs/cgroup/outer/inner/memory.current", "5\n");
  const Device device = find_cpu_device(root.path());
  EXPECT_EQ(device.threads, 1);
  EXPECT_EQ(device.memory, 1000000);
  EXPECT_EQ(device.free_memory, 400000);
}

TEST(FindCpuDevice, TheProcessesOwnLimitLeavesLess) {
  const FakeRoot root;
  root.write("proc/meminfo", "MemTotal: 4096 kB\nMemAvailable: 4096 kB\n");
  root.write("proc/self/status", "VmPeak:\t 9999 kB\nVmSize:\t    1000 kB\n");
  for (const auto& [limit, free_kib] :
       {std::pair{"unlimited", 4096}, {"3072000", 2000}, {"99999999999", 4096}, {"1000", 0}}) {
    root.write("proc/self/limits",
               "Limit                     Soft Limit           Hard Limit           Units     \n"
               "Max address space         " +
                   std::string(limit) + "            unlimited            bytes     \n");
    EXPECT_EQ(find_cpu_device(root.path()).free_memory, free_kib * 1024) << limit;
  }
}

TEST(FindCpuDevice, CountsASharedCacheOnce) {
  const std::vector<int> cpus = allowed_cpus();
  if (cpus.size() < 2) {
    GTEST_SKIP() << "needs two CPUs";
  }
  const FakeRoot root;
  for (const int cpu : cpus) {
    const fs::path caches = "sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cache";
    root.write(caches / "index0/level", "1\n");
    root.write(caches / "index0/size", "32K\n");
    root.write(caches / "index0/shared_cpu_list", std::to_string(cpu) + "\n");
    root.write(caches / "index1/level", "3\n");
    root.write(caches / "index1/size", cpu == cpus[0] ? "8192K\n" : "4M\n");
    root.write(caches / "index1/shared_cpu_list", cpu == cpus[0] ? "first\n" : "others\n");
  }
  EXPECT_EQ(find_cpu_device(root.path()).last_level_cache, 12 << 20);
}

TEST(FindCpuDevice, ObeysOpenMp) {
  const int threads = omp_get_max_threads();
  omp_set_num_threads(1);
  EXPECT_EQ(find_cpu_device().threads, 1);
  omp_set_num_threads(threads);
}

}  // namespace
}  // namespace mla_bench
