// Every CPU variant of the list against exact integer products, its own earlier bits, and the fp32
// error bound; and the register tile for every instruction set that this processor has.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "../kernels/cpu/register_tile.hpp"
#include "mla_bench/float16.hpp"
#include "mla_bench/variant.hpp"

namespace mla_bench {

namespace {

// batch, seq, model_dim, rank, kv_heads, head_dim: edges, primes, and neighbours of the tile sizes.
constexpr std::array kProblems{
    Problem{1, 1, 1, 1, 1, 1},        Problem{1, 1, 1, 1, 1, 2},
    Problem{1, 1, 2, 1, 1, 1},        Problem{1, 2, 1, 1, 1, 1},
    Problem{1, 1, 1, 2, 1, 1},        Problem{1, 1, 256, 48, 4, 32},
    Problem{1, 7, 1, 5, 3, 3},        Problem{1, 7, 5, 1, 3, 3},
    Problem{1, 7, 5, 3, 1, 1},        Problem{3, 1, 17, 19, 1, 23},
    Problem{2, 3, 5, 7, 11, 13},      Problem{1, 5, 16, 16, 1, 16},
    Problem{1, 6, 16, 16, 1, 16},     Problem{1, 7, 17, 17, 1, 17},
    Problem{1, 8, 8, 8, 1, 8},        Problem{1, 9, 9, 9, 1, 9},
    Problem{1, 11, 63, 15, 1, 15},    Problem{1, 12, 64, 31, 1, 31},
    Problem{1, 13, 65, 33, 1, 33},    Problem{1, 15, 63, 63, 1, 63},
    Problem{1, 16, 64, 64, 1, 64},    Problem{1, 17, 65, 65, 1, 65},
    Problem{1, 18, 5, 50, 1, 50},     Problem{1, 19, 50, 5, 5, 10},
    Problem{1, 23, 48, 47, 1, 49},    Problem{1, 24, 255, 48, 1, 48},
    Problem{1, 25, 256, 49, 1, 47},   Problem{1, 31, 257, 11, 1, 97},
    Problem{5, 7, 127, 13, 3, 43},    Problem{1, 47, 300, 3, 7, 9},
    Problem{1, 48, 3, 300, 2, 10},    Problem{1, 29, 37, 255, 1, 61},
    Problem{1, 9, 31, 256, 1, 67},    Problem{1, 10, 29, 257, 1, 71},
    Problem{1, 3, 511, 8, 1, 300},    Problem{1, 2, 512, 513, 1, 5},
    Problem{1, 1, 1031, 7, 1, 3},     Problem{1, 97, 40, 1, 8, 8},
    Problem{1, 101, 1, 40, 8, 8},     Problem{1, 263, 33, 20, 1, 12},
    Problem{1, 264, 33, 20, 1, 12},   Problem{1, 265, 33, 20, 1, 12},
    Problem{1, 383, 7, 3, 1, 5},      Problem{1, 385, 7, 3, 1, 5},
    Problem{1, 1063, 20, 9, 1, 10},   Problem{1, 383, 256, 48, 4, 32},
    Problem{1, 385, 256, 48, 4, 32},  Problem{4, 96, 256, 48, 4, 32},
    Problem{1, 50, 150, 520, 3, 30},  Problem{1, 47, 600, 260, 2, 65},
    Problem{1, 70, 300, 130, 5, 128}, Problem{1, 13, 2048, 512, 2, 128},
    Problem{1, 40, 515, 36, 9, 133},
};
constexpr std::array kThreadCounts{1, 3};

// Work beyond which a cell is left out. `naive` does one multiply-add at a time.
constexpr double kMostFlops = 6.5e7;
constexpr double kMostFlopsOfNaive = 2.5e7;

constexpr double kUnitRoundoff = std::numeric_limits<float>::epsilon() / 2;

// The CPU's variants that this build has, by their names in the list.
std::vector<std::string> cpu_variants() {
  std::vector<std::string> names;
  for (const Listed& listed : registry()) {
    if (listed.backend == Backend::kCpu && listed.variant != nullptr) {
      names.emplace_back(listed.name);
    }
  }
  return names;
}

const Listed& listed_as(const std::string& name) {
  const auto found = std::find_if(registry().begin(), registry().end(), [&](const Listed& listed) {
    return listed.backend == Backend::kCpu && listed.name == name;
  });
  return *found;
}

Device cpu(int threads) {
  Device device;
  device.name = "test CPU";
  device.threads = threads;
  return device;
}

// SplitMix64: the same values on every platform.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15u;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  // In -limit .. limit.
  int integer(int limit) {
    return static_cast<int>(next() % static_cast<unsigned>(2 * limit + 1)) - limit;
  }

  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

