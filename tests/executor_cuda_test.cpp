// The CUDA executor on a real device: memory, launches, graphs that hold what was launched, times
// that agree with the device's own clock, and the check of a whole output in fp64.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "compare_element.hpp"
#include "errors.hpp"
#include "executor.hpp"
#include "executor_cuda_kernels.hpp"
#include "measure.hpp"

namespace mla_bench {
namespace {

using test::append;
using test::append_on_default_stream;
using test::append_twice;
using test::Log;
using test::refused;

// Untimed launches before a pass.
constexpr std::int64_t warm_launches(std::int64_t launches) {
  return std::min<std::int64_t>(16, launches);
}

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "nothing was thrown";
}

class CudaTest : public testing::Test {
 protected:
  CudaTest() : executor_(make_executor(find_cuda_devices().devices.at(0))) {}

  std::unique_ptr<Executor> executor_;
};

// Tests that look at what kernels left in the log.
class LogTest : public CudaTest {
 protected:
  LogTest() : memory_(executor_->allocate(sizeof(Log))) { clear(); }

  Log* log() const { return reinterpret_cast<Log*>(memory_.get()); }

  void clear() { executor_->fill(memory_.get(), std::byte{0}, sizeof(Log)); }

  std::unique_ptr<Log> read() {
    auto copy = std::make_unique<Log>();
    executor_->download(std::as_writable_bytes(std::span(copy.get(), 1)), memory_.get());
    return copy;
  }

