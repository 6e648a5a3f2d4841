// Every CUDA variant of the registry, in every precision it supports, on awkward shapes: exact
// answers, nothing written beside the output, reproducible bits, bounded error, a truthful
// contract. Without a CUDA device every test is skipped and the program exits with 77.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "executor.hpp"
#include "mla_bench/cuda_check.hpp"
#include "mla_bench/float16.hpp"
#include "mla_bench/variant.hpp"

namespace mla_bench {
namespace {

// ---- device memory
// ---------------------------------------------------------------------------------

using Bytes = std::vector<std::byte>;

// Device memory between two guards that nothing may write.
class Guarded {
 public:
  explicit Guarded(std::int64_t bytes) : bytes_(static_cast<std::size_t>(bytes)) {
    void* raw = nullptr;
    MLA_BENCH_CHECK(cudaMalloc(&raw, kGuard + bytes_ + kGuard));
    memory_.reset(static_cast<std::byte*>(raw));
    MLA_BENCH_CHECK(cudaMemset(memory_.get(), kPattern, kGuard));
    MLA_BENCH_CHECK(cudaMemset(memory_.get() + kGuard + bytes_, kPattern, kGuard));
  }

  std::byte* data() const { return memory_.get() + kGuard; }

  void upload(std::span<const std::byte> from) const {
    MLA_BENCH_CHECK(cudaMemcpy(data(), from.data(), from.size(), cudaMemcpyHostToDevice));
  }

  // 0xFF is a NaN in every stored type.
  void poison() const { MLA_BENCH_CHECK(cudaMemset(data(), 0xFF, bytes_)); }

  Bytes download() const { return download(0, bytes_); }

  Bytes download(std::size_t from, std::size_t bytes) const {
    Bytes host(bytes);
    MLA_BENCH_CHECK(cudaMemcpy(host.data(), data() + from, bytes, cudaMemcpyDeviceToHost));
    return host;
  }

  bool guards_are_whole() const {
    const Bytes before = read(memory_.get());
    const Bytes after = read(memory_.get() + kGuard + bytes_);
    const auto whole = [](std::byte value) { return value == std::byte{kPattern}; };
    return std::all_of(before.begin(), before.end(), whole) &&
           std::all_of(after.begin(), after.end(), whole);
  }

 private:
  static constexpr std::size_t kGuard = 4096;
  static constexpr unsigned char kPattern = 0xA5;

  struct Free {
    void operator()(std::byte* memory) const { cudaFree(memory); }
  };

  static Bytes read(const std::byte* from) {
    Bytes host(kGuard);
    MLA_BENCH_CHECK(cudaMemcpy(host.data(), from, kGuard, cudaMemcpyDeviceToHost));
    return host;
  }