  // Twelve uniform numbers have variance 1.
  double normal() {
    double sum = -6;
    for (int i = 0; i < 12; ++i) {
      sum += uniform();
    }
    return sum;
  }

 private:
  std::uint64_t state_;
};

// Inputs as numbers, whatever they are stored as.
struct Values {
  std::vector<float> hidden;
  std::vector<float> w_down;
  std::array<std::vector<float>, 2> w_up;
};

Values make_values(const Problem& problem, const std::function<float(Random&)>& hidden,
                   const std::function<float(Random&)>& weight, std::uint64_t seed) {
  Random random(seed);
  const auto fill = [&](std::int64_t count, const std::function<float(Random&)>& draw) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& value : values) {
      value = draw(random);
    }
    return values;
  };
  Values values;
  values.hidden = fill(problem.hidden_count(), hidden);
  values.w_down = fill(problem.down_count(), weight);
  values.w_up = {fill(problem.up_count(), weight), fill(problem.up_count(), weight)};
  return values;
}

// Small integers. A latent may be rounded to a 16-bit type, of which bfloat16 holds integers up to
// 256 exactly: there w_down keeps at most 64 elements of a column, times 4 of hidden.
Values integer_values(const Problem& problem, Precision precision) {
  Values values = make_values(
      problem, [](Random& random) { return static_cast<float>(random.integer(4)); },
      [](Random& random) { return static_cast<float>(random.integer(1)); }, 7);
  if (stored_type(precision) != StoredType::kF32) {
    const std::int64_t step = (problem.model_dim + 63) / 64;
    for (std::int64_t d = 0; d < problem.model_dim; ++d) {
      for (std::int64_t r = 0; r < problem.rank; ++r) {
        if (d % step != r % step) {
          values.w_down[static_cast<std::size_t>(d * problem.rank + r)] = 0;
        }
      }
    }
  }
  return values;
}

Values normal_values(const Problem& problem, std::uint64_t seed) {
  const auto draw = [](Random& random) { return static_cast<float>(random.normal()); };
  return make_values(problem, draw, draw, seed);
}

// kv (2, T, columns) in fp64; exact for integers. With `absolute` of the absolute values.
std::vector<double> product(const Problem& problem, const Values& values, bool absolute) {
  const auto take = [absolute](float value) {
    return static_cast<double>(absolute ? std::fabs(value) : value);
  };
  const auto model_dim = static_cast<std::size_t>(problem.model_dim);
  const auto rank = static_cast<std::size_t>(problem.rank);
  const auto columns = static_cast<std::size_t>(problem.columns());
  const auto rows = static_cast<std::size_t>(problem.rows());
  std::vector<double> kv(2 * rows * columns, 0.0);
  std::vector<double> latent(rank);
  for (std::size_t row = 0; row < rows; ++row) {
    std::fill(latent.begin(), latent.end(), 0.0);
    for (std::size_t d = 0; d < model_dim; ++d) {
      const double left = take(values.hidden[row * model_dim + d]);
      for (std::size_t r = 0; r < rank; ++r) {
        latent[r] += left * take(values.w_down[d * rank + r]);
      }
    }
    for (std::size_t half = 0; half < 2; ++half) {
      double* out = kv.data() + (half * rows + row) * columns;
      for (std::size_t r = 0; r < rank; ++r) {
        for (std::size_t column = 0; column < columns; ++column) {
          out[column] += latent[r] * take(values.w_up[half][r * columns + column]);
        }
      }
    }
  }
  return kv;
}

template <typename T>
std::vector<std::byte> stored_as(const std::vector<float>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const T element = from_float<T>(values[i]);
    std::memcpy(bytes.data() + i * sizeof(T), &element, sizeof(T));
  }
  return bytes;
}

