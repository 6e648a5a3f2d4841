// Generated inputs: the generator's known answers, golden bits, statistics within bounds that
// follow from the number of samples, and the proof that `exact` is exact. Then inputs from files.
#include "inputs.hpp"

#include <gtest/gtest.h>
#include <omp.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "mla_bench/float16.hpp"
#include "philox.hpp"
#include "reference.hpp"
#include "safetensors.hpp"

namespace mla_bench {
namespace {

const Problem kHeadline;
constexpr std::uint64_t kSeed = 7;

Inputs make(Distribution distribution, const Problem& problem = kHeadline,
            Precision precision = Precision::kFp32, std::uint64_t seed = kSeed) {
  return make_inputs({.distribution = distribution, .seed = seed, .file = {}}, problem, precision);
}

template <typename T>
std::vector<double> values_of(const std::vector<std::byte>& tensor) {
  const T* const data = reinterpret_cast<const T*>(tensor.data());
  std::vector<double> values;
  for (std::size_t i = 0; i < tensor.size() / sizeof(T); ++i) {
    values.push_back(to_float(data[i]));
  }
  return values;
}

std::vector<double> values_of(const std::vector<std::byte>& tensor, StoredType type) {
  switch (type) {
    case StoredType::kBf16:
      return values_of<Bf16>(tensor);
    case StoredType::kF16:
      return values_of<F16>(tensor);
    default:
      return values_of<float>(tensor);
  }
}

// ---- the generator ------------------------------------------------------------------------------

// The lines "philox4x32 10" of tests/kat_vectors in https://github.com/DEShawResearch/random123:
// all zeros, all ones, and the digits of pi.
TEST(Philox, GivesTheKnownAnswersOfItsAuthors) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}),
            (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr std::uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, BoundedNumbersReachEveryValueAndNoOther) {
  EXPECT_EQ(below(3, 0), 0u);
  EXPECT_EQ(below(3, 0x55555555), 0u);
  EXPECT_EQ(below(3, 0x55555556), 1u);
  EXPECT_EQ(below(3, 0xffffffff), 2u);
}

// ---- generated tensors --------------------------------------------------------------------------

// FNV-1a, 64 bits.
std::uint64_t hash_of(const Inputs& inputs) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const auto* tensor : {&inputs.hidden, &inputs.w_down, &inputs.w_up_k, &inputs.w_up_v}) {
    for (const std::byte byte : *tensor) {
      hash = (hash ^ static_cast<std::uint64_t>(byte)) * 0x100000001b3;
    }
  }
  return hash;
}

struct Golden {
  Distribution distribution;
  Precision precision;
  std::uint64_t hash;
};

// A change of these bits makes every recorded result incomparable: it needs a reason and a note.
TEST(Inputs, BitsAreTheSameOnEveryPlatformAndForEver) {
  const Golden goldens[] = {
      {Distribution::kNormal, Precision::kFp32, 0xb72fb88f3f9cd01f},
      {Distribution::kNormal, Precision::kBf16, 0x8c7a4357e08eaad1},
      {Distribution::kNormal, Precision::kFp16, 0xd6cc043b1ead25aa},
      {Distribution::kPositive, Precision::kFp32, 0xf7fb86c80bb8f3a0},
      {Distribution::kPositive, Precision::kBf16, 0xe8ff43cc64780b21},
      {Distribution::kPositive, Precision::kFp16, 0xf14703ea573b3080},
      {Distribution::kExact, Precision::kFp32, 0x8d008213d6292415},
      {Distribution::kExact, Precision::kBf16, 0x20f279763f08061d},
      {Distribution::kExact, Precision::kFp16, 0x7da3925856b220e3},
  };
  for (const Golden& golden : goldens) {
    EXPECT_EQ(hash_of(make(golden.distribution, kHeadline, golden.precision)), golden.hash)
        << name_of(golden.distribution) << " " << name_of(golden.precision);
  }
}

TEST(Inputs, BitsDoNotDependOnTheNumberOfThreads) {
  const int threads = omp_get_max_threads();
  for (const Distribution distribution :
       {Distribution::kNormal, Distribution::kPositive, Distribution::kExact}) {
    omp_set_num_threads(1);
    const std::uint64_t alone = hash_of(make(distribution));
    omp_set_num_threads(5);
    EXPECT_EQ(hash_of(make(distribution)), alone) << name_of(distribution);
  }
  omp_set_num_threads(threads);
}