  std::size_t bytes_;
  std::unique_ptr<std::byte, Free> memory_;
};

// ---- values -------------------------------------------------------------------------------------

template <typename T>
Bytes encode_as(std::span<const float> values) {
  Bytes bytes(values.size() * sizeof(T));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const T stored = from_float<T>(values[i]);
    std::memcpy(bytes.data() + i * sizeof(T), &stored, sizeof(T));
  }
  return bytes;
}

// Rounded to nearest even.
Bytes encode(StoredType type, std::span<const float> values) {
  switch (type) {
    case StoredType::kBf16:
      return encode_as<Bf16>(values);
    case StoredType::kF16:
      return encode_as<F16>(values);
    default:
      return encode_as<float>(values);
  }
}

template <typename T>
std::vector<float> decode_as(std::span<const std::byte> bytes) {
  std::vector<float> values(bytes.size() / sizeof(T));
  for (std::size_t i = 0; i < values.size(); ++i) {
    T stored;
    std::memcpy(&stored, bytes.data() + i * sizeof(T), sizeof(T));
    values[i] = to_float(stored);
  }
  return values;
}

std::vector<float> decode(StoredType type, std::span<const std::byte> bytes) {
  switch (type) {
    case StoredType::kBf16:
      return decode_as<Bf16>(bytes);
    case StoredType::kF16:
      return decode_as<F16>(bytes);
    default:
      return decode_as<float>(bytes);
  }
}

// Values of the four inputs, all representable in every stored type.
struct Values {
  std::vector<float> hidden;
  std::vector<float> w_down;
  std::vector<float> w_up_k;
  std::vector<float> w_up_v;
};

// Terms of one latent: with |hidden| <= 4 and |w_down| <= 1 no latent passes 256, which even
// bfloat16 holds exactly, so every order of summation and every rounding of it gives the same bits.
constexpr int kLatentTerms = 64;

// A column of w_down has at most kLatentTerms entries that are not zero.
Values small_integers(const Problem& problem, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto draw = [&](int most) {
    return static_cast<float>(static_cast<int>(random() % (2 * most + 1)) - most);
  };
  Values values{.hidden = std::vector<float>(problem.hidden_count()),
                .w_down = std::vector<float>(problem.down_count()),
                .w_up_k = std::vector<float>(problem.up_count()),
                .w_up_v = std::vector<float>(problem.up_count())};
  std::generate(values.hidden.begin(), values.hidden.end(), [&] { return draw(4); });
  for (std::int64_t r = 0; r < problem.rank; ++r) {
    for (int term = 0; term < std::min<std::int64_t>(kLatentTerms, problem.model_dim); ++term) {
      const std::int64_t d = problem.model_dim <= kLatentTerms
                                 ? term
                                 : static_cast<std::int64_t>(random() % problem.model_dim);
      values.w_down[d * problem.rank + r] = draw(1);
    }
  }
  std::generate(values.w_up_k.begin(), values.w_up_k.end(), [&] { return draw(1); });
  std::generate(values.w_up_v.begin(), values.w_up_v.end(), [&] { return draw(1); });
  return values;
}

// hidden of unit variance, weights of variance 1 / fan-in, rounded to the stored type.
Values normal_values(const Problem& problem, StoredType type, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto fill = [&](std::int64_t count, double scale) {
    std::normal_distribution<float> normal(0.0f, static_cast<float>(scale));
    std::vector<float> values(static_cast<std::size_t>(count));
    std::generate(values.begin(), values.end(), [&] { return normal(random); });
    return decode(type, encode(type, values));
  };
  const double down_scale = 1 / std::sqrt(static_cast<double>(problem.model_dim));
  const double up_scale = 1 / std::sqrt(static_cast<double>(problem.rank));
  return {.hidden = fill(problem.hidden_count(), 1),
          .w_down = fill(problem.down_count(), down_scale),
          .w_up_k = fill(problem.up_count(), up_scale),
          .w_up_v = fill(problem.up_count(), up_scale)};
}

// ---- the answer ---------------------------------------------------------------------------------

// (T, n) @ (n, m) in fp64, over absolute values where `magnitude`.
std::vector<double> multiply(std::span<const double> left, std::span<const float> right,
                             std::int64_t rows, std::int64_t depth, std::int64_t columns,
                             bool magnitude) {
  std::vector<double> product(static_cast<std::size_t>(rows * columns));
  for (std::int64_t row = 0; row < rows; ++row) {
    double* const out = product.data() + row * columns;
    for (std::int64_t k = 0; k < depth; ++k) {
      const double factor = magnitude ? std::abs(left[row * depth + k]) : left[row * depth + k];
      if (factor == 0) {
        continue;
      }
      const float* const in = right.data() + k * columns;
      for (std::int64_t column = 0; column < columns; ++column) {
        const double value = in[column];
        out[column] += factor * (magnitude ? std::abs(value) : value);
      }
    }
  }
  return product;
}

// kv (2, T, HD) in fp64, exact for small integers. With `magnitude`, what rounding errors scale
// with: |hidden| @ |w_down| @ |w_up|.
std::vector<double> reference(const Problem& problem, const Values& values, bool magnitude) {
  const std::vector<double> hidden(values.hidden.begin(), values.hidden.end());
  const std::vector<double> latent =
      multiply(hidden, values.w_down, problem.rows(), problem.model_dim, problem.rank, magnitude);
  std::vector<double> kv =
      multiply(latent, values.w_up_k, problem.rows(), problem.rank, problem.columns(), magnitude);
  const std::vector<double> v =
      multiply(latent, values.w_up_v, problem.rows(), problem.rank, problem.columns(), magnitude);
  kv.insert(kv.end(), v.begin(), v.end());
  return kv;
}

// kv of small integers in the stored type, which every correct kernel gives bit by bit.
Bytes exact_kv(const Problem& problem, const Values& values, StoredType type) {
  const std::vector<double> exact = reference(problem, values, false);
  return encode(type, std::vector<float>(exact.begin(), exact.end()));
}

// ---- a cell on the device -----------------------------------------------------------------------

class Cell {
 public:
  Cell(const Problem& problem, Precision precision, const Values& values)
      : type_(stored_type(precision)),
        inputs_{encode(type_, values.hidden), encode(type_, values.w_down),
                encode(type_, values.w_up_k), encode(type_, values.w_up_v)},
        kv_(problem.kv_count() * size_of(type_)) {
    for (const Bytes& input : inputs_) {
      memory_.emplace_back(static_cast<std::int64_t>(input.size()));
      memory_.back().upload(input);
    }
    kv_.poison();
  }