std::vector<std::byte> stored(const std::vector<float>& values, Precision precision) {
  switch (stored_type(precision)) {
    case StoredType::kBf16:
      return stored_as<Bf16>(values);
    case StoredType::kF16:
      return stored_as<F16>(values);
    case StoredType::kF32:
      break;
  }
  return stored_as<float>(values);
}

// Tensors in memory, with guard bands around kv and copies of the inputs to compare with.
class Tensors {
 public:
  Tensors(const Problem& problem, const Values& values, Precision precision)
      : inputs_{stored(values.hidden, precision), stored(values.w_down, precision),
                stored(values.w_up[0], precision), stored(values.w_up[1], precision)},
        original_(inputs_),
        kv_(static_cast<std::size_t>(problem.kv_count() * size_of(stored_type(precision))) +
                2 * kGuardBytes,
            kGuard) {
    poison();
  }

  Operands operands() {
    return {.hidden = inputs_[0].data(),
            .w_down = inputs_[1].data(),
            .w_up_k = inputs_[2].data(),
            .w_up_v = inputs_[3].data(),
            .kv = kv_.data() + kGuardBytes};
  }

  void poison() { std::fill(kv_.begin() + kGuardBytes, kv_.end() - kGuardBytes, std::byte{0xff}); }

  std::vector<std::byte> kv() const { return {kv_.begin() + kGuardBytes, kv_.end() - kGuardBytes}; }

  bool inputs_unchanged() const { return inputs_ == original_; }

  bool guards_unchanged() const {
    const auto is_guard = [](std::byte byte) { return byte == kGuard; };
    return std::all_of(kv_.begin(), kv_.begin() + kGuardBytes, is_guard) &&
           std::all_of(kv_.end() - kGuardBytes, kv_.end(), is_guard);
  }

 private:
  static constexpr std::ptrdiff_t kGuardBytes = 256;
  static constexpr std::byte kGuard{0xa5};

  std::array<std::vector<std::byte>, 4> inputs_;
  std::array<std::vector<std::byte>, 4> original_;
  std::vector<std::byte> kv_;
};

std::int64_t first_difference(const std::vector<std::byte>& a, const std::vector<std::byte>& b) {
  return std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin();
}

struct Cell {
  const Variant& variant;
  const Problem& problem;
  Precision precision;
};

std::string describe(const Problem& problem) {
  std::string text;
  for (const std::int64_t extent : {problem.batch, problem.seq, problem.model_dim, problem.rank,
                                    problem.kv_heads, problem.head_dim}) {
    text += (text.empty() ? "" : "x") + std::to_string(extent);
  }
  return text;
}

std::string label(const Cell& cell, int threads) {
  return std::string(cell.variant.name) + " " + describe(cell.problem) + " " +
         std::string(name_of(cell.precision)) + ", threads " + std::to_string(threads);
}

std::vector<Cell> cells(const Variant& variant) {
  const double most = variant.name == "naive" ? kMostFlopsOfNaive : kMostFlops;
  std::vector<Cell> found;
  for (const Problem& problem : kProblems) {
    for (const Precision precision : kPrecisions) {
      if (!variant.why_not(problem, precision, cpu(1)) && variant.executed_flops(problem) <= most) {
        found.push_back({variant, problem, precision});
      }
    }
  }
  return found;
}

class CpuVariant : public ::testing::TestWithParam<std::string> {
 protected:
  const Variant& variant() const { return *listed_as(GetParam()).variant; }
};

