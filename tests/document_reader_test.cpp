// Documents back from text: whole, or without what only few need, and others' refused.
#include "document_reader.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "errors.hpp"
#include "example_result.hpp"
#include "json.hpp"
#include "output_file.hpp"

namespace mla_bench {
namespace {

Document example_document() {
  Device gpu;
  gpu.backend = Backend::kCuda;
  gpu.name = "NVIDIA H200";
  gpu.uuid = "GPU-1";
  Document document;
  document.argv = {"mla-bench", "--variant", "all"};
  document.started_at = "2026-11-29T16:03:00Z";
  document.finished_at = "2026-11-29T16:04:00Z";
  document.devices.push_back({.device = gpu, .setup = GpuSetup{.driver = "580"}});
  Result other = example_result();
  other.cell.variant = "tiled";
  document.cells = {example_result(), other};
  return document;
}

std::string refusal(const std::string& text, Detail detail) {
  try {
    document_from_text(text, "a.json", detail);
  } catch (const UsageError& error) {
    const std::string message = error.what();
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    EXPECT_NE(message.find("'a.json'"), std::string::npos) << message;
    return message;
  }
  ADD_FAILURE() << "taken";
  return "";
}

TEST(DocumentReader, ADocumentComesBackWhole) {
  const Document document = example_document();
  const RecordedDocument back = document_from_text(to_text(document), "a.json", Detail::kAll);
  EXPECT_EQ(back.path, "a.json");
  EXPECT_EQ(back.document.argv, document.argv);
  EXPECT_EQ(back.document.started_at, document.started_at);
  EXPECT_EQ(back.document.devices[0].setup->driver, "580");
  ASSERT_EQ(back.document.cells.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(to_json(back.document.cells[i]).dump(), to_json(document.cells[i]).dump());
  }
}

// Without its resolution, which only the raw times of passes tell.
Json summary_of(const Result& result) {
  Json summary = to_json(result)["summary"];
  if (summary.is_object()) {
    summary.erase("resolution_ns");
  }
  return summary;
}

TEST(DocumentReader, TimesAreTheSameWithoutTheRest) {
  const std::string text = to_text(example_document());
  const RecordedDocument all = document_from_text(text, "a.json", Detail::kAll);
  const RecordedDocument times = document_from_text(text, "a.json", Detail::kTimes);
  ASSERT_EQ(times.document.cells.size(), all.document.cells.size());
  for (std::size_t i = 0; i < all.document.cells.size(); ++i) {
    const Result& whole = all.document.cells[i];
    const Result& part = times.document.cells[i];
    EXPECT_EQ(part.cell.id(), whole.cell.id());
    EXPECT_EQ(part.status, whole.status);
    EXPECT_EQ(round_medians_ns(part.rounds), round_medians_ns(whole.rounds));
    EXPECT_EQ(summary_of(part), summary_of(whole));
    EXPECT_FALSE(part.check);
    EXPECT_TRUE(part.rounds[0].long_ns.empty());
  }
}

TEST(DocumentReader, ReadsEveryCommittedDocumentBothWays) {
  int documents = 0;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(MLA_BENCH_RESULTS "/h200")) {
    const std::filesystem::path folder = entry.path().parent_path().filename();
    // What other programs wrote lies in folders of its own.
    if (entry.path().extension() != ".json" || folder == "ncu" || folder == "peers" ||
        folder == "mutants" || folder == "rates") {
      continue;
    }
    const std::vector<std::string> paths{entry.path().string()};
    const Document all = read_documents(paths, Detail::kAll).front().document;
    const Document times = read_documents(paths, Detail::kTimes).front().document;
    ASSERT_EQ(all.cells.size(), times.cells.size());
    for (std::size_t i = 0; i < all.cells.size(); ++i) {
      EXPECT_EQ(summary_of(all.cells[i]), summary_of(times.cells[i]));
    }
    ++documents;
  }
  EXPECT_GE(documents, 26);
}

TEST(DocumentReader, SaysWhatIsWrong) {
  for (const Detail detail : {Detail::kAll, Detail::kTimes}) {
    const auto says = [detail](auto change, const std::string& part) {
      Document document = example_document();
      change(document);
      const std::string message = refusal(to_text(document), detail);
      EXPECT_NE(message.find(part), std::string::npos) << message;
    };
    says([](Document& d) { d.cells[1] = d.cells[0]; }, "stands there twice");
    says([](Document& d) { d.cells.clear(); }, "no cells");
    says([](Document& d) { d.cells[1].rounds[0].samples_ns[1] = -3; }, "cells[1]: round 1");
    says([](Document& d) { d.cells[1].rounds.clear(); }, "without a time");
    says([](Document& d) { d.cells[0].cell.variant = "Tiled!"; }, "'Tiled!'");
    says([](Document& d) { d.cells[0].cell.problem.rank = -1; }, "size");
    says([](Document& d) { d.cells[0].cell.device = "GPU-2"; }, "GPU-2");
    says([](Document& d) { d.started_at = "2026-11-29 16:03:00Z"; }, "16:03");
  }
}

// Rows, columns and bytes are formed of them: a stranger's may not pass 64 bits.
TEST(DocumentReader, SizesWhoseProductsPass64BitsAreRefused) {
  const std::string text = to_text(example_document());
  for (const std::string key : {"batch", "seq", "model_dim", "rank", "kv_heads", "head_dim"}) {
    for (const std::int64_t size : {std::int64_t{1} << 62, std::int64_t{1} << 57}) {
      Json json = parse_json(text, "text");
      json["cells"][1]["problem"][key] = size;
      for (const Detail detail : {Detail::kAll, Detail::kTimes}) {
        const std::string message = refusal(json.dump(), detail);
        EXPECT_NE(message.find("cells[1]: the sizes are too large"), message.npos) << message;
      }
    }
  }
}

TEST(DocumentReader, ATruncatedDocumentIsRefusedWhereverItEnds) {
  const std::string whole = to_text(example_document());
  for (std::size_t size = 0; size + 2 < whole.size(); size += 7) {
    for (const Detail detail : {Detail::kAll, Detail::kTimes}) {
      refusal(whole.substr(0, size), detail);
    }
  }
}

// Samples are taken out of the text and put back by their order: one elsewhere must not shift it.
TEST(DocumentReader, RoundsElsewhereAreRefused) {
  std::string text = to_text(example_document());
  text.insert(1, "\"rounds\": [{\"samples_ns\": [1, 2]}],");
  EXPECT_NE(refusal(text, Detail::kTimes).find("rounds"), std::string::npos);
}

TEST(DocumentReader, NamesTheFileAtFault) {
  const std::vector<std::string> paths{MLA_BENCH_RESULTS "/schema.json", "/nowhere/b.json"};
  try {
    read_documents(paths, Detail::kTimes);
    ADD_FAILURE() << "taken";
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("schema.json"), std::string::npos);
  }
}

TEST(DocumentReader, OnlySelftestReadsWhatItPlanted) {
  const std::string path = testing::TempDir() + "mla-bench-planted.json";
  for (const bool is_copy : {true, false}) {
    Document document = example_document();
    if (is_copy) {
      document.cells.front().cell.copy = 1;
    } else {
      document.cells.front().cell.planted = {.kind = PlantKind::kWork, .slow_down = 0.05};
    }
    write_whole_file(path, to_text(document));
    const std::span<const std::string> paths(&path, 1);
    for (const Detail detail : {Detail::kAll, Detail::kTimes}) {
      EXPECT_THROW(read_documents(paths, detail), UsageError);
      EXPECT_EQ(read_documents(paths, detail, Origin::kSelftest).size(), 1u);
    }
  }
}

}  // namespace
}  // namespace mla_bench