  Operands operands() const {
    return {.hidden = memory_[0].data(),
            .w_down = memory_[1].data(),
            .w_up_k = memory_[2].data(),
            .w_up_v = memory_[3].data(),
            .kv = kv_.data()};
  }

  // kv after one launch over a poisoned output.
  Bytes run(const Launch& launch) const {
    kv_.poison();
    launch(nullptr);
    MLA_BENCH_CHECK(cudaDeviceSynchronize());
    return kv_.download();
  }

  Bytes output() const { return kv_.download(); }
  void poison() const { kv_.poison(); }

  // Empty, or what was written that must not be.
  std::string damage() const {
    const char* const names[] = {"hidden", "w_down", "w_up_k", "w_up_v"};
    for (std::size_t i = 0; i < memory_.size(); ++i) {
      if (memory_[i].download() != inputs_[i]) {
        return std::string(names[i]) + " was changed";
      }
      if (!memory_[i].guards_are_whole()) {
        return std::string("memory beside ") + names[i] + " was changed";
      }
    }
    return kv_.guards_are_whole() ? "" : "memory beside kv was changed";
  }

 private:
  StoredType type_;
  std::vector<Bytes> inputs_;
  std::vector<Guarded> memory_;
  Guarded kv_;
};

std::string describe(const Problem& problem) {
  return "batch " + std::to_string(problem.batch) + ", seq " + std::to_string(problem.seq) +
         ", model_dim " + std::to_string(problem.model_dim) + ", rank " +
         std::to_string(problem.rank) + ", kv_heads " + std::to_string(problem.kv_heads) +
         ", head_dim " + std::to_string(problem.head_dim);
}

// Whose kernels are another's: what they spill is only reported.
bool calls_a_library(const Variant& variant) {
  return variant.name.starts_with("cublas");
}

// More operations than these take a slow variant too long for a test; its smaller shapes cover it.
constexpr double kMostFlops = 4e11;

bool runs(const Variant& variant, const Problem& problem, Precision precision,
          const Device& device) {
  return variant.executed_flops(problem) <= kMostFlops &&
         !variant.why_not(problem, precision, device);
}

// ---- shapes -------------------------------------------------------------------------------------

// Ones, primes, neighbours of every tile's edge, several batches and heads, and the models' widths.
std::vector<Problem> awkward_problems() {
  std::vector<Problem> problems{Problem{}};
  const auto add = [&](std::int64_t rows, std::int64_t model_dim, std::int64_t rank,
                       std::int64_t columns) {
    problems.push_back({.batch = 1,
                        .seq = rows,
                        .model_dim = model_dim,
                        .rank = rank,
                        .kv_heads = 1,
                        .head_dim = columns});
  };
  // The last ones stand on both sides of where tensor_core changes its form on an H200.
  for (const std::int64_t rows :
       {1, 2, 3, 5, 7, 8, 15, 17, 63, 65, 127, 129, 383, 385, 2637, 2641, 4221, 4225}) {
    add(rows, 256, 48, 128);
  }
  for (const std::int64_t model_dim : {1, 2, 3, 4, 5, 31, 33, 63, 65, 100, 255, 257, 260, 1000}) {
    add(37, model_dim, 48, 128);
  }
  for (const std::int64_t rank :
       {1, 2, 3, 4, 5, 7, 8, 12, 15, 17, 31, 33, 47, 49, 63, 65, 100, 127, 129, 256, 513}) {
    add(37, 96, rank, 128);
  }
  for (const std::int64_t columns :
       {1, 2, 3, 4, 5, 7, 8, 31, 33, 63, 64, 65, 66, 127, 129, 200, 255, 257, 1000, 1028}) {
    add(37, 96, 20, columns);
  }
  add(1, 1, 1, 1);
  add(1, 7168, 512, 16);
  add(3, 2, 1, 5);
  add(130, 129, 131, 133);
  add(67, 68, 72, 76);
  add(4096, 16, 4, 8);
  add(20000, 5, 3, 1);
  add(9, 40, 24, 40000);
  add(9, 41, 23, 40001);
  add(33, 2048, 512, 2048);
  add(256, 512, 512, 512);
  // Rows enough for every form of tensor_core: panels of 32 and of 64, one tile a warp and several.
  add(2100, 64, 48, 256);
  add(5001, 72, 40, 96);
  add(8500, 72, 40, 72);
  add(8501, 72, 40, 96);
  add(8502, 64, 56, 32);
  add(8503, 512, 16, 32);
  add(26001, 24, 8, 32);
  add(12, 64, 4096, 64);
  add(5, 4096, 4096, 36);
  problems.push_back(
      {.batch = 3, .seq = 7, .model_dim = 20, .rank = 9, .kv_heads = 5, .head_dim = 3});
  problems.push_back(
      {.batch = 2, .seq = 65, .model_dim = 64, .rank = 16, .kv_heads = 8, .head_dim = 16});
  problems.push_back(
      {.batch = 16, .seq = 33, .model_dim = 128, .rank = 32, .kv_heads = 3, .head_dim = 40});
  return problems;
}

// ---- tests --------------------------------------------------------------------------------------

struct Case {
  const Variant* variant;
  Precision precision;
};

// Every built CUDA variant in every precision; those it refuses are tested for their reason alone.
std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const Listed& listed : registry()) {
    if (listed.backend == Backend::kCuda && listed.variant != nullptr) {
      for (const Precision precision : kPrecisions) {
        cases.push_back({listed.variant, precision});
      }
    }
  }
  return cases;
}