TEST_P(CpuVariant, MakesTheExactBitsOfIntegerProducts) {
  std::set<const Problem*> ran;
  for (const Cell& cell : cells(variant())) {
    const Values values = integer_values(cell.problem, cell.precision);
    std::vector<float> exact;
    for (const double value : product(cell.problem, values, false)) {
      ASSERT_LE(std::fabs(value), 1 / kUnitRoundoff) << "this test's integers must fit fp32";
      exact.push_back(static_cast<float>(value));
    }
    const std::vector<std::byte> expected = stored(exact, cell.precision);
    Tensors tensors(cell.problem, values, cell.precision);
    for (const int threads : kThreadCounts) {
      SCOPED_TRACE(label(cell, threads));
      const Prepared prepared = cell.variant.prepare(cell.problem, cell.precision, cpu(threads));
      tensors.poison();
      prepared.bind(tensors.operands())(nullptr);
      ASSERT_EQ(first_difference(tensors.kv(), expected),
                static_cast<std::int64_t>(expected.size()))
          << "first wrong byte of kv";
      ASSERT_TRUE(tensors.guards_unchanged()) << "wrote outside kv";
      ASSERT_TRUE(tensors.inputs_unchanged()) << "wrote to an input";
    }
    ran.insert(&cell.problem);
  }
  EXPECT_GE(ran.size(), 40u) << "problems small enough for this variant";
}

TEST_P(CpuVariant, RepeatsItsBits) {
  // How OpenBLAS splits a product among threads, and so the order of its sums, is its own business.
  const bool same_for_all_thread_counts = variant().name != "blas";
  for (const Cell& cell : cells(variant())) {
    const Values values = normal_values(cell.problem, 11);
    const Values other_values = normal_values(cell.problem, 12);
    std::vector<std::byte> first;
    for (const int threads : kThreadCounts) {
      SCOPED_TRACE(label(cell, threads));
      const Prepared prepared = cell.variant.prepare(cell.problem, cell.precision, cpu(threads));
      Tensors here(cell.problem, values, cell.precision);
      Tensors there(cell.problem, other_values, cell.precision);
      const Launch launch = prepared.bind(here.operands());
      const Launch other = prepared.bind(there.operands());
      launch(nullptr);
      const std::vector<std::byte> once = here.kv();
      other(nullptr);
      here.poison();
      launch(nullptr);
      ASSERT_EQ(first_difference(here.kv(), once), static_cast<std::int64_t>(once.size()));
      if (first.empty() || !same_for_all_thread_counts) {
        first = once;
      }
      ASSERT_EQ(first_difference(once, first), static_cast<std::int64_t>(first.size()));
    }
  }
}

TEST_P(CpuVariant, StaysWithinTheBoundOfFp32) {
  for (const Cell& cell : cells(variant())) {
    if (cell.precision != Precision::kFp32) {
      continue;
    }
    const int threads = kThreadCounts.back();
    SCOPED_TRACE(label(cell, threads));
    const Values values = normal_values(cell.problem, 13);
    const std::vector<double> expected = product(cell.problem, values, false);
    const std::vector<double> magnitude = product(cell.problem, values, true);
    Tensors tensors(cell.problem, values, cell.precision);
    const Prepared prepared = cell.variant.prepare(cell.problem, cell.precision, cpu(threads));
    prepared.bind(tensors.operands())(nullptr);
    const std::vector<std::byte> kv = tensors.kv();
    // One rounding for each term of the two sums that an element goes through.
    const double bound =
        static_cast<double>(cell.problem.model_dim + cell.problem.rank) * kUnitRoundoff;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      float actual = 0;
      std::memcpy(&actual, kv.data() + i * sizeof(float), sizeof(float));
      ASSERT_TRUE(std::fabs(actual - expected[i]) <= bound * magnitude[i])
          << "element " << i << " is " << actual << ", expected " << expected[i];
    }
  }
}

TEST_P(CpuVariant, KeepsTheContract) {
  const Listed& listed = listed_as(GetParam());
  const Variant& variant = *listed.variant;
  EXPECT_EQ(variant.name, listed.name);
  EXPECT_EQ(variant.backend, Backend::kCpu);
  EXPECT_TRUE(listed.missing.empty());
  EXPECT_FALSE(variant.summary.empty());
  EXPECT_EQ(variant.summary.find('\n'), std::string_view::npos);
  EXPECT_FALSE(variant.why_not(Problem{}, Precision::kFp32, cpu(1)));
  EXPECT_EQ(variant.unit(Precision::kFp32), Unit::kFma);
  const std::optional<std::string> reason = variant.why_not(Problem{}, Precision::kTf32, cpu(1));
  ASSERT_TRUE(reason);
  EXPECT_NE(reason->find("tf32"), std::string::npos) << *reason;
  EXPECT_FALSE(variant.prepare(Problem{}, Precision::kFp32, cpu(1)).choice.empty());
  for (const Problem& problem : kProblems) {
    EXPECT_GE(variant.executed_flops(problem), problem.flops());
    const std::int64_t of_one = variant.workspace_bytes(problem, Precision::kFp32, cpu(1));
    EXPECT_GE(of_one, 0);
    EXPECT_GE(variant.workspace_bytes(problem, Precision::kFp32, cpu(64)), of_one);
  }
}

