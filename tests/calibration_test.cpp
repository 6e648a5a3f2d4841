// Ceilings: how they are measured on a CPU, what they bound, and how they are kept for a day.
#include "calibration.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "calibration_cache.hpp"

namespace mla_bench {
namespace {

namespace fs = std::filesystem;

TEST(Calibrate, MeasuresACpu) {
  Device device = find_cpu_device();
  device.threads = 1;
  device.last_level_cache = 1 << 20;
  const auto executor = make_cpu_executor(device);
  const Calibration calibration = calibrate(*executor);
  for (const double rate : {calibration.cache_bytes_per_s, calibration.memory_bytes_per_s}) {
    EXPECT_TRUE(std::isfinite(rate));
    EXPECT_GT(rate, 1e6);
    EXPECT_LT(rate, 1e14);
  }
  // Two clock reads less than a launch's worth of noise: it may come out on either side of zero.
  EXPECT_TRUE(std::isfinite(calibration.replay_intercept_ns));
  EXPECT_TRUE(std::isfinite(calibration.tick_ns));
  EXPECT_GE(calibration.tick_ns, 0);
  EXPECT_GT(calibration.empty_launch_ns, 0);
  EXPECT_GT(calibration.launch_and_wait_ns, 0);
  EXPECT_EQ(calibration.enqueue_ns, 0) << "a CPU has no queue";
  EXPECT_FALSE(calibration.fma_flop_per_s) << "there is no such probe";
  EXPECT_FALSE(calibration.tf32_flop_per_s);
}

constexpr double kTera = 1e12;

// One FLOP of fma takes 1 ps, one byte of memory 1 ps, of cache 0.25 ps.
Calibration round_ceilings() {
  Calibration calibration;
  calibration.measured_at = "2026-11-29T12:00:00Z";
  calibration.tick_ns = 32;
  calibration.memory_bytes_per_s = kTera;
  calibration.cache_bytes_per_s = 4 * kTera;
  calibration.fma_flop_per_s = kTera;
  calibration.tf32_flop_per_s = 30 * kTera;
  calibration.bf16_flop_per_s = 50 * kTera;
  calibration.fp16_flop_per_s = 60 * kTera;
  return calibration;
}

Device with_cache(std::int64_t bytes) {
  Device device;
  device.last_level_cache = bytes;
  return device;
}

constexpr std::int64_t kLarge = std::int64_t{1} << 40;

// 8 x 4 rows, and as many FLOPs and elements as its sizes say.
Cell cell_of(Precision precision, L2State l2) {
  Cell cell;
  cell.precision = precision;
  cell.l2 = l2;
  cell.problem = {.batch = 8, .seq = 4, .model_dim = 64, .rank = 16, .kv_heads = 2, .head_dim = 8};
  return cell;
}
constexpr double kFlops = 2.0 * 32 * 16 * (64 + 2 * 16);                     // 98304
constexpr double kElements = 32 * 64 + 64 * 16 + 2 * 16 * 16 + 2 * 32 * 16;  // 4608

TEST(Roofline, ArithmeticBinds) {
  const auto bound = roofline(round_ceilings(), with_cache(kLarge),
                              cell_of(Precision::kFp32, L2State::kCold), Unit::kFma);
  ASSERT_TRUE(bound);
  EXPECT_FALSE(bound->by_memory);
  EXPECT_NEAR(bound->ns, kFlops / 1000, 1e-6);
}

TEST(Roofline, MemoryBindsColdAndTheCacheHot) {
  Calibration calibration = round_ceilings();
  calibration.fma_flop_per_s = 1e6 * kTera;
  const auto cold = roofline(calibration, with_cache(kLarge),
                             cell_of(Precision::kFp32, L2State::kCold), Unit::kFma);
  const auto hot = roofline(calibration, with_cache(kLarge),
                            cell_of(Precision::kFp32, L2State::kHot), Unit::kFma);
  ASSERT_TRUE(cold && hot);
  EXPECT_TRUE(cold->by_memory && hot->by_memory);
  EXPECT_NEAR(cold->ns, 4 * kElements / 1000, 1e-6);
  EXPECT_NEAR(hot->ns, kElements / 1000, 1e-6);
  const auto half = roofline(calibration, with_cache(kLarge),
                             cell_of(Precision::kBf16, L2State::kCold), Unit::kFma);
  ASSERT_TRUE(half);
  EXPECT_NEAR(half->ns, 2 * kElements / 1000, 1e-6);
}

TEST(Roofline, OperandsLargerThanTheCacheComeFromMemory) {
  Calibration calibration = round_ceilings();
  calibration.fma_flop_per_s = 1e6 * kTera;
  const Cell hot = cell_of(Precision::kFp32, L2State::kHot);
  constexpr auto kBytes = static_cast<std::int64_t>(4 * kElements);
  const auto fits = roofline(calibration, with_cache(kBytes), hot, Unit::kFma);
  const auto does_not = roofline(calibration, with_cache(kBytes - 1), hot, Unit::kFma);
  ASSERT_TRUE(fits && does_not);
  EXPECT_NEAR(fits->ns, kElements / 1000, 1e-6);
  EXPECT_NEAR(does_not->ns, 4 * kElements / 1000, 1e-6);
}

TEST(Roofline, TensorCoresAreRatedByPrecision) {
  Calibration calibration = round_ceilings();
  calibration.memory_bytes_per_s = 1e6 * kTera;
  const auto ns = [&](Precision precision) {
    const auto bound = roofline(calibration, with_cache(kLarge), cell_of(precision, L2State::kCold),
                                Unit::kTensorCore);
    return bound ? bound->ns : 0;
  };
  EXPECT_NEAR(ns(Precision::kTf32), kFlops / 30e3, 1e-6);
  EXPECT_NEAR(ns(Precision::kFp32), kFlops / 30e3 + 2 * kFlops / 50e3, 1e-6)
      << "one product in TF32 and two in BF16";
  EXPECT_NEAR(ns(Precision::kBf16), kFlops / 50e3, 1e-6);
  EXPECT_NEAR(ns(Precision::kFp16), kFlops / 60e3, 1e-6);
}

TEST(Roofline, UnknownCeilingsBoundNothing) {
  const Cell cell = cell_of(Precision::kFp32, L2State::kCold);
  Calibration no_fma = round_ceilings();
  no_fma.fma_flop_per_s.reset();
  EXPECT_FALSE(roofline(no_fma, with_cache(kLarge), cell, Unit::kFma));
  EXPECT_TRUE(roofline(no_fma, with_cache(kLarge), cell, Unit::kTensorCore));
  Calibration no_tensor = round_ceilings();
  no_tensor.tf32_flop_per_s.reset();
  EXPECT_FALSE(roofline(no_tensor, with_cache(kLarge), cell, Unit::kTensorCore));
  no_tensor = round_ceilings();
  no_tensor.bf16_flop_per_s.reset();
  EXPECT_FALSE(roofline(no_tensor, with_cache(kLarge), cell, Unit::kTensorCore));
  Calibration no_memory = round_ceilings();
  no_memory.memory_bytes_per_s = 0;
  EXPECT_FALSE(roofline(no_memory, with_cache(kLarge), cell, Unit::kFma));
}

// A cache folder of its own for each test; the environment is put back.
class CalibrationCache : public testing::Test {
 protected:
  void SetUp() override {
    if (const char* old = std::getenv("XDG_CACHE_HOME")) {
      old_ = old;
    }
    fs::create_directories(root_);
    setenv("XDG_CACHE_HOME", root_.c_str(), 1);
  }