std::string name_of_case(const testing::TestParamInfo<Case>& info) {
  return std::string(info.param.variant->name) + "_" + std::string(name_of(info.param.precision));
}

class CudaVariant : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    const DeviceList found = find_cuda_devices();
    if (found.devices.empty()) {
      GTEST_SKIP() << found.no_cuda;
    }
    device_ = found.devices.front();
    MLA_BENCH_CHECK(cudaSetDevice(device_.ordinal));
  }

  const Variant& variant() const { return *GetParam().variant; }
  Precision precision() const { return GetParam().precision; }
  StoredType type() const { return stored_type(precision()); }

  // Whether the precision is supported, asked with the headline problem.
  bool supported() const { return !variant().why_not(Problem{}, precision(), device_); }

  Prepared prepare(const Problem& problem) const {
    return variant().prepare(problem, precision(), device_);
  }

  Device device_;
};

TEST_P(CudaVariant, GivesExactBitsOnSmallIntegers) {
  if (!supported()) {
    GTEST_SKIP() << *variant().why_not(Problem{}, precision(), device_);
  }
  int ran = 0;
  for (const Problem& problem : awkward_problems()) {
    if (!runs(variant(), problem, precision(), device_)) {
      continue;
    }
    SCOPED_TRACE(describe(problem));
    const Values values = small_integers(problem, 1);
    const Cell cell(problem, precision(), values);
    const Prepared prepared = prepare(problem);
    const Bytes output = cell.run(prepared.bind(cell.operands()));
    ASSERT_EQ(cell.damage(), "");
    const Bytes rounded = exact_kv(problem, values, type());
    if (output != rounded) {
      const std::vector<float> actual = decode(type(), output);
      const std::vector<float> wanted = decode(type(), rounded);
      // By bits: a NaN differs from itself, and -0 is a wrong answer too.
      const auto bits = size_of(type());
      std::size_t at = 0;
      while (std::memcmp(output.data() + at * bits, rounded.data() + at * bits, bits) == 0) {
        ++at;
      }
      FAIL() << "element " << at << " is " << actual[at] << ", exactly " << wanted[at];
    }
    ++ran;
  }
  EXPECT_GE(ran, 60) << "too few of the awkward shapes ran";
}