  Memory memory_;
};

using CudaExecutorTest = LogTest;
using CudaTimerTest = LogTest;

TEST_F(CudaExecutorTest, DescribesTheDevice) {
  const Device& device = executor_->device();
  EXPECT_EQ(device.backend, Backend::kCuda);
  EXPECT_EQ(device.uuid.size(), std::string("GPU-01234567-89ab-cdef-0123-456789abcdef").size());
  EXPECT_TRUE(device.uuid.starts_with("GPU-")) << device.uuid;
  EXPECT_GE(device.sm, 75);
  EXPECT_GT(device.multiprocessors, 0);
  EXPECT_GT(device.shared_memory_per_block, 48 << 10);
  EXPECT_GE(device.shared_memory_per_sm, device.shared_memory_per_block);
  EXPECT_GT(device.last_level_cache, 1 << 20);
  EXPECT_GT(device.free_memory, 0);
  EXPECT_LE(device.free_memory, device.memory);
}

TEST_F(CudaExecutorTest, MovesBytes) {
  const Memory memory = executor_->allocate(1000);
  executor_->fill(memory.get(), std::byte{0xff}, 1000);
  const std::vector<std::byte> sent{std::byte{1}, std::byte{2}, std::byte{3}};
  executor_->upload(memory.get() + 10, sent);
  std::vector<std::byte> received(5);
  executor_->download(received, memory.get() + 9);
  EXPECT_EQ(received, (std::vector<std::byte>{std::byte{0xff}, std::byte{1}, std::byte{2},
                                              std::byte{3}, std::byte{0xff}}));
}

TEST_F(CudaExecutorTest, ComparesAndCopiesWithinItsMemory) {
  constexpr std::int64_t kBytes = 1003;  // words of 16 bytes, and a rest
  std::vector<std::byte> sent(kBytes);
  for (std::size_t i = 0; i < sent.size(); ++i) {
    sent[i] = static_cast<std::byte>(i * 7);
  }
  const Memory a = executor_->allocate(kBytes);
  const Memory b = executor_->allocate(kBytes + 1);
  executor_->upload(a.get(), sent);
  for (const std::int64_t shift : {0, 1}) {  // 1: no words
    const BytePair pair{.a = a.get(), .b = b.get() + shift, .bytes = kBytes};
    executor_->copy(b.get() + shift, a.get(), kBytes);
    std::vector<std::byte> received(sent.size());
    executor_->download(received, b.get() + shift);
    EXPECT_EQ(received, sent);
    EXPECT_TRUE(executor_->equal(std::array{pair, BytePair{}})) << shift;
    for (const std::int64_t at : {std::int64_t{0}, std::int64_t{500}, kBytes - 1}) {
      executor_->fill(b.get() + shift + at, ~sent[static_cast<std::size_t>(at)], 1);
      EXPECT_FALSE(executor_->equal(std::array{BytePair{}, pair})) << shift << ' ' << at;
      executor_->copy(b.get() + shift + at, a.get() + at, 1);
    }
    EXPECT_TRUE(executor_->equal(std::array{pair})) << shift;
  }
  EXPECT_TRUE(executor_->equal({}));
}

TEST_F(CudaExecutorTest, RefusesMoreMemoryThanThereIs) {
  constexpr std::int64_t kTooMuch = std::int64_t{1} << 50;
  const std::string message = message_of([&] { executor_->allocate(kTooMuch); });
  EXPECT_NE(message.find(std::to_string(kTooMuch)), std::string::npos) << message;
  EXPECT_THROW(executor_->allocate(kTooMuch), OutOfMemoryError);
  EXPECT_EQ(executor_->allocate(0), nullptr);
  executor_->run(append(log(), 1));
  EXPECT_EQ(read()->count, 1u);
}

TEST_F(CudaExecutorTest, FillsInOrder) {
  const Memory memory = executor_->allocate(4);
  executor_->fill(memory.get(), std::byte{1}, 4);
  executor_->run(executor_->fill_launch(memory.get() + 1, std::byte{7}, 2));
  std::vector<std::byte> bytes(4);
  executor_->download(bytes, memory.get());
  EXPECT_EQ(bytes, (std::vector{std::byte{1}, std::byte{7}, std::byte{7}, std::byte{1}}));
}

// Longer by as much as was asked for, whatever each costs beside.
TEST_F(CudaExecutorTest, SpinsForALength) {
  constexpr double kShortNs = 4000;
  constexpr double kLongNs = 16000;
  const double short_ns = period_ns(*executor_, {executor_->spin_launch(kShortNs)}, 0.1);
  const double long_ns = period_ns(*executor_, {executor_->spin_launch(kLongNs)}, 0.1);
  EXPECT_GT(short_ns, kShortNs);
  // The clock may be lower than the highest, but not by half.
  EXPECT_GT(long_ns - short_ns, 0.95 * (kLongNs - kShortNs));
  EXPECT_LT(long_ns - short_ns, 2 * (kLongNs - kShortNs));
}

TEST_F(CudaExecutorTest, AnchorsRun) {
  const AnchorLaunches anchors = executor_->anchor_launches();
  executor_->fill(anchors.memory->front().get(), std::byte{0}, 16);
  executor_->run(anchors.copy);
  executor_->run(anchors.fma);
  std::vector<std::byte> copied(16);
  executor_->download(copied, anchors.memory->front().get());
  EXPECT_EQ(copied, std::vector(16, std::byte{0x5A}));
  EXPECT_EQ(anchors.source.size(), 16u);
}

TEST_F(CudaExecutorTest, StaysUsableAfterALaunchThatThrows) {
  const Launch enqueues_then_throws = [&](Stream stream) {
    append(log(), 1)(stream);
    throw std::runtime_error("changed its mind");
  };
  EXPECT_EQ(message_of([&] { executor_->run(enqueues_then_throws); }), "changed its mind");
  EXPECT_EQ(read()->count, 1u);
  EXPECT_EQ(message_of([&] {
              executor_->make_timer({append(log(), 2), enqueues_then_throws});
            }),
            "changed its mind");
  clear();
  executor_->run(append(log(), 3));
  EXPECT_EQ(read()->count, 1u);
  const auto timer = executor_->make_timer({append(log(), 4)});
  EXPECT_GT(timer->replay(8).ns, 0);
}

TEST_F(CudaExecutorTest, FindsAnErrorThatTheLaunchLeftBehind) {
  const std::string message = message_of([&] { executor_->run(refused()); });
  EXPECT_NE(message.find("cudaError"), std::string::npos) << message;
  EXPECT_NE(message_of([&] { executor_->make_timer({refused()}); }).find("cudaError"),
            std::string::npos);
  executor_->run(append(log(), 1));
  EXPECT_EQ(read()->count, 1u);
}

TEST_F(CudaTimerTest, AGraphHoldsEveryLaunchInTheRingsOrder) {
  constexpr std::int64_t kLaunches = 7;
  const auto timer = executor_->make_timer({append(log(), 0), append(log(), 1), append(log(), 2)});
  timer->replay(kLaunches);
  clear();
  const Replay replay = timer->replay(kLaunches);
  EXPECT_EQ(replay.launches, kLaunches);
  const auto ran = read();
  constexpr std::int64_t kWarm = warm_launches(kLaunches);
  ASSERT_EQ(ran->count, static_cast<std::uint64_t>(kWarm + kLaunches));
  for (std::int64_t i = -kWarm; i < kLaunches; ++i) {
    EXPECT_EQ(ran->id[kWarm + i], ((i % 3) + 3) % 3) << "launch " << i;
  }
}

TEST_F(CudaTimerTest, WarmsUpAtTheEndOfALongRing) {
  constexpr int kRing = 40;
  std::vector<Launch> ring;
  for (int i = 0; i < kRing; ++i) {
    ring.push_back(append(log(), i));
  }
  const auto timer = executor_->make_timer(ring);
  timer->replay(5);
  clear();
  timer->replay(5);
  const auto ran = read();
  ASSERT_EQ(ran->count, static_cast<std::uint64_t>(warm_launches(5) + 5));
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(ran->id[i], (kRing - 5 + i) % kRing);
  }
}

