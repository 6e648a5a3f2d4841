// What tells two measurements apart, what a run sums up, and the command that repeats a cell.
#include "result.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>
#include <variant>

#include "options.hpp"
#include "text.hpp"

namespace mla_bench {
namespace {

Round round_of(const std::vector<double>& samples) {
  Round round;
  round.long_launches = 1;
  round.long_ns = samples;
  round.samples_ns = samples;
  return round;
}

TEST(Cell, IdNamesAllThatTellsTwoApart) {
  Cell cell;
  cell.variant = "tiled";
  EXPECT_EQ(cell.id(), "tiled/cpu/B:4/S:96/Dm:256/R:48/H:4/D:32/fp32/hot");
  cell.backend = Backend::kCuda;
  cell.ordinal = 3;
  cell.device = "GPU-1";
  cell.precision = Precision::kFp16;
  cell.l2 = L2State::kCold;
  cell.problem = {.batch = 1, .seq = 2, .model_dim = 3, .rank = 4, .kv_heads = 5, .head_dim = 6};
  EXPECT_EQ(cell.id(), "tiled/GPU-1/B:1/S:2/Dm:3/R:4/H:5/D:6/fp16/cold");
  cell.concurrent_with = {"GPU-2", "GPU-3"};
  EXPECT_EQ(cell.id(), "tiled/GPU-1/B:1/S:2/Dm:3/R:4/H:5/D:6/fp16/cold/concurrent:3");
}

TEST(Summary, IsOverAllSamplesWithTheRoundsSpread) {
  const Summary summary =
      summarize({round_of({10, 11, 30}), round_of({12, 13, 14}), round_of({11, 12, 12})});
  EXPECT_EQ(summary.samples, 9);
  EXPECT_EQ(summary.median_ns, 12);
  EXPECT_EQ(summary.min_ns, 10);
  EXPECT_EQ(summary.mad_ns, 1);
  // Medians 11, 13, 12: s = 1, t(2) = 4.3027.
  const double half = 4.302652729911275 / std::sqrt(3.0);
  EXPECT_NEAR(summary.ci95_low_ns, 12 - half, 1e-6);
  EXPECT_NEAR(summary.ci95_high_ns, 12 + half, 1e-6);
}

// Cut off at 0 it would be narrower than it is, to all that take its width.
TEST(Summary, TheIntervalOfTwoRoundsFarApartBeginsBelowZero) {
  const Summary summary = summarize({round_of({10}), round_of({16})});
  EXPECT_LT(summary.ci95_low_ns, 0);
  EXPECT_NEAR(summary.ci95_high_ns - summary.median_ns, summary.median_ns - summary.ci95_low_ns,
              1e-9);
}

// Ticks of 32 ns in float milliseconds, over 251 launches.
TEST(Summary, TheResolutionIsATickOfThePassesALaunch) {
  Round round;
  round.short_launches = 83;
  round.long_launches = 334;
  for (const int tick : {31'250, 31'253, 31'254, 31'250, 31'259}) {
    const float long_ms = static_cast<float>(tick * 32e-6);
    const float short_ms = static_cast<float>((tick - 23'000) * 32e-6);
    round.long_ns.push_back(static_cast<double>(long_ms) * 1e6);
    round.short_ns.push_back(static_cast<double>(short_ms) * 1e6);
    round.samples_ns.push_back((round.long_ns.back() - round.short_ns.back()) / 251);
  }
  EXPECT_NEAR(summarize({round, round}).resolution_ns, 32.0 / 251, 1e-3);
  for (std::vector<double>* passes : {&round.long_ns, &round.short_ns}) {
    passes->assign(5, 1e6);
  }
  EXPECT_EQ(summarize({round}).resolution_ns, 0) << "no step was seen";
  round.long_ns = {1.1e6, 1.3e6, 1.8e6, 2.2e6, 3e6};
  EXPECT_EQ(summarize({round}).resolution_ns, 500.0 / 251) << "spread is no tick";
}

TEST(Summary, OneRoundHasNoInterval) {
  const Summary summary = summarize({round_of({10, 11, 12})});
  EXPECT_EQ(summary.median_ns, 11);
  EXPECT_TRUE(std::isinf(summary.ci95_low_ns) && std::isinf(summary.ci95_high_ns));
}

TEST(Summary, EmptyRoundsSayNothing) {
  EXPECT_THROW(summarize({}), std::invalid_argument);
  EXPECT_THROW(summarize({round_of({})}), std::invalid_argument);
  EXPECT_TRUE(std::isinf(summarize({round_of({5}), round_of({})}).ci95_high_ns));
}

// The command must give the same cell when it is read by the tool itself.
RunOptions read_back(const std::string& command) {
  std::vector<const char*> argv;
  const std::vector<std::string> words = split(command, ' ');
  for (const std::string& word : words) {
    argv.push_back(word.c_str());
  }
  return std::get<RunOptions>(parse_options(argv));
}

TEST(Command, RepeatsACpuCell) {
  Cell cell;
  cell.variant = "cooperative";
  cell.threads = 2;
  cell.precision = Precision::kBf16;
  cell.l2 = L2State::kCold;
  cell.problem = {.batch = 1, .seq = 2, .model_dim = 3, .rank = 4, .kv_heads = 5, .head_dim = 6};
  cell.inputs = {.distribution = Distribution::kExact, .seed = 7, .file = {}};
  const RunOptions options = read_back(command_of(cell));
  EXPECT_EQ(options.variants, std::vector<std::string>{"cooperative"});
  EXPECT_EQ(name_of(options.devices.at(0)), "cpu");
  EXPECT_EQ(options.threads, 2);
  EXPECT_EQ(options.precisions, std::vector{Precision::kBf16});
  EXPECT_EQ(options.l2_states, std::vector{L2State::kCold});
  EXPECT_EQ(options.batch.at(0), 1);
  EXPECT_EQ(options.seq.at(0), 2);
  EXPECT_EQ(options.model_dim.at(0), 3);
  EXPECT_EQ(options.rank.at(0), 4);
  EXPECT_EQ(options.kv_heads.at(0), 5);
  EXPECT_EQ(options.head_dim.at(0), 6);
  EXPECT_EQ(options.inputs, cell.inputs);
}

TEST(Command, RepeatsACudaCellOfAFile) {
  Cell cell;
  cell.variant = "tiled";
  cell.backend = Backend::kCuda;
  cell.ordinal = 2;
  cell.device = "GPU-6750905a-23f5-d4d2-6f98-a08ebac8ba1b";
  cell.inputs.file = "x.safetensors";
  const RunOptions options = read_back(command_of(cell));
  EXPECT_EQ(name_of(options.devices.at(0)), cell.device);
  EXPECT_FALSE(options.concurrent);
  EXPECT_EQ(options.threads, std::nullopt);
  EXPECT_EQ(options.inputs.file, "x.safetensors");
  EXPECT_TRUE(options.seq.empty());
  EXPECT_EQ(options.kv_heads.at(0), 4);
}

TEST(Command, RepeatsWhatIsMeasuredAtTheSameTimeToo) {
  Cell cell;
  cell.variant = "tiled";
  cell.backend = Backend::kCuda;
  cell.device = "GPU-b";
  cell.concurrent_with = {"GPU-a", "GPU-c"};
  const RunOptions options = read_back(command_of(cell));
  EXPECT_TRUE(options.concurrent);
  ASSERT_EQ(options.devices.size(), 3u);
  EXPECT_EQ(name_of(options.devices[0]), "GPU-b");
}

TEST(Command, QuotesAFileForTheShell) {
  Cell cell;
  cell.inputs.file = "a b';rm -rf x";
  EXPECT_NE(command_of(cell).find("--input 'a b'\\'';rm -rf x'"), std::string::npos);
}

}  // namespace
}  // namespace mla_bench