// Unit roundoffs, and the products that bounds.hpp derives: what a correct kernel may be off by,
// relative to |hidden| @ |w_down| @ |w_up|, to first order.
constexpr double kFp32Roundoff = 0x1p-24;
constexpr double kTf32Roundoff = 0x1p-11;

double stored_roundoff(StoredType type) {
  switch (type) {
    case StoredType::kBf16:
      return 0x1p-8;
    case StoredType::kF16:
      return 0x1p-11;
    default:
      return 0;  // results are fp32 already
  }
}

// Half of the smallest subnormal: what underflow to it costs.
double stored_underflow(StoredType type) {
  return type == StoredType::kF16 ? 0x1p-25 : 0x1p-134;
}

double accumulation_bound(const Problem& problem, Precision precision, Unit unit) {
  const auto terms = static_cast<double>(problem.model_dim + problem.rank);
  if (unit == Unit::kFma) {
    return terms * kFp32Roundoff;
  }
  // A tensor core truncates: 2 roundoffs for every instruction, whose depth is 8 (TF32; 16-bit
  // operands have 16 and are better). Short sums still take one instruction each.
  constexpr double kDepth = 8;
  const double truncations = 2 * kFp32Roundoff * (terms / kDepth + 2);
  switch (precision) {
    case Precision::kFp32: {  // 3xTF32: three instructions a step, parts of 2^-22 dropped six times
      constexpr double kDropped = 6 * 0x1p-22;
      return kDropped + 3 * truncations;
    }
    case Precision::kTf32:  // roundings of hidden, w_down, the latent and w_up
      return 4 * kTf32Roundoff + truncations;
    default:
      return truncations;
  }
}

