// Which cells are compared with which, and what is said of the rest.
#include "compare.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "compare_report.hpp"
#include "errors.hpp"
#include "example_result.hpp"

namespace mla_bench {
namespace {

// A passed cell whose rounds' medians are `ns` and 0.1 % to either side.
Result timed(const std::string& variant, const std::string& device, double ns) {
  Result result = example_result();
  result.cell.variant = variant;
  result.cell.device = device;
  result.rounds.clear();
  for (const double round_ns : {ns, 0.999 * ns, 1.001 * ns}) {
    Round round;
    round.long_launches = 1;
    round.samples_ns = {round_ns};
    result.rounds.push_back(round);
  }
  result.summary = summarize(result.rounds);
  return result;
}

RecordedDocument document_of(const std::string& path, const std::vector<Result>& cells) {
  RecordedDocument recorded{.path = path, .version = "0.1.0", .commit = "0123456789abcdef"};
  recorded.document.started_at = "2026-11-29T16:03:00Z";
  recorded.document.finished_at = "2026-11-29T16:04:00Z";
  for (const std::string uuid : {"GPU-1", "GPU-2"}) {
    Device device;
    device.backend = Backend::kCuda;
    device.uuid = uuid;
    device.name = uuid == "GPU-1" ? "NVIDIA H200" : "NVIDIA L4";
    recorded.document.devices.push_back({.device = device});
  }
  recorded.document.cells = cells;
  return recorded;
}

std::vector<std::string> words(const DocumentComparison& comparison) {
  std::vector<std::string> lines;
  for (const Finding& finding : comparison.findings) {
    lines.push_back(words_of(finding, comparison));
  }
  return lines;
}

bool mentions(const std::vector<std::string>& lines, const std::string& part) {
  for (const std::string& line : lines) {
    if (line.find(part) != std::string::npos) {
      return true;
    }
  }
  return false;
}

TEST(Compare, VariantsOfOneRunArePairedAgainstTheFirst) {
  const std::vector documents{
      document_of("a.json", {timed("naive", "GPU-1", 800), timed("tiled", "GPU-1", 400),
                             timed("cooperative", "GPU-1", 200)})};
  const DocumentComparison comparison = compare(documents, std::nullopt);
  EXPECT_TRUE(comparison.is_comparable);
  EXPECT_EQ(comparison.reference.name, "naive");
  EXPECT_TRUE(comparison.cells[1].speed->paired);
  EXPECT_NEAR(comparison.cells[1].speed->estimate, 2, 1e-12);
  EXPECT_TRUE(comparison.notes.empty());
  EXPECT_EQ(words(comparison), (std::vector<std::string>{
                                   "tiled is 2.0000x [2.0000, 2.0000] faster than naive",
                                   "cooperative is 4.0000x [4.0000, 4.0000] faster than naive",
                                   "cooperative is 2.0000x [2.0000, 2.0000] faster than tiled"}));
}

// As a baseline of several processes holds them: one cell was not to be trusted in the first.
TEST(Compare, RoundsOfOneProcessArePaired) {
  Result slower = timed("tiled", "GPU-1", 1);
  Result faster = timed("naive", "GPU-1", 1);
  slower.rounds.clear();
  faster.rounds.clear();
  for (int process = 0; process < 5; ++process) {
    for (int turn = 0; turn < 2; ++turn) {
      const double ns = 400 * (1 + 0.1 * process);
      Round round{.process = process, .long_launches = 1, .samples_ns = {1.02 * ns}};
      slower.rounds.push_back(round);
      round.samples_ns = {ns};
      if (process > 0) {
        faster.rounds.push_back(round);
      }
    }
  }
  slower.summary = summarize(slower.rounds);
  faster.summary = summarize(faster.rounds);
  const std::vector documents{document_of("a.json", {slower, faster})};
  EXPECT_EQ(words(compare(documents, std::nullopt)),
            std::vector<std::string>{"naive is 1.0200x [1.0200, 1.0200] faster than tiled"});
}

TEST(Compare, WhatCannotBeToldApartIsSaid) {
  Result other = timed("tiled", "GPU-1", 400);
  std::swap(other.rounds[1], other.rounds[2]);  // the same times, another order
  const std::vector documents{document_of("a.json", {timed("naive", "GPU-1", 400), other})};
  EXPECT_TRUE(mentions(words(compare(documents, std::nullopt)), "cannot be told apart: "));
}

TEST(Compare, RunsAreToldAgainstTheFirstFile) {
  const std::vector documents{document_of("a.json", {timed("naive", "GPU-1", 400)}),
                              document_of("b.json", {timed("naive", "GPU-1", 440)})};
  const DocumentComparison comparison = compare(documents, std::nullopt);
  EXPECT_EQ(comparison.reference.kind, SpeedReference::Kind::kRun);
  EXPECT_TRUE(comparison.tells_runs_apart);
  EXPECT_FALSE(comparison.cells[1].speed->paired);
  EXPECT_NEAR(comparison.cells[1].speed->estimate, 1 / 1.1, 1e-9);
  // Date and commit do not tell these two apart, so their paths do.
  EXPECT_TRUE(mentions(words(comparison), "naive (a.json) is 1.10"));
}

TEST(Compare, ReferencesByName) {
  const std::vector documents{
      document_of("a.json", {timed("naive", "GPU-1", 800), timed("tiled", "GPU-1", 400)}),
      document_of("b.json", {timed("naive", "GPU-2", 600), timed("tiled", "GPU-2", 900)})};
  const auto reference = [&](const std::string& name) {
    std::vector<std::size_t> references;
    for (const ComparedCell& cell : compare(documents, name).cells) {
      references.push_back(cell.reference.value());
    }
    return references;
  };
  using Indices = std::vector<std::size_t>;
  EXPECT_EQ(reference("tiled"), (Indices{1, 1, 3, 3}));
  EXPECT_EQ(reference("NVIDIA L4"), (Indices{2, 3, 2, 3}));
  EXPECT_EQ(reference("GPU-1"), (Indices{0, 1, 0, 1}));
  EXPECT_EQ(reference("b.json"), (Indices{2, 3, 2, 3}));
  EXPECT_THROW(reference("c.json"), UsageError);
}

TEST(Compare, ACpuWithOtherThreadsIsAnotherReference) {
  const auto on_cpu = [](const std::string& path, int threads, double ns) {
    Result result = timed("naive", "AMD EPYC", ns);
    result.cell.backend = Backend::kCpu;
    result.cell.threads = threads;
    RecordedDocument recorded = document_of(path, {result});
    Device device;
    device.backend = Backend::kCpu;
    device.uuid = device.name = "AMD EPYC";
    recorded.document.devices = {DocumentDevice{.device = device}};
    return recorded;
  };
  const std::vector documents{on_cpu("a.json", 2, 400), on_cpu("b.json", 1, 800)};
  try {
    compare(documents, "AMD EPYC");
    ADD_FAILURE() << "either of two";
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("'AMD EPYC, 2 threads', 'AMD EPYC, 1 thread'"),
              std::string::npos)
        << error.what();
  }
  const DocumentComparison comparison = compare(documents, "AMD EPYC, 2 threads");
  EXPECT_EQ(comparison.cells[1].reference, 0u);
  EXPECT_NEAR(comparison.cells[1].speed->estimate, 0.5, 1e-9);
  EXPECT_EQ(comparison.findings.size(), 1u);
  EXPECT_NE(render(comparison, {}, CompareFormat::kText).find("speed against AMD EPYC, 2 threads"),
            std::string::npos);
  // Not named, and with one document each place is told against the first too.
  Result other = documents[1].document.cells[0];
  RecordedDocument both = documents[0];
  both.document.cells.push_back(other);
  EXPECT_EQ(compare(std::vector{both}, std::nullopt).cells[1].reference, 0u);
}

TEST(Compare, ARankingFlipNeedsTwoDevices) {
  const std::vector<Result> here{timed("naive", "GPU-1", 800), timed("tiled", "GPU-1", 400)};
  const std::vector<Result> there{timed("naive", "GPU-2", 600), timed("tiled", "GPU-2", 900)};
  std::vector documents{document_of("a.json", here), document_of("b.json", there)};
  const DocumentComparison comparison = compare(documents, std::nullopt);
  ASSERT_EQ(comparison.flips.size(), 1u);
  EXPECT_EQ(words_of(comparison.flips[0].here, comparison).substr(0, 20), "tiled on NVIDIA H200");
  EXPECT_EQ(words_of(comparison.flips[0].there, comparison).substr(0, 18), "naive on NVIDIA L4");
  // In whatever order, also where one device ranked them both ways in two runs.
  const std::vector both{
      document_of("a.json", {timed("naive", "GPU-1", 600), timed("tiled", "GPU-1", 900)}),
      document_of("b.json", {timed("naive", "GPU-1", 800), timed("tiled", "GPU-1", 400)}),
      document_of("c.json", {timed("naive", "GPU-2", 600), timed("tiled", "GPU-2", 900)})};
  std::vector<std::size_t> order{0, 1, 2};
  do {
    std::vector<RecordedDocument> ordered;
    for (const std::size_t i : order) {
      ordered.push_back(both[i]);
    }
    EXPECT_EQ(compare(ordered, std::nullopt).flips.size(), 1u);
  } while (std::next_permutation(order.begin(), order.end()));
  // The same on one device is a change between runs.
  documents[1] =
      document_of("b.json", {timed("naive", "GPU-1", 600), timed("tiled", "GPU-1", 900)});
  EXPECT_TRUE(compare(documents, std::nullopt).flips.empty());
}

TEST(Compare, OtherWorkIsNeverMixed) {
  using Change = void (*)(Cell&);
  const std::vector<std::pair<Change, std::string>> changes{
      {[](Cell& cell) { cell.problem.seq = 97; }, "other problem"},
      {[](Cell& cell) { cell.precision = Precision::kBf16; }, "other precision"},
      {[](Cell& cell) { cell.l2 = L2State::kCold; }, "other cache state"},
      {[](Cell& cell) { cell.inputs.seed = 8; }, "other inputs"},
      {[](Cell& cell) { cell.concurrent_with = {"GPU-2"}; }, "other number of GPUs at once"}};
  for (const auto& [change, said] : changes) {
    Result other = timed("naive", "GPU-1", 400);
    change(other.cell);
    const std::vector documents{
        document_of("a.json", {timed("naive", "GPU-1", 400), timed("tiled", "GPU-1", 300)}),
        document_of("b.json", {other})};
    const DocumentComparison comparison = compare(documents, std::nullopt);
    EXPECT_FALSE(comparison.is_comparable);
    EXPECT_TRUE(mentions(comparison.notes, said)) << said;
    EXPECT_FALSE(comparison.cells[2].reference == 0u || comparison.cells[2].reference == 1u);
  }
}

TEST(Compare, NoTimeOfAWrongOrUntrustedCell) {
  for (const Status status :
       {Status::kIncorrect, Status::kFailed, Status::kSkipped, Status::kUntrusted}) {
    Result bad = timed("tiled", "GPU-1", 1);
    bad.status = status;
    bad.reason = "a reason";
    const std::vector documents{document_of(
        "a.json", {timed("naive", "GPU-1", 400), bad, timed("cooperative", "GPU-1", 300)})};
    const DocumentComparison comparison = compare(documents, std::nullopt);
    EXPECT_FALSE(comparison.cells[1].summary || comparison.cells[1].speed);
    EXPECT_EQ(comparison.findings.size(), 1u);
    EXPECT_TRUE(mentions(comparison.notes, std::string(name_of(status)) + ": a reason"));
    EXPECT_EQ(render(comparison, {}, CompareFormat::kJson).find("\"median_ns\": 1.0"),
              std::string::npos);
  }
}

TEST(CompareReport, LaysOutAnyTwoAxes) {
  const std::vector documents{
      document_of("a.json", {timed("naive", "GPU-1", 800), timed("tiled", "GPU-1", 400)}),
      document_of("b.json", {timed("naive", "GPU-2", 600), timed("tiled", "GPU-2", 300)})};
  const DocumentComparison comparison = compare(documents, "naive");
  const Layout layout{.rows = {Axis::kVariant}, .columns = {Axis::kDevice}};
  const std::string text = render(comparison, layout, CompareFormat::kText);
  EXPECT_NE(text.find("  variant              NVIDIA H200                NVIDIA L4\n"
                      "  naive    800.0 ns +-0.25 % 1.00x  600.0 ns +-0.25 % 1.00x\n"
                      "  tiled    400.0 ns +-0.25 % 2.00x  300.0 ns +-0.25 % 2.00x\n"),
            std::string::npos)
      << text;
}

}  // namespace
}  // namespace mla_bench