TEST(Inputs, SeedsAndTensorsDiffer) {
  std::set<std::uint64_t> hashes;
  for (const std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 32}) {
    hashes.insert(hash_of(make(Distribution::kNormal, kHeadline, Precision::kFp32, seed)));
  }
  EXPECT_EQ(hashes.size(), 3u);
  const Inputs inputs = make(Distribution::kNormal);
  EXPECT_NE(inputs.w_up_k, inputs.w_up_v);
}

TEST(Inputs, TensorsHaveTheirShapesSizes) {
  const Problem problem{
      .batch = 2, .seq = 3, .model_dim = 5, .rank = 7, .kv_heads = 2, .head_dim = 3};
  for (const Precision precision : kPrecisions) {
    const Inputs inputs = make(Distribution::kNormal, problem, precision);
    const auto size = static_cast<std::size_t>(size_of(stored_type(precision)));
    EXPECT_EQ(inputs.type, stored_type(precision));
    EXPECT_EQ(inputs.problem, problem);
    EXPECT_EQ(inputs.distribution, Distribution::kNormal);
    EXPECT_EQ(inputs.hidden.size(), 2u * 3 * 5 * size);
    EXPECT_EQ(inputs.w_down.size(), 5u * 7 * size);
    EXPECT_EQ(inputs.w_up_k.size(), 7u * 6 * size);
    EXPECT_EQ(inputs.w_up_v.size(), 7u * 6 * size);
  }
}

template <typename T>
void expect_rounded_once(Precision precision) {
  for (const Distribution distribution : {Distribution::kNormal, Distribution::kPositive}) {
    const Inputs wide = make(distribution);
    const Inputs narrow = make(distribution, kHeadline, precision);
    const std::vector<double> expected = values_of<float>(wide.hidden);
    const std::vector<double> actual = values_of<T>(narrow.hidden);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(actual[i], to_float(from_float<T>(static_cast<float>(expected[i]))));
    }
  }
}

TEST(Inputs, SixteenBitValuesAreTheFp32OnesRoundedOnce) {
  expect_rounded_once<Bf16>(Precision::kBf16);
  expect_rounded_once<F16>(Precision::kFp16);
}

struct Moments {
  double mean = 0;
  double variance = 0;
};

Moments moments_of(const std::vector<double>& values) {
  const auto count = static_cast<double>(values.size());
  Moments moments;
  for (const double value : values) {
    moments.mean += value / count;
  }
  for (const double value : values) {
    moments.variance += (value - moments.mean) * (value - moments.mean) / count;
  }
  return moments;
}

// Standard errors that a correct generator stays within: once in 2e9 it does not, and the seed is
// fixed.
constexpr double kSigmas = 6;

// Of a sample of that many draws: the mean's standard error is sigma / sqrt(n), the variance's
// sigma^2 sqrt((kurtosis - 1) / n).
void expect_moments(const std::vector<double>& values, double mean, double variance,
                    double kurtosis) {
  const auto count = static_cast<double>(values.size());
  const Moments actual = moments_of(values);
  EXPECT_NEAR(actual.mean, mean, kSigmas * std::sqrt(variance / count));
  EXPECT_NEAR(actual.variance, variance, kSigmas * variance * std::sqrt((kurtosis - 1) / count));
}

TEST(Inputs, NormalHasUnitVarianceAndWeightsByFanIn) {
  const Inputs inputs = make(Distribution::kNormal);
  constexpr double kKurtosis = 3 - 1.2 / 8;  // of a sum of eight uniforms
  expect_moments(values_of<float>(inputs.hidden), 0, 1, kKurtosis);
  expect_moments(values_of<float>(inputs.w_down), 0, 1.0 / 256, kKurtosis);
  expect_moments(values_of<float>(inputs.w_up_k), 0, 1.0 / 48, kKurtosis);
  expect_moments(values_of<float>(inputs.w_up_v), 0, 1.0 / 48, kKurtosis);
}