TEST_P(CudaVariant, StaysInsideTheErrorBoundAndRepeatsItsBits) {
  if (!supported()) {
    GTEST_SKIP() << *variant().why_not(Problem{}, precision(), device_);
  }
  const std::vector<Problem> problems{
      Problem{},
      {.batch = 1, .seq = 77, .model_dim = 1000, .rank = 130, .kv_heads = 3, .head_dim = 43},
      {.batch = 2, .seq = 65, .model_dim = 2048, .rank = 512, .kv_heads = 2, .head_dim = 128},
      {.batch = 1, .seq = 700, .model_dim = 96, .rank = 20, .kv_heads = 5, .head_dim = 13},
      {.batch = 1, .seq = 4300, .model_dim = 64, .rank = 24, .kv_heads = 1, .head_dim = 64},
      {.batch = 1, .seq = 4301, .model_dim = 33, .rank = 17, .kv_heads = 1, .head_dim = 31},
      {.batch = 1, .seq = 8500, .model_dim = 320, .rank = 40, .kv_heads = 1, .head_dim = 32},
      {.batch = 1, .seq = 26001, .model_dim = 40, .rank = 16, .kv_heads = 1, .head_dim = 32},
      {.batch = 1, .seq = 9, .model_dim = 64, .rank = 4096, .kv_heads = 1, .head_dim = 64},
      {.batch = 1, .seq = 1, .model_dim = 1, .rank = 1, .kv_heads = 1, .head_dim = 1}};
  for (const Problem& problem : problems) {
    if (!runs(variant(), problem, precision(), device_)) {
      continue;
    }
    SCOPED_TRACE(describe(problem));
    const Values values = normal_values(problem, type(), 2);
    const Cell cell(problem, precision(), values);
    const Prepared prepared = prepare(problem);
    const Launch launch = prepared.bind(cell.operands());
    const Bytes output = cell.run(launch);
    constexpr int kRepeats = 5;
    for (int repeat = 0; repeat < kRepeats; ++repeat) {
      ASSERT_TRUE(cell.run(launch) == output) << "bits differ between runs";
    }
    // A search by time may choose another algorithm, whose sums have another order.
    const Prepared again = prepare(problem);
    if (again.choice == prepared.choice) {
      ASSERT_TRUE(cell.run(again.bind(cell.operands())) == output)
          << "bits differ between preparations";
    }
    ASSERT_EQ(cell.damage(), "");

    const std::vector<float> actual = decode(type(), output);
    const std::vector<double> expected = reference(problem, values, false);
    const std::vector<double> magnitude = reference(problem, values, true);
    // The latent may be rounded to the stored type, the output is.
    const double rounding = stored_roundoff(type());
    const double relative =
        accumulation_bound(problem, precision(), variant().unit(precision())) + rounding;
    // A latent that underflows is multiplied by weights of variance 1 / rank, none above 8 sigma.
    constexpr double kMostSigmas = 8;
    const double absolute =
        stored_underflow(type()) * (1 + kMostSigmas * std::sqrt(static_cast<double>(problem.rank)));
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const double error = std::abs(static_cast<double>(actual[i]) - expected[i]);
      const double bound = relative * magnitude[i] +
                           rounding * (std::abs(expected[i]) + relative * magnitude[i]) + absolute;
      // Written so that a NaN fails.
      ASSERT_TRUE(error <= bound) << "element " << i << " is " << actual[i] << ", not "
                                  << expected[i] << " within " << bound;
    }
  }
}

// The contract promises nothing of where the weights lie to one another: a batched product, which
// has one stride, must not rely on it.
TEST_P(CudaVariant, TakesItsWeightsWhereverTheyLie) {
  if (!supported()) {
    GTEST_SKIP() << *variant().why_not(Problem{}, precision(), device_);
  }
  for (const Problem& problem :
       {Problem{},
        Problem{
            .batch = 1, .seq = 37, .model_dim = 96, .rank = 20, .kv_heads = 3, .head_dim = 11}}) {
    SCOPED_TRACE(describe(problem));
    const Values values = small_integers(problem, 5);
    const Cell cell(problem, precision(), values);
    const Prepared prepared = prepare(problem);
    const Bytes expected = exact_kv(problem, values, type());
    const Bytes k = encode(type(), values.w_up_k);
    const Bytes v = encode(type(), values.w_up_v);
    constexpr std::size_t kBegin = 256;  // of an allocation: a multiple of this
    const std::size_t next = (k.size() / kBegin + 1) * kBegin;
    const Guarded place(static_cast<std::int64_t>(3 * next));
    // One behind the other, the other way round, and with a gap that no tensor fills.
    const std::pair<std::size_t, std::size_t> places[] = {{0, next}, {next, 0}, {0, 2 * next}};
    for (const auto& [k_at, v_at] : places) {
      SCOPED_TRACE("w_up_k at " + std::to_string(k_at) + ", w_up_v at " + std::to_string(v_at));
      place.poison();
      Operands operands = cell.operands();
      MLA_BENCH_CHECK(cudaMemcpy(place.data() + k_at, k.data(), k.size(), cudaMemcpyHostToDevice));
      MLA_BENCH_CHECK(cudaMemcpy(place.data() + v_at, v.data(), v.size(), cudaMemcpyHostToDevice));
      operands.w_up_k = place.data() + k_at;
      operands.w_up_v = place.data() + v_at;
      EXPECT_TRUE(cell.run(prepared.bind(operands)) == expected);
      EXPECT_EQ(cell.damage(), "");
    }
  }
}