TEST_F(CudaTimerTest, TakesLaunchesOfSeveralNodes) {
  const Memory scratch = executor_->allocate(4);
  const auto timer =
      executor_->make_timer({append_twice(log(), 0, scratch.get()), append(log(), 1)});
  timer->replay(4);
  clear();
  timer->replay(4);
  EXPECT_EQ(read()->count, static_cast<std::uint64_t>((warm_launches(4) + 4) / 2 * 3));
}

TEST_F(CudaTimerTest, KeepsItsGraphs) {
  const auto timer = executor_->make_timer({append(log(), 0)});
  timer->replay(2);
  timer->replay(3);
  clear();
  for (const std::int64_t launches : {2, 3, 2, 3}) {
    EXPECT_EQ(timer->replay(launches).launches, launches);
  }
  // A graph built again would have run once more, untimed.
  EXPECT_EQ(read()->count,
            static_cast<std::uint64_t>(2 * (warm_launches(2) + 2 + warm_launches(3) + 3)));
}

TEST_F(CudaTimerTest, RefusesALaunchThatDoesNothing) {
  const std::string message = message_of([&] { executor_->make_timer({[](Stream) {}}); });
  EXPECT_NE(message.find("no work"), std::string::npos) << message;
}

TEST_F(CudaTimerTest, RefusesWorkOnTheDefaultStream) {
  const std::string message =
      message_of([&] { executor_->make_timer({append_on_default_stream(log(), 0)}); });
  EXPECT_NE(message.find("StreamCapture"), std::string::npos) << message;
  executor_->run(append(log(), 1));
  EXPECT_GT(executor_->make_timer({append(log(), 2)})->replay(4).ns, 0);
}

TEST_F(CudaTimerTest, RefusesAGraphThatIsNotWhatWasLaunched) {
  int calls = 0;
  const Launch fickle = [&](Stream stream) {
    append(log(), 0)(stream);
    if (++calls > 5) {
      append(log(), 0)(stream);
    }
  };
  const auto timer = executor_->make_timer({fickle});
  const std::string message = message_of([&] { timer->replay(8); });
  EXPECT_NE(message.find("where 16 were launched"), std::string::npos) << message;
}

TEST_F(CudaTimerTest, RefusesPassesThatNoGraphHolds) {
  EXPECT_THROW(executor_->make_timer({}), std::invalid_argument);
  const auto timer = executor_->make_timer({append(log(), 0)});
  EXPECT_THROW(timer->replay(0), std::invalid_argument);
  const std::string limit = std::to_string(kMaxGraphNodes);
  for (const std::int64_t launches : {kMaxGraphNodes, std::int64_t{1} << 60}) {
    const std::string message = message_of([&] { timer->replay(launches); });
    EXPECT_NE(message.find(limit), std::string::npos) << message;
  }
}