TEST(Inputs, NormalNeighboursAreUncorrelated) {
  const std::vector<double> values = values_of<float>(make(Distribution::kNormal).hidden);
  for (const std::size_t lag : {1, 2, 4, 256}) {
    double correlation = 0;
    for (std::size_t i = lag; i < values.size(); ++i) {
      correlation += values[i] * values[i - lag];
    }
    EXPECT_NEAR(correlation / static_cast<double>(values.size()), 0,
                kSigmas / std::sqrt(static_cast<double>(values.size())))
        << lag;
  }
}

TEST(Inputs, PositiveIsUniformStrictlyInsideItsRange) {
  const Inputs inputs = make(Distribution::kPositive);
  constexpr double kKurtosis = 1.8;
  const auto expect_uniform = [](const std::vector<double>& values, double upper) {
    expect_moments(values, upper / 2, upper * upper / 12, kKurtosis);
    for (const double value : values) {
      ASSERT_GT(value, 0);
      ASSERT_LT(value, upper);
    }
  };
  expect_uniform(values_of<float>(inputs.hidden), 1);
  expect_uniform(values_of<float>(inputs.w_down), 2.0 / 256);
  expect_uniform(values_of<float>(inputs.w_up_k), 2.0 / 48);
}

// Largest sum of absolute values in a column of a (rows, columns) tensor of small integers.
double largest_column_sum(const std::vector<double>& values, std::int64_t columns) {
  std::vector<double> sums(static_cast<std::size_t>(columns));
  for (std::size_t i = 0; i < values.size(); ++i) {
    sums[i % sums.size()] += std::abs(values[i]);
  }
  return *std::max_element(sums.begin(), sums.end());
}

// The proof that every order of summation gives the same bits: all values are integers, every
// partial sum of a latent is at most 4 * 64 = 256 in size, which bf16, fp16 and TF32 hold, and
// every partial sum of y at most 256 * 128 = 32768, which fp16 does not overflow at and fp32 adds
// exactly.
TEST(Inputs, ExactSumsNeverNeedRounding) {
  for (const Problem& problem :
       {kHeadline,
        Problem{
            .batch = 1, .seq = 3, .model_dim = 7168, .rank = 512, .kv_heads = 4, .head_dim = 32},
        Problem{.batch = 1, .seq = 5, .model_dim = 65, .rank = 129, .kv_heads = 1, .head_dim = 7},
        Problem{.batch = 1, .seq = 1, .model_dim = 1, .rank = 1, .kv_heads = 1, .head_dim = 1}}) {
    for (const Precision precision : kPrecisions) {
      const Inputs inputs = make(Distribution::kExact, problem, precision);
      for (const double value : values_of(inputs.hidden, inputs.type)) {
        ASSERT_EQ(value, std::round(value));
        ASSERT_LE(std::abs(value), 4);
      }
      const std::vector<double> down = values_of(inputs.w_down, inputs.type);
      for (const double value : down) {
        ASSERT_TRUE(value == 0 || std::abs(value) == 1);
      }
      EXPECT_LE(4 * largest_column_sum(down, problem.rank), 256);
      for (const auto* weight : {&inputs.w_up_k, &inputs.w_up_v}) {
        const std::vector<double> up = values_of(*weight, inputs.type);
        EXPECT_LE(256 * largest_column_sum(up, problem.columns()), 32768);
      }
    }
  }
}

// A layout fault in any row of a weight must be able to show: with as many columns as a block has
// rows, most rows are some column's choice, and none is out of reach.
TEST(Inputs, ExactReachesAllOfALongWeight) {
  const Problem problem{
      .batch = 1, .seq = 2, .model_dim = 7168, .rank = 512, .kv_heads = 1, .head_dim = 8};
  const std::vector<double> down = values_of<float>(make(Distribution::kExact, problem).w_down);
  std::int64_t empty_rows = 0;
  for (std::int64_t row = 0; row < problem.model_dim; ++row) {
    const auto begin = down.begin() + row * problem.rank;
    empty_rows += std::all_of(begin, begin + problem.rank, [](double x) { return x == 0; });
  }
  // A row is missed by a column with probability 1 - 2 / 3 / 112: by all 512 of them 1 time in 21.
  const double missed = std::pow(1 - 2.0 / 3 / 112, 512) * 7168;
  EXPECT_NEAR(static_cast<double>(empty_rows), missed, kSigmas * std::sqrt(missed));
}