TEST_P(CudaVariant, CanBeCapturedIntoAGraph) {
  if (!supported()) {
    GTEST_SKIP() << *variant().why_not(Problem{}, precision(), device_);
  }
  const Problem problem;
  const Cell cell(problem, precision(), normal_values(problem, type(), 3));
  const Prepared prepared = prepare(problem);
  const Launch launch = prepared.bind(cell.operands());
  const Bytes direct = cell.run(launch);

  cudaStream_t stream = nullptr;
  MLA_BENCH_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  MLA_BENCH_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  launch(stream);
  cudaGraph_t graph = nullptr;
  MLA_BENCH_CHECK(cudaStreamEndCapture(stream, &graph));
  std::size_t nodes = 0;
  MLA_BENCH_CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
  EXPECT_GE(nodes, 1u) << "nothing was captured";
  cudaGraphExec_t executable = nullptr;
  MLA_BENCH_CHECK(cudaGraphInstantiate(&executable, graph, 0));
  cell.poison();
  MLA_BENCH_CHECK(cudaDeviceSynchronize());
  MLA_BENCH_CHECK(cudaGraphLaunch(executable, stream));
  MLA_BENCH_CHECK(cudaStreamSynchronize(stream));
  EXPECT_TRUE(cell.output() == direct) << "a replay gives other bits than a launch";
  MLA_BENCH_CHECK(cudaGraphExecDestroy(executable));
  MLA_BENCH_CHECK(cudaGraphDestroy(graph));
  MLA_BENCH_CHECK(cudaStreamDestroy(stream));
}

// Rows past 2^31 elements of hidden, and outputs past 2^31 elements of kv. All rows are zero but a
// few.
TEST_P(CudaVariant, AddressesMoreThanTwoToThe31Elements) {
  if (!supported()) {
    GTEST_SKIP() << *variant().why_not(Problem{}, precision(), device_);
  }
  if (size_of(type()) > 2) {
    GTEST_SKIP() << "the 16-bit precisions cover it with half the memory";
  }
  const std::vector<Problem> problems{
      {.batch = 1, .seq = 1049001, .model_dim = 2052, .rank = 4, .kv_heads = 1, .head_dim = 4},
      {.batch = 1, .seq = 70001, .model_dim = 8, .rank = 8, .kv_heads = 4, .head_dim = 4096}};
  const std::int64_t free_bytes = make_cuda_executor(device_)->device().free_memory;
  int ran = 0;
  for (const Problem& problem : problems) {
    constexpr std::int64_t kSpare = std::int64_t{1} << 30;
    const std::int64_t bytes = (problem.hidden_count() + problem.kv_count()) * size_of(type());
    if (!runs(variant(), problem, precision(), device_) || bytes + kSpare > free_bytes) {
      continue;
    }
    SCOPED_TRACE(describe(problem));
    const std::vector<std::int64_t> rows{0, 1, problem.rows() / 2, problem.rows() - 2,
                                         problem.rows() - 1};
    Problem sampled = problem;
    sampled.seq = static_cast<std::int64_t>(rows.size());
    const Values values = small_integers(sampled, 4);
    const Bytes expected = exact_kv(sampled, values, type());
    const Bytes hidden_rows = encode(type(), values.hidden);

    const Guarded hidden(problem.hidden_count() * size_of(type()));
    const Guarded kv(problem.kv_count() * size_of(type()));
    const auto upload_weights = [&](const std::vector<float>& weights) {
      Guarded memory(static_cast<std::int64_t>(weights.size()) * size_of(type()));
      memory.upload(encode(type(), weights));
      return memory;
    };
    const Guarded w_down = upload_weights(values.w_down);
    const Guarded w_up_k = upload_weights(values.w_up_k);
    const Guarded w_up_v = upload_weights(values.w_up_v);
    const std::size_t hidden_row = problem.model_dim * size_of(type());
    const std::size_t kv_row = problem.columns() * size_of(type());
    MLA_BENCH_CHECK(cudaMemset(hidden.data(), 0, problem.rows() * hidden_row));
    for (std::size_t i = 0; i < rows.size(); ++i) {
      MLA_BENCH_CHECK(cudaMemcpy(hidden.data() + rows[i] * hidden_row,
                                 hidden_rows.data() + i * hidden_row, hidden_row,
                                 cudaMemcpyHostToDevice));
    }
    kv.poison();
    const Prepared prepared = prepare(problem);
    prepared.bind({.hidden = hidden.data(),
                   .w_down = w_down.data(),
                   .w_up_k = w_up_k.data(),
                   .w_up_v = w_up_v.data(),
                   .kv = kv.data()})(nullptr);
    MLA_BENCH_CHECK(cudaDeviceSynchronize());
    for (std::size_t half = 0; half < 2; ++half) {
      for (std::size_t i = 0; i < rows.size(); ++i) {
        const Bytes row = kv.download((half * problem.rows() + rows[i]) * kv_row, kv_row);
        EXPECT_EQ(
            std::memcmp(row.data(), expected.data() + (half * rows.size() + i) * kv_row, kv_row), 0)
            << "row " << rows[i] << " of " << (half == 0 ? "k" : "v");
      }
    }
    EXPECT_TRUE(kv.guards_are_whole());
    ++ran;
  }
  EXPECT_GE(ran, 1) << "no shape ran";
}

