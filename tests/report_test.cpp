// The table that people read, as text.
#include "report.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "example_result.hpp"

namespace mla_bench {
namespace {

Device gpu() {
  Device device;
  device.backend = Backend::kCuda;
  device.ordinal = 1;
  device.name = "NVIDIA H200";
  device.uuid = "GPU-1";
  return device;
}

Device cpu() {
  Device device;
  device.name = "Some CPU";
  device.uuid = "Some CPU";
  device.threads = 2;
  return device;
}

// A passed cell on the GPU whose rounds' medians are `ns` and 1 % more.
Result timed(const std::string& variant, double ns) {
  Result result = example_result();
  result.cell.variant = variant;
  result.rounds.clear();
  for (const double round_ns : {ns, 1.01 * ns}) {
    Round round;
    round.long_launches = 1;
    round.long_ns = {round_ns};
    round.samples_ns = {round_ns};
    result.rounds.push_back(round);
  }
  result.summary = summarize(result.rounds);
  result.summary->resolution_ns = 0;  // digits have a test of their own
  return result;
}

Result untimed(const std::string& variant, Status status, const std::string& reason) {
  Result result;
  result.cell = example_result().cell;
  result.cell.variant = variant;
  result.status = status;
  result.reason = reason;
  return result;
}

TEST(Report, GpusOfOneModelAreToldApart) {
  Device twin = gpu();
  twin.uuid = "GPU-22222222-0000";
  Result there = timed("tiled", 4000);
  there.cell.device = twin.uuid;
  there.cell.concurrent_with = {"GPU-1"};
  const std::string text = table({timed("tiled", 4000), there}, {gpu(), twin}, std::nullopt);
  EXPECT_NE(text.find("NVIDIA H200 (GPU-1), 4x96x256"), std::string::npos) << text;
  EXPECT_NE(text.find("NVIDIA H200 (GPU-22222222), 4x96x256"), std::string::npos) << text;
  EXPECT_NE(text.find("hot L2, 2 GPUs at once\n"), std::string::npos) << text;
}

TEST(Report, IsATableForEachDeviceProblemPrecisionAndCacheState) {
  Result exact = timed("cublas", 4000);
  exact.check->bit_exact = true;
  Result sampled = timed("tensor_core", 2000);
  sampled.check->method = CheckMethod::kProjection;
  sampled.check->elements = 16384;
  sampled.check->projected_rows = 384;
  Result untrusted = timed("cooperative", 100);
  untrusted.status = Status::kUntrusted;
  untrusted.reason = "faster than memory allows";
  Result cold = timed("naive", 12000);
  cold.cell.l2 = L2State::kCold;
  Result on_cpu = timed("tiled", 1.5e6);
  on_cpu.cell.backend = Backend::kCpu;
  on_cpu.cell.device = "Some CPU";
  on_cpu.cell.threads = 1;
  on_cpu.rounds.resize(1);
  on_cpu.summary = summarize(on_cpu.rounds);
  const std::vector<Result> results{
      timed("naive", 8000),
      exact,
      sampled,
      untrusted,
      untimed("tiled", Status::kIncorrect, "element k[0][1][2][3] is 1, not 2"),
      untimed("wgmma", Status::kSkipped, "needs sm_90"),
      cold,
      on_cpu,
      untimed("blas", Status::kFailed, "its process was ended by signal 11"),
  };
  EXPECT_EQ(table(results, {gpu(), cpu()}, std::nullopt),
            R"(NVIDIA H200, 4x96x256, rank 48, 4 heads of 32, fp32, hot L2
  variant        median  +-95 %  x floor  roofline   GFLOP/s    GB/s   speed  check
  naive         8.04 us  6.32 %     4.02    12.4 %    2347.6   110.0   1.00x  ok, all elements
  cublas        4.02 us  6.32 %     2.01    24.9 %    4695.1   220.1   2.00x  bit-exact, all elements
  tensor_core   2.01 us  6.32 %     1.00    49.8 %    9390.2   440.2   4.00x  ok, 16384 elements and 384 rows projected
  cooperative  100.5 ns  6.32 %     0.05   995.0 %  187804.7  8803.3  80.00x  ok, all elements UNTRUSTED: faster than memory allows
  tiled: incorrect: element k[0][1][2][3] is 1, not 2
  wgmma: skipped: needs sm_90
  blas: failed: its process was ended by signal 11

NVIDIA H200, 4x96x256, rank 48, 4 heads of 32, fp32, cold L2
  variant    median  +-95 %  x floor  roofline  GFLOP/s  GB/s  speed  check
  naive    12.06 us  6.32 %     6.03     8.3 %   1565.0  73.4  1.00x  ok, all elements

Some CPU, 1 thread, 4x96x256, rank 48, 4 heads of 32, fp32, hot caches
  variant   median  +-95 %  x floor  roofline  GFLOP/s  GB/s  speed  check
  tiled    1.50 ms       -   750.00     0.1 %     12.6   0.6  1.00x  ok, all elements
)");
}

TEST(Report, DigitsEndAtTheResolution) {
  Result fine = timed("naive", 8000);
  fine.summary->resolution_ns = 0.13;
  Result coarse = timed("tiled", 8000);
  coarse.summary->resolution_ns = 32;
  const std::string text = table({fine, coarse}, {gpu()}, std::nullopt);
  EXPECT_NE(text.find(" 8.040 us "), std::string::npos) << text;
  EXPECT_NE(text.find(" 8.0 us "), std::string::npos) << text;
}

TEST(Report, SpeedIsToldAgainstTheReference) {
  const std::string text = table({timed("naive", 8000), timed("cublas", 4000)}, {gpu()}, "cublas");
  EXPECT_NE(text.find("0.50x"), std::string::npos) << text;
  EXPECT_NE(text.find("1.00x"), std::string::npos) << text;
  EXPECT_EQ(text.find("2.00x"), std::string::npos) << text;
}

TEST(Report, AReferenceWithoutATimeIsReplacedByTheSlowest) {
  const std::string text = table(
      {timed("naive", 8000), timed("tiled", 4000), untimed("cublas", Status::kFailed, "crashed")},
      {gpu()}, "cublas");
  EXPECT_NE(text.find("2.00x"), std::string::npos) << text;
  const std::string says = "  speed is against the slowest: cublas has no time here\n";
  EXPECT_NE(text.find(says), std::string::npos) << text;
  const std::string absent = table({timed("naive", 8000)}, {gpu()}, "cublas");
  EXPECT_NE(absent.find(says), std::string::npos) << absent;
  const std::string present = table({timed("cublas", 8000)}, {gpu()}, "cublas");
  EXPECT_EQ(present.find("slowest"), std::string::npos) << present;
}

TEST(Report, AWrongCellShowsNoTime) {
  Result wrong = timed("tiled", 1234);
  wrong.status = Status::kIncorrect;
  wrong.reason = "element 5 is wrong";
  wrong.summary.reset();  // as run leaves it
  const std::string text = table({wrong}, {gpu()}, std::nullopt);
  EXPECT_EQ(text.find("1.2"), std::string::npos) << text;
  EXPECT_NE(text.find("tiled: incorrect: element 5 is wrong"), std::string::npos) << text;
}

// Whatever stands beside it: a document read from a file may hold anything.
TEST(Report, AWrongCellShowsNoTimeEvenWithASummary) {
  Result wrong = timed("tiled", 1234);
  wrong.status = Status::kIncorrect;
  wrong.reason = "element 5 is wrong";
  const std::string text = table({wrong, timed("naive", 8000)}, {gpu()}, "tiled");
  EXPECT_EQ(text.find("1.24 us"), std::string::npos) << text;
  EXPECT_NE(text.find("tiled: incorrect: element 5 is wrong"), std::string::npos) << text;
}

TEST(Report, StrangersTextCannotDriveTheTerminal) {
  Device device = gpu();
  device.name = "GPU\x1b[2J\n";
  Result untrusted = timed("cooperative", 100);
  untrusted.status = Status::kUntrusted;
  untrusted.reason = "a\rb";
  const std::string text =
      table({untrusted, untimed("tiled", Status::kFailed, "bell \x07 and\nline")}, {device},
            std::nullopt);
  for (const char control : {'\x1b', '\r', '\x07'}) {
    EXPECT_EQ(text.find(control), std::string::npos) << text;
  }
  EXPECT_NE(text.find("bell \\x07 and\\x0aline"), std::string::npos) << text;
}

TEST(Report, OfADeviceThatIsNotListedShowsItsUuid) {
  const std::string text = table({timed("naive", 8000)}, {}, std::nullopt);
  EXPECT_EQ(text.find("GPU-1, 4x96x256"), 0u) << text;
}

TEST(Report, HasNoTrailingSpacesAndNoColours) {
  Result bare = timed("naive", 8000);
  bare.check.reset();
  const std::string text =
      table({bare, untimed("tiled", Status::kFailed, "gone")}, {gpu()}, std::nullopt);
  EXPECT_EQ(text.find(" \n"), std::string::npos) << text;
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

TEST(Report, OfNothingIsNothing) {
  EXPECT_EQ(table({}, {}, std::nullopt), "");
}

}  // namespace
}  // namespace mla_bench