TEST(Inputs, ExactHasZerosAndBothSignsAtSmallFanIn) {
  const std::vector<double> up = values_of<float>(make(Distribution::kExact).w_up_k);
  std::map<double, double> counts;
  for (const double value : up) {
    counts[value] += 1;
  }
  const double third = static_cast<double>(up.size()) / 3;
  for (const double value : {-1.0, 0.0, 1.0}) {
    EXPECT_NEAR(counts[value], third, kSigmas * std::sqrt(third)) << value;
  }
}

// ---- files --------------------------------------------------------------------------------------

class InputFiles : public testing::Test {
 protected:
  void SetUp() override {
    directory_ =
        std::filesystem::temp_directory_path() / ("mla_bench_inputs_" + std::to_string(::getpid()));
    std::filesystem::create_directories(directory_);
    path_ = (directory_ / "inputs.safetensors").string();
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  using Shapes = std::map<std::string, std::vector<std::int64_t>>;

  // Writes zeros of those shapes.
  void write(const Shapes& shapes, const std::map<std::string, std::string>& metadata = {},
             const std::map<std::string, StoredType>& types = {}) {
    std::vector<std::vector<std::byte>> data;
    std::vector<TensorView> views;
    data.reserve(shapes.size());
    for (const auto& [name, shape] : shapes) {
      const auto found = types.find(name);
      const StoredType type = found == types.end() ? StoredType::kF32 : found->second;
      std::int64_t count = 1;
      for (const std::int64_t extent : shape) {
        count *= extent;
      }
      data.emplace_back(static_cast<std::size_t>(count * size_of(type)));
      views.push_back({name, type, shape, data.back()});
    }
    write_tensor_file(path_, views, metadata);
  }

  std::string refusal(std::optional<std::int64_t> kv_heads = {},
                      std::optional<std::int64_t> head_dim = {}) {
    try {
      inspect_input_file(path_, kv_heads, head_dim);
    } catch (const UsageError& error) {
      EXPECT_NE(std::string(error.what()).find(path_), std::string::npos);
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
      return error.what();
    }
    return "";
  }

  std::filesystem::path directory_;
  std::string path_;
};

const std::map<std::string, std::vector<std::int64_t>> kFlat{
    {"hidden", {6, 5}}, {"w_down", {5, 4}}, {"w_up_k", {4, 12}}, {"w_up_v", {4, 12}}};

std::map<std::string, std::vector<std::int64_t>> with(const std::string& name,
                                                      std::vector<std::int64_t> shape) {
  auto shapes = kFlat;
  shapes[name] = std::move(shape);
  return shapes;
}

TEST_F(InputFiles, ShapeComesFromTheFile) {
  write(kFlat);
  EXPECT_EQ(
      inspect_input_file(path_, {}, {}).problem,
      (Problem{.batch = 1, .seq = 6, .model_dim = 5, .rank = 4, .kv_heads = 1, .head_dim = 12}));
  EXPECT_EQ(inspect_input_file(path_, 3, {}).problem.head_dim, 4);
  EXPECT_EQ(inspect_input_file(path_, {}, 6).problem.kv_heads, 2);
  EXPECT_EQ(inspect_input_file(path_, 3, 4).problem.kv_heads, 3);

  write(with("hidden", {2, 3, 5}), {{"kv_heads", "6"}});
  const Problem batched = inspect_input_file(path_, {}, {}).problem;
  EXPECT_EQ(batched.batch, 2);
  EXPECT_EQ(batched.seq, 3);
  EXPECT_EQ(batched.kv_heads, 6);
  EXPECT_EQ(inspect_input_file(path_, 2, {}).problem.kv_heads, 2);  // the option wins

  auto split = kFlat;
  split["w_up_k"] = split["w_up_v"] = {4, 3, 4};
  write(split);
  EXPECT_EQ(inspect_input_file(path_, {}, {}).problem.kv_heads, 3);
  EXPECT_EQ(inspect_input_file(path_, {}, {}).problem.head_dim, 4);
}

TEST_F(InputFiles, PrecisionComesFromTheDtype) {
  const std::pair<StoredType, Precision> expected[] = {{StoredType::kF32, Precision::kFp32},
                                                       {StoredType::kBf16, Precision::kBf16},
                                                       {StoredType::kF16, Precision::kFp16}};
  for (const auto& [type, precision] : expected) {
    write(kFlat, {}, {{"hidden", type}, {"w_down", type}, {"w_up_k", type}, {"w_up_v", type}});
    EXPECT_EQ(inspect_input_file(path_, {}, {}).precision, precision);
  }
}

TEST_F(InputFiles, EveryMismatchHasItsOwnMessage) {
  auto lacking = kFlat;
  lacking.erase("w_up_v");
  write(lacking);
  EXPECT_NE(refusal().find("has no tensor 'w_up_v'"), std::string::npos);

  const std::pair<std::map<std::string, std::vector<std::int64_t>>, std::string> faults[] = {
      {with("hidden", {5}), "'hidden' has 1 dimensions; it may have 2 or 3"},
      {with("w_down", {5, 2, 2}), "'w_down' has 3 dimensions; it may have 2"},
      {with("w_up_k", {1, 4, 3, 4}), "'w_up_k' has 4 dimensions"},
      {with("hidden", {0, 5}), "'hidden' is empty"},
      {with("w_down", {6, 4}), "model dimensions differ"},
      {with("w_up_k", {3, 12}), "ranks differ"},
      {with("w_up_v", {3, 12}), "ranks differ"},
      {with("w_up_v", {4, 11}), "k and v must be of one shape"},
      {with("w_up_v", {4, 3, 4}), "k and v must be of one shape"}};
  for (const auto& [shapes, message] : faults) {
    write(shapes);
    EXPECT_NE(refusal().find(message), std::string::npos) << refusal();
  }

  write(kFlat, {}, {{"w_down", StoredType::kBf16}});
  EXPECT_NE(refusal().find("hidden is F32, w_down is BF16"), std::string::npos);
}

TEST_F(InputFiles, HeadsThatDoNotFitAreRefused) {
  write(kFlat);
  EXPECT_NE(refusal(5).find("--kv-heads 5 does not divide"), std::string::npos);
  EXPECT_NE(refusal(0).find("--kv-heads 0"), std::string::npos);
  EXPECT_NE(refusal({}, 5).find("--head-dim 5 does not divide"), std::string::npos);
  EXPECT_NE(refusal(3, 3).find("--kv-heads times --head-dim"), std::string::npos);
  for (const std::string value : {"five", "", "-3", "0", "5"}) {
    write(kFlat, {{"kv_heads", value}});
    EXPECT_NE(refusal().find("metadata kv_heads"), std::string::npos) << value;
  }
  auto split = kFlat;
  split["w_up_k"] = split["w_up_v"] = {4, 3, 4};
  write(split);
  EXPECT_NE(refusal(4).find("has other heads"), std::string::npos);
}

TEST_F(InputFiles, OtherDtypesAreRefusedOnlyWhereTheyAreNeeded) {
  // F64 is none that the writer makes: the name is patched into the header.
  write(with("other", {2}));
  const auto patch = [this](const std::string& tensor) {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    std::string text(4096, ' ');
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    file.clear();
    file.seekp(static_cast<std::streamoff>(text.find("F32", text.find("\"" + tensor + "\""))));
    file << "X32";
  };
  patch("other");
  EXPECT_EQ(refusal(), "");
  patch("hidden");
  EXPECT_NE(refusal().find("'hidden' is 'X32'; it may be F32, BF16 or F16"), std::string::npos);
}

TEST_F(InputFiles, WhatIsSavedIsReadBackBitByBit) {
  const Problem problem{
      .batch = 2, .seq = 3, .model_dim = 20, .rank = 6, .kv_heads = 3, .head_dim = 4};
  for (const Precision precision : kPrecisions) {
    const Inputs inputs = make(Distribution::kNormal, problem, precision);
    const std::vector<std::byte> kv(
        static_cast<std::size_t>(problem.kv_count() * size_of(inputs.type)));
    save_tensors(path_, inputs, kv);
    EXPECT_EQ(inspect_input_file(path_, {}, {}).problem, problem);
    const Inputs read =
        make_inputs({.distribution = {}, .seed = 0, .file = path_}, problem, precision);
    EXPECT_EQ(read.hidden, inputs.hidden);
    EXPECT_EQ(read.w_down, inputs.w_down);
    EXPECT_EQ(read.w_up_k, inputs.w_up_k);
    EXPECT_EQ(read.w_up_v, inputs.w_up_v);
    EXPECT_EQ(read.distribution, std::nullopt);
  }
}

TEST_F(InputFiles, ValuesAreRoundedToThePrecisionAskedFor) {
  const Inputs wide = make(Distribution::kNormal);
  const auto kv_count = static_cast<std::size_t>(kHeadline.kv_count());
  save_tensors(path_, wide, std::vector<std::byte>(kv_count * sizeof(float)));
  const InputSource source{.distribution = {}, .seed = 0, .file = path_};
  const Inputs narrow = make_inputs(source, kHeadline, Precision::kBf16);
  EXPECT_EQ(narrow.hidden, make(Distribution::kNormal, kHeadline, Precision::kBf16).hidden);
  EXPECT_EQ(narrow.type, StoredType::kBf16);

  save_tensors(path_, narrow, std::vector<std::byte>(kv_count * sizeof(Bf16)));
  const Inputs back = make_inputs(source, kHeadline, Precision::kFp32);
  EXPECT_EQ(values_of<float>(back.w_down), values_of<Bf16>(narrow.w_down));
}

TEST_F(InputFiles, ContentIsTheFourTensorsAndNothingElse) {
  const Inputs inputs = make(Distribution::kNormal);
  const auto kv_bytes = static_cast<std::size_t>(kHeadline.kv_count()) * sizeof(float);
  const auto content_of = [&](const Inputs& saved, std::byte kv) {
    save_tensors(path_, saved, std::vector<std::byte>(kv_bytes, kv));
    return inspect_input_file(path_, {}, {}).content;
  };
  const std::string content = content_of(inputs, std::byte{0});
  EXPECT_EQ(content.size(), 16u);
  EXPECT_EQ(content_of(inputs, std::byte{1}), content);
  for (std::vector<std::byte> Inputs::*const tensor :
       {&Inputs::hidden, &Inputs::w_down, &Inputs::w_up_k, &Inputs::w_up_v}) {
    Inputs edited = inputs;
    (edited.*tensor).back() ^= std::byte{1};
    EXPECT_NE(content_of(edited, std::byte{0}), content);
  }
  Inputs swapped = inputs;
  std::swap(swapped.w_up_k, swapped.w_up_v);
  EXPECT_NE(content_of(swapped, std::byte{0}), content);

  // A run that was planned with the one does not measure the other.
  const InputSource planned{.file = path_, .content = content};
  EXPECT_THROW(make_inputs(planned, kHeadline, Precision::kFp32), UsageError);
  EXPECT_EQ(content_of(inputs, std::byte{2}), content);
  EXPECT_EQ(make_inputs(planned, kHeadline, Precision::kFp32).w_up_k, inputs.w_up_k);
}

TEST_F(InputFiles, AFileThatChangedSinceItWasPlannedIsRefused) {
  write(kFlat);
  Problem planned = inspect_input_file(path_, {}, {}).problem;
  planned.seq += 1;
  EXPECT_THROW(
      make_inputs({.distribution = {}, .seed = 0, .file = path_}, planned, Precision::kFp32),
      UsageError);
}

TEST(Inputs, NegatedHiddenHasTheOtherSignAndNothingElse) {
  for (const Precision precision : {Precision::kFp32, Precision::kBf16, Precision::kFp16}) {
    const Inputs before = make(Distribution::kNormal, kHeadline, precision);
    Inputs negated = before;
    negate_hidden(negated);
    EXPECT_EQ(negated.w_down, before.w_down);
    EXPECT_EQ(negated.w_up_k, before.w_up_k);
    EXPECT_EQ(negated.w_up_v, before.w_up_v);
    const std::vector<std::int64_t> rows{0, 7};
    Reference reference = reference_rows(before, rows);
    negate(reference);
    EXPECT_EQ(reference.value, reference_rows(negated, rows).value);
    EXPECT_EQ(reference.magnitude, reference_rows(negated, rows).magnitude);
    negate_hidden(negated);
    EXPECT_EQ(negated.hidden, before.hidden);
  }
}

}  // namespace
}  // namespace mla_bench