TEST_P(CudaVariant, KeepsItsContract) {
  const auto refuses = [&](const Problem& problem, const Device& device) {
    const std::optional<std::string> reason = variant().why_not(problem, precision(), device);
    EXPECT_TRUE(!reason || !reason->empty()) << "a reason needs words";
    return reason.has_value();
  };
  Device old = device_;
  old.sm = 50;
  old.shared_memory_per_block = 1024;
  EXPECT_TRUE(refuses(Problem{}, old)) << "sm_50 has none of what these kernels are built for";
  for (const Problem& problem :
       {Problem{
            .batch = 1, .seq = 1, .model_dim = 8, .rank = 1 << 24, .kv_heads = 1, .head_dim = 8},
        Problem{.batch = 1 << 20,
        .seq = 1 << 20,
        .model_dim = 8,
        .rank = 8,
        .kv_heads = 1 << 10,
        .head_dim = 1 << 10},
        Problem{.batch = 1,
        .seq = 4096,
        .model_dim = 4096,
        .rank = 4096,
        .kv_heads = 32,
        .head_dim = 128}}) {
    SCOPED_TRACE(describe(problem));
    refuses(problem, device_);
    EXPECT_GE(variant().executed_flops(problem), problem.flops());
    EXPECT_GE(variant().workspace_bytes(problem, precision(), device_), 0);
  }
  EXPECT_FALSE(variant().summary.empty());

  if (!supported()) {
    return;
  }
  const Problem headline;
  const Cell cell(headline, precision(), normal_values(headline, type(), 4));
  const Prepared prepared = prepare(headline);
  EXPECT_FALSE(prepared.choice.empty());
  const std::vector<KernelFacts> kernels =
      make_cuda_executor(device_)->kernels_of(prepared.bind(cell.operands()));
  EXPECT_FALSE(kernels.empty());
  for (const KernelFacts& kernel : kernels) {
    SCOPED_TRACE(kernel.name);
    EXPECT_FALSE(kernel.name.empty());
    // Neither return type nor namespaces, arguments or template arguments.
    EXPECT_EQ(kernel.name.find_first_of(" :<>()"), std::string::npos);
    EXPECT_GT(kernel.grid.x * kernel.grid.y * kernel.grid.z, 0);
    EXPECT_GE(kernel.block.x * kernel.block.y * kernel.block.z, 32);
    EXPECT_EQ(kernel.grid.x % kernel.cluster.x, 0);
    EXPECT_GT(kernel.registers, 0);
    if (!calls_a_library(variant())) {
      EXPECT_EQ(kernel.local_bytes, 0) << "registers are spilled";
    }
    EXPECT_GE(kernel.blocks_per_sm, 1);
    EXPECT_LE(kernel.shared_bytes, device_.shared_memory_per_block);
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, CudaVariant, testing::ValuesIn(all_cases()), name_of_case);
// A build whose list holds no CUDA variant has nothing to test here.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(CudaVariant);

}  // namespace
}  // namespace mla_bench