  void TearDown() override {
    if (old_) {
      setenv("XDG_CACHE_HOME", old_->c_str(), 1);
    } else {
      unsetenv("XDG_CACHE_HOME");
    }
    fs::remove_all(root_);
  }

  fs::path file() const { return root_ / "mla-bench" / "GPU-1.json"; }

  std::string text() const {
    std::ifstream in(file());
    return {std::istreambuf_iterator<char>(in), {}};
  }

  void write(const std::string& text) const { std::ofstream(file()) << text; }

  // The kept text with the value of `key` replaced by "other".
  std::string with_other(const std::string& key) const {
    std::string changed = text();
    const std::size_t begin = changed.find("\"" + key + "\": \"");
    if (begin == std::string::npos) {
      ADD_FAILURE() << key << " is not in " << changed;
      return changed;
    }
    const std::size_t value = begin + key.size() + 5;
    return changed.replace(value, changed.find('"', value) - value, "other");
  }

  const CalibrationKey key_{.uuid = "GPU-1", .driver = "580.1"};
  const std::string now_ = "2026-11-29T13:00:00Z";  // an hour later

  const fs::path& root() const { return root_; }

 private:
  fs::path root_ = fs::temp_directory_path() / ("mla-bench-cache-" + std::to_string(getpid()));
  std::optional<std::string> old_;
};

TEST_F(CalibrationCache, GivesBackWhatItWasGiven) {
  EXPECT_FALSE(cached_calibration(key_, now_));
  Calibration kept = round_ceilings();
  kept.fp16_flop_per_s.reset();
  cache_calibration(key_, kept);
  EXPECT_TRUE(fs::exists(file()));
  const auto found = cached_calibration(key_, now_);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->measured_at, kept.measured_at);
  EXPECT_EQ(found->tick_ns, kept.tick_ns);
  EXPECT_EQ(found->memory_bytes_per_s, kept.memory_bytes_per_s);
  EXPECT_EQ(found->cache_bytes_per_s, kept.cache_bytes_per_s);
  EXPECT_EQ(found->tf32_flop_per_s, kept.tf32_flop_per_s);
  EXPECT_FALSE(found->fp16_flop_per_s);
}

TEST_F(CalibrationCache, KeepsForADay) {
  cache_calibration(key_, round_ceilings());
  EXPECT_TRUE(cached_calibration(key_, "2026-11-29T12:00:00Z"));
  EXPECT_TRUE(cached_calibration(key_, "2026-11-30T11:59:59Z"));
  EXPECT_FALSE(cached_calibration(key_, "2026-11-30T12:00:00Z"));
}

TEST_F(CalibrationCache, DistrustsAClockThatWentBack) {
  cache_calibration(key_, round_ceilings());
  EXPECT_FALSE(cached_calibration(key_, "2026-11-29T11:59:59Z"));
  EXPECT_FALSE(cached_calibration(key_, "yesterday"));
}

TEST_F(CalibrationCache, IsOfOneGpuAndOneDriver) {
  cache_calibration(key_, round_ceilings());
  EXPECT_FALSE(cached_calibration({.uuid = "GPU-2", .driver = key_.driver}, now_));
  EXPECT_FALSE(cached_calibration({.uuid = key_.uuid, .driver = "580.2"}, now_));
}

TEST_F(CalibrationCache, IsOfOneProgram) {
  cache_calibration(key_, round_ceilings());
  const std::string whole = text();
  for (const std::string part : {"version", "commit"}) {
    write(with_other(part));
    EXPECT_FALSE(cached_calibration(key_, now_)) << part;
    write(whole);
    EXPECT_TRUE(cached_calibration(key_, now_)) << part;
  }
}

TEST_F(CalibrationCache, DamageIsAsGoodAsNothing) {
  cache_calibration(key_, round_ceilings());
  const std::string whole = text();
  for (const std::string& damaged :
       {std::string(), std::string("{"), std::string("[]"), std::string("{}"), std::string("null"),
        std::string("\xff\xfe"), whole.substr(0, whole.size() / 2), with_other("measured_at")}) {
    write(damaged);
    EXPECT_NO_THROW(EXPECT_FALSE(cached_calibration(key_, now_)) << damaged);
  }
  std::string no_calibration = whole;
  no_calibration.replace(no_calibration.find("memory_bytes_per_s"), 6, "nothin");
  write(no_calibration);
  EXPECT_NO_THROW(EXPECT_FALSE(cached_calibration(key_, now_)));
  fs::remove(file());
  fs::create_directory(file());
  EXPECT_NO_THROW(EXPECT_FALSE(cached_calibration(key_, now_)));
  EXPECT_NO_THROW(cache_calibration(key_, round_ceilings()));
}

// A file where the folder should be stops root, too.
TEST_F(CalibrationCache, AFolderThatCannotBeWrittenIsNoError) {
  std::ofstream(root() / "mla-bench") << "in the way";
  EXPECT_NO_THROW(cache_calibration(key_, round_ceilings()));
  EXPECT_NO_THROW(EXPECT_FALSE(cached_calibration(key_, now_)));
}

TEST_F(CalibrationCache, AUuidNamesNoOtherFolder) {
  const CalibrationKey key{.uuid = "../../GPU-1", .driver = "580.1"};
  cache_calibration(key, round_ceilings());
  EXPECT_TRUE(fs::exists(root() / "mla-bench" / "------GPU-1.json"));
  EXPECT_TRUE(cached_calibration(key, now_));
}

}  // namespace
}  // namespace mla_bench