// The slope between two lengths is the period that the device's own clock saw between the
// beginnings of the timed launches, and grows with what a launch takes.
TEST_F(CudaTimerTest, SlopeAgreesWithTheDevicesClock) {
  constexpr std::int64_t kShort = 64;
  constexpr std::int64_t kLong = 256;
  constexpr int kPasses = 9;
  constexpr double kTolerance = 0.01;
  constexpr double kToleranceNs = 20;
  constexpr double kMostGapNs = 3000;  // between the end of a kernel and the beginning of the next
  for (const std::int64_t spin_ns : {2'048, 3'072, 5'120, 20'480, 102'400}) {
    const auto timer = executor_->make_timer({append(log(), 0, spin_ns)});
    timer->replay(kShort);
    timer->replay(kLong);
    std::vector<double> slopes;
    std::vector<double> periods;
    for (int pass = 0; pass < kPasses; ++pass) {
      const double short_ns = timer->replay(kShort).ns;
      clear();
      const double long_ns = timer->replay(kLong).ns;
      const auto ran = read();
      slopes.push_back((long_ns - short_ns) / static_cast<double>(kLong - kShort));
      // As the slope does: without the first launches, which may still be settling.
      const std::uint64_t first = ran->start_ns[warm_launches(kLong) + kShort - 1];
      const std::uint64_t last = ran->start_ns[warm_launches(kLong) + kLong - 1];
      periods.push_back(static_cast<double>(last - first) / static_cast<double>(kLong - kShort));
    }
    std::nth_element(slopes.begin(), slopes.begin() + kPasses / 2, slopes.end());
    std::nth_element(periods.begin(), periods.begin() + kPasses / 2, periods.end());
    const double slope = slopes[kPasses / 2];
    const double period = periods[kPasses / 2];
    EXPECT_NEAR(slope, period, std::max(kTolerance * period, kToleranceNs)) << spin_ns << " ns";
    EXPECT_GE(slope, static_cast<double>(spin_ns) * (1 - kTolerance));
    EXPECT_LE(slope, static_cast<double>(spin_ns) + kMostGapNs);
  }
}

// ---- the check of a whole output
// ------------------------------------------------------------------

// A problem whose answer is on the device, to be spoiled and checked.
template <typename T>
class Answered {
 public:
  Answered(Executor& executor, const Problem& problem, Precision precision,
           Distribution distribution)
      : executor_(executor),
        precision_(precision),
        distribution_(distribution),
        inputs_(
            make_inputs({.distribution = distribution, .seed = 7, .file = {}}, problem, precision)),
        full_(reference_rows(inputs_, all_rows(problem))),
        hidden_(put(inputs_.hidden)),
        w_down_(put(inputs_.w_down)),
        w_up_k_(put(inputs_.w_up_k)),
        w_up_v_(put(inputs_.w_up_v)),
        kv_(executor.allocate(problem.kv_count() * static_cast<std::int64_t>(sizeof(T)))) {
    // The reference goes row by row, k before v; kv all of k first.
    const std::int64_t columns = problem.columns();
    for (std::int64_t half = 0; half < 2; ++half) {
      for (std::int64_t row = 0; row < problem.rows(); ++row) {
        for (std::int64_t column = 0; column < columns; ++column) {
          const auto i = static_cast<std::size_t>((2 * row + half) * columns + column);
          output_.push_back(round_once<T>(full_.value[i]));
        }
      }
    }
  }

  std::vector<T>& output() { return output_; }
  const Problem& problem() const { return inputs_.problem; }

  CheckContext context() const {
    return {.inputs = inputs_,
            .precision = precision_,
            .unit = Unit::kFma,
            .demand_exact = distribution_ == Distribution::kExact};
  }

  // Some rows of the CPU's answer, among them the first and the last.
  Reference sample() const { return reference_rows(inputs_, sample_rows(inputs_.problem, 3)); }

  Check on_device(const Reference& sample) {
    executor_.upload(kv_.get(), std::as_bytes(std::span(output_)));
    const Operands operands{.hidden = hidden_.get(),
                            .w_down = w_down_.get(),
                            .w_up_k = w_up_k_.get(),
                            .w_up_v = w_up_v_.get(),
                            .kv = kv_.get()};
    return executor_.check_on_device(operands, sample, context()).value();
  }

  Check on_host() {
    return check_output(std::as_bytes(std::span(output_)), full_, nullptr, context());
  }

 private:
  Memory put(const std::vector<std::byte>& bytes) {
    Memory memory = executor_.allocate(static_cast<std::int64_t>(bytes.size()));
    executor_.upload(memory.get(), bytes);
    return memory;
  }

  Executor& executor_;
  Precision precision_;
  Distribution distribution_;
  Inputs inputs_;
  Reference full_;
  Memory hidden_;
  Memory w_down_;
  Memory w_up_k_;
  Memory w_up_v_;
  Memory kv_;
  std::vector<T> output_;
};

void expect_same_verdict(const Check& device, const Check& host) {
  EXPECT_EQ(device.method, CheckMethod::kDevice);
  EXPECT_EQ(device.passed, host.passed) << device.reason << " / " << host.reason;
  EXPECT_EQ(device.elements, host.elements);
  EXPECT_EQ(device.wrong_elements, host.wrong_elements);
  EXPECT_NEAR(device.max_error_over_bound, host.max_error_over_bound,
              1e-6 * (1 + host.max_error_over_bound));
  EXPECT_NEAR(device.frobenius_error, host.frobenius_error, 1e-9 + 1e-6 * host.frobenius_error);
  ASSERT_EQ(device.worst.has_value(), host.worst.has_value());
  if (device.worst &&
      !host.passed) {  // elements that pass may lie too close together to tell apart
    EXPECT_EQ(device.worst->is_v, host.worst->is_v);
    EXPECT_EQ(device.worst->batch, host.worst->batch);
    EXPECT_EQ(device.worst->seq, host.worst->seq);
    EXPECT_EQ(device.worst->head, host.worst->head);
    EXPECT_EQ(device.worst->dim, host.worst->dim);
    EXPECT_NEAR(device.worst->bound, host.worst->bound, 1e-6 * host.worst->bound);
  }
}

// Sizes that fill no tile, one element of each, and one larger than a tile in every direction.
const std::vector<Problem> kShapes{
    {},
    {.batch = 1, .seq = 1, .model_dim = 1, .rank = 1, .kv_heads = 1, .head_dim = 1},
    {.batch = 3, .seq = 43, .model_dim = 67, .rank = 17, .kv_heads = 3, .head_dim = 29},
    {.batch = 1, .seq = 130, .model_dim = 200, .rank = 96, .kv_heads = 2, .head_dim = 80}};

template <typename T>
void accepts_right_and_rejects_wrong(Executor& executor, Precision precision) {
  for (const Problem& problem : kShapes) {
    for (const Distribution distribution :
         {Distribution::kNormal, Distribution::kPositive, Distribution::kExact}) {
      SCOPED_TRACE(std::string(name_of(precision)) + " " + std::string(name_of(distribution)) +
                   " T=" + std::to_string(problem.rows()));
      Answered<T> answered(executor, problem, precision, distribution);
      const Reference sample = answered.sample();
      EXPECT_TRUE(answered.on_device(sample).passed) << answered.on_device(sample).reason;
      expect_same_verdict(answered.on_device(sample), answered.on_host());

      const std::size_t place = answered.output().size() * 2 / 3;
      const T right = answered.output()[place];
      const float far = to_float(right) + 1000.0f;
      for (const float wrong :
           {far, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
        answered.output()[place] = from_float<T>(wrong);
        const Check check = answered.on_device(sample);
        EXPECT_FALSE(check.passed);
        EXPECT_EQ(check.wrong_elements, 1);
        expect_same_verdict(check, answered.on_host());
      }
      answered.output()[place] = right;

      std::memset(answered.output().data(), 0xff, answered.output().size() * sizeof(T));
      const Check poisoned = answered.on_device(sample);
      EXPECT_FALSE(poisoned.passed);
      EXPECT_EQ(poisoned.wrong_elements, answered.problem().kv_count());
      expect_same_verdict(poisoned, answered.on_host());
    }
  }
}

using DeviceCheckTest = CudaTest;

TEST_F(DeviceCheckTest, AgreesWithTheHostInFp32) {
  accepts_right_and_rejects_wrong<float>(*executor_, Precision::kFp32);
}

TEST_F(DeviceCheckTest, AgreesWithTheHostInBf16) {
  accepts_right_and_rejects_wrong<Bf16>(*executor_, Precision::kBf16);
}

TEST_F(DeviceCheckTest, AgreesWithTheHostInFp16) {
  accepts_right_and_rejects_wrong<F16>(*executor_, Precision::kFp16);
}

TEST_F(DeviceCheckTest, IsTheSameEveryTime) {
  Answered<float> answered(*executor_, {}, Precision::kFp32, Distribution::kNormal);
  const Reference sample = answered.sample();
  const Check first = answered.on_device(sample);
  const Check second = answered.on_device(sample);
  EXPECT_EQ(first.frobenius_error, second.frobenius_error);
  EXPECT_EQ(first.max_error_over_bound, second.max_error_over_bound);
}

TEST_F(DeviceCheckTest, IsItselfHeldAgainstTheCpu) {
  Answered<float> answered(*executor_, {}, Precision::kFp32, Distribution::kNormal);
  Reference sample = answered.sample();
  sample.value.back() *= 1 + 1e-9;
  const Check check = answered.on_device(sample);
  EXPECT_FALSE(check.passed);
  EXPECT_NE(check.reason.find("disagrees"), std::string::npos) << check.reason;
  EXPECT_THROW(answered.on_device(Reference{}), std::invalid_argument);
}

// Zeros take as long as anything else, and need no product on the CPU.
TEST_F(DeviceCheckTest, TakesLessThanASecondAtDeepSeekV3) {
  if (executor_->device().sm != 90 && executor_->device().sm != 100) {
    GTEST_SKIP() << "fp64 is slow on this device by design";
  }
  const Problem problem{
      .batch = 1, .seq = 4096, .model_dim = 7168, .rank = 512, .kv_heads = 128, .head_dim = 128};
  const auto zeros = [](std::int64_t count) {
    return std::vector<std::byte>(static_cast<std::size_t>(count * size_of(StoredType::kBf16)));
  };
  const Inputs inputs{.problem = problem,
                      .type = StoredType::kBf16,
                      .hidden = zeros(problem.hidden_count()),
                      .w_down = zeros(problem.down_count()),
                      .w_up_k = zeros(problem.up_count()),
                      .w_up_v = zeros(problem.up_count()),
                      .distribution = {}};
  const auto put = [&](const std::vector<std::byte>& bytes) {
    Memory memory = executor_->allocate(static_cast<std::int64_t>(bytes.size()));
    executor_->upload(memory.get(), bytes);
    return memory;
  };
  const Memory hidden = put(inputs.hidden);
  const Memory w_down = put(inputs.w_down);
  const Memory w_up_k = put(inputs.w_up_k);
  const Memory w_up_v = put(inputs.w_up_v);
  const Memory kv = put(zeros(problem.kv_count()));
  const std::vector<double> row(static_cast<std::size_t>(2 * problem.columns()), 0.0);
  const Reference sample{.rows = {5}, .value = row, .magnitude = row};
  const auto check = [&] {
    return executor_
        ->check_on_device({.hidden = hidden.get(),
                           .w_down = w_down.get(),
                           .w_up_k = w_up_k.get(),
                           .w_up_v = w_up_v.get(),
                           .kv = kv.get()},
                          sample,
                          {.inputs = inputs, .precision = Precision::kBf16, .unit = Unit::kFma})
        .value();
  };
  EXPECT_EQ(check().wrong_elements, 0);  // loads the kernels
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(check().elements, problem.kv_count());
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  EXPECT_LT(elapsed.count(), 1.0);
}

}  // namespace
}  // namespace mla_bench
