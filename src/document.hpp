// The document of a run, "mla-bench/1": everything needed to judge it and to repeat it.
// results/schema.json is its JSON Schema.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "calibration.hpp"
#include "environment.hpp"
#include "result.hpp"

namespace mla_bench {

inline constexpr std::string_view kDocumentSchema = "mla-bench/1";

// A device of the run, how it is set up, and what it can do at best.
struct DocumentDevice {
  Device device;
  std::optional<GpuSetup> setup;
  std::optional<Calibration> calibration;
};

struct Document {
  std::vector<std::string> argv;
  std::string started_at;  // ISO 8601, UTC
  // When each of several runs began whose measurements are here; empty for one run.
  std::vector<std::string> merged_from;
  std::string finished_at;   // empty while the run lasts
  int ended_by_signal = 0;   // 0: it was not
  std::string cuda_runtime;  // of this build; empty without CUDA
  std::string cuda_driver;   // the newest that the driver supports
  std::vector<DocumentDevice> devices;
  std::vector<Result> cells;
};

// The starts of the runs whose measurements it holds.
std::vector<std::string> starts_of(const Document& document);

std::string to_text(const Document& document);

// Now, as ISO 8601 in UTC: "2026-11-29T16:03:00Z".
std::string utc_now();

// What a run without --json calls its document: results/local/<date>T<time>-<commit>.json, unless
// another of the same second does.
std::string default_document_path(const std::string& started_at);

}  // namespace mla_bench