INSTANTIATE_TEST_SUITE_P(All, CpuVariant, ::testing::ValuesIn(cpu_variants()),
                         [](const auto& name) { return name.param; });

TEST(CpuVariants, AreListed) {
  const std::vector<std::string> names = cpu_variants();
  for (const std::string name : {"naive", "tiled", "cooperative"}) {
    EXPECT_EQ(std::count(names.begin(), names.end(), name), 1) << name;
  }
}

TEST(CpuVariants, BlasRefusesWhatItCannotDo) {
  const std::vector<std::string> names = cpu_variants();
  if (std::count(names.begin(), names.end(), "blas") == 0) {
    GTEST_SKIP() << "this build has no blas";
  }
  const Variant& blas = *listed_as("blas").variant;
  const Problem beyond_integers{.batch = 1, .seq = std::int64_t{1} << 62};
  EXPECT_TRUE(blas.why_not(Problem{}, Precision::kBf16, cpu(1)));
  EXPECT_TRUE(blas.why_not(beyond_integers, Precision::kFp32, cpu(1)));
}

// `tiles` tiles, one below the other, between guards, against integer sums.
void check_tiles(const cpu::InstructionSet& set, std::int64_t tiles, std::int64_t tile_rows,
                 std::int64_t vectors, std::int64_t depth, bool accumulate) {
  const std::int64_t rows = tiles * tile_rows;
  const std::int64_t columns = vectors * set.lanes;
  const std::int64_t a_stride = depth + 3;
  const std::int64_t b_stride = columns + 1;  // no row of b or c is aligned
  const std::int64_t c_stride = columns + 5;
  constexpr float kGuard = 1e6f;
  Random random(17);
  const auto integers = [&random](std::int64_t count) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& value : values) {
      value = static_cast<float>(random.integer(9));
    }
    return values;
  };
  const std::vector<float> a = integers(rows * a_stride);
  const std::vector<float> b = integers(depth * b_stride);
  std::vector<float> c(static_cast<std::size_t>(rows * c_stride), kGuard);
  std::vector<float> expected = c;
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      const auto at = static_cast<std::size_t>(i * c_stride + j);
      c[at] = accumulate ? 5.0f : std::numeric_limits<float>::quiet_NaN();
      float sum = accumulate ? 5.0f : 0.0f;
      for (std::int64_t k = 0; k < depth; ++k) {
        sum += a[static_cast<std::size_t>(i * a_stride + k)] *
               b[static_cast<std::size_t>(k * b_stride + j)];
      }
      expected[at] = sum;
    }
  }
  set.function(tile_rows, vectors)({.rows = rows,
                                    .depth = depth,
                                    .a = a.data(),
                                    .a_stride = a_stride,
                                    .b = b.data(),
                                    .b_stride = b_stride,
                                    .c = c.data(),
                                    .c_stride = c_stride,
                                    .accumulate = accumulate});
  EXPECT_EQ(c, expected);
}

TEST(RegisterTile, IsExactForIntegersInEveryInstructionSet) {
  for (const cpu::InstructionSet& set : cpu::usable_instruction_sets()) {
    for (std::int64_t vectors = 1; vectors <= set.vectors; ++vectors) {
      for (std::int64_t rows = 1; rows <= set.rows_of(vectors); ++rows) {
        for (const std::int64_t depth : {1, 2, 7, 64}) {
          SCOPED_TRACE(std::string(set.name) + " " + std::to_string(rows) + " rows, " +
                       std::to_string(vectors) + " vectors, depth " + std::to_string(depth));
          for (const std::int64_t tiles : {0, 1, 3}) {
            check_tiles(set, tiles, rows, vectors, depth, false);
            check_tiles(set, tiles, rows, vectors, depth, true);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace mla_bench
