// Results in other tools' forms: which cells stand there, under which names, and what is escaped.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cell_key.hpp"
#include "errors.hpp"
#include "example_result.hpp"
#include "export_formats.hpp"
#include "json_access.hpp"

namespace mla_bench {
namespace {

RecordedDocument document_of(const std::vector<Result>& cells) {
  RecordedDocument recorded{.path = "a.json", .version = "0.1.0", .commit = "0123456789abcdef"};
  recorded.document.started_at = "2026-11-29T16:03:00Z";
  Device gpu;
  gpu.backend = Backend::kCuda;
  gpu.uuid = "GPU-1";
  gpu.name = "NVIDIA H200";
  recorded.document.devices.push_back({.device = gpu});
  recorded.document.cells = cells;
  return recorded;
}

// One passed, and one of every status without a time to show.
std::vector<Result> every_status() {
  std::vector<Result> cells{example_result()};
  const std::vector<std::pair<std::string, Status>> others{{"naive", Status::kIncorrect},
                                                           {"tiled", Status::kFailed},
                                                           {"cublas", Status::kSkipped},
                                                           {"cublaslt", Status::kUntrusted}};
  for (const auto& [variant, status] : others) {
    Result result = example_result();
    result.cell.variant = variant;
    result.status = status;
    result.reason = "because of <1> & \"2\"";
    cells.push_back(result);
  }
  return cells;
}

std::string exported(ExportFormat format, const std::vector<RecordedDocument>& documents) {
  return export_text(format, documents, {});
}

TEST(Export, FormsThatGoByNamesHaveOnlyTimesToTrust) {
  const std::vector documents{document_of(every_status())};
  const std::string name = export_name(key_of(example_result().cell));
  const auto json_of = [&](ExportFormat format) {
    return parse_json(exported(format, documents), "the export");
  };
  EXPECT_EQ(json_of(ExportFormat::kGbenchCi)["benchmarks"].size(), 1u);
  EXPECT_EQ(json_of(ExportFormat::kGha).size(), 1u);
  EXPECT_EQ(json_of(ExportFormat::kHyperfine)["results"].size(), 1u);
  const Json bmf = json_of(ExportFormat::kBmf);
  ASSERT_EQ(bmf.size(), 1u);
  EXPECT_EQ(bmf.begin().key(), name);
  // Two rounds, and four aggregates.
  const Json gbench = json_of(ExportFormat::kGbench);
  ASSERT_EQ(gbench["benchmarks"].size(), 6u);
  EXPECT_EQ(gbench["benchmarks"][1]["real_time"], 4100.0);
  EXPECT_EQ(gbench["benchmarks"][2]["name"], name + "_mean");
  const std::string left_out = gbench["context"]["mla_bench_left_out"];
  for (const std::string variant : {"/naive/", "/tiled/", "/cublas/", "/cublaslt/"}) {
    EXPECT_NE(left_out.find(variant), std::string::npos);
  }
}

TEST(Export, RoundsAloneWithoutAggregates) {
  const std::vector documents{document_of({example_result()})};
  const std::string text = export_text(ExportFormat::kGbench, documents, {.aggregates = false});
  EXPECT_EQ(parse_json(text, "the export")["benchmarks"].size(), 2u);
}

TEST(Export, ANameStandsOnceWhereNamesTellCellsApart) {
  std::vector documents{document_of({example_result()}), document_of({example_result()})};
  documents[1].path = "b.json";
  for (const ExportFormat format : kExportFormats) {
    if (leaves_out_untimed(format)) {
      EXPECT_THROW(exported(format, documents), UsageError) << name_of(format);
    } else {
      EXPECT_NO_THROW(exported(format, documents)) << name_of(format);
    }
  }
}

TEST(Export, JunitCountsEveryCellOnce) {
  const std::string text = exported(ExportFormat::kJunit, {document_of(every_status())});
  EXPECT_NE(text.find("tests=\"5\" failures=\"1\" errors=\"1\" skipped=\"2\""), std::string::npos)
      << text;
  EXPECT_NE(text.find("<failure message=\"because of &lt;1&gt; &amp; &quot;2&quot;\""),
            std::string::npos);
}

TEST(Export, NoTimeOfAWrongOutputInAnyForm) {
  std::vector<Result> cells = every_status();
  cells.erase(cells.begin());
  cells.pop_back();  // the untrusted one, whose time CSV shows beside its status
  const std::vector documents{document_of(cells)};
  for (const ExportFormat format : kExportFormats) {
    EXPECT_EQ(exported(format, documents).find("4055"), std::string::npos) << name_of(format);
  }
  EXPECT_NE(exported(ExportFormat::kCsv, {document_of({example_result()})}).find("4055"),
            std::string::npos);
}

}  // namespace
}  // namespace mla_bench
