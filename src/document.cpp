#include "document.hpp"

#include <sys/utsname.h>

#include <algorithm>
#include <ctime>

#include "build_facts.hpp"
#include "host.hpp"
#include "json.hpp"

namespace mla_bench {
namespace {

constexpr std::size_t kShortCommit = 10;

Json tool_json() {
  const BuildFacts facts = build_facts();
  return {{"name", "mla-bench"},           {"version", facts.version},
          {"commit", facts.commit},        {"dirty", facts.dirty},
          {"compiler", facts.compiler},    {"cuda_compiler", facts.cuda_compiler},
          {"flags", facts.flags},          {"cuda_architectures", facts.cuda_architectures},
          {"build_type", facts.build_type}};
}

// The machine without its name: documents are published.
Json host_json(const std::vector<DocumentDevice>& devices) {
  utsname system = {};
  uname(&system);
  Json json{{"system", system.sysname}, {"kernel", system.release}, {"machine", system.machine}};
  for (const auto& [device, setup, calibration] : devices) {
    if (device.backend == Backend::kCpu) {
      json["cpu"] = device.name;
      json["threads"] = device.threads;
      json["memory_bytes"] = device.memory;
    }
  }
  json["affinity"] = allowed_cpus();
  const std::string governor = frequency_governor();
  json["frequency_governor"] = governor.empty() ? Json(nullptr) : Json(governor);
  return json;
}

}  // namespace

std::vector<std::string> starts_of(const Document& document) {
  return document.merged_from.empty() ? std::vector{document.started_at} : document.merged_from;
}

std::string to_text(const Document& document) {
  Json json{
      {"schema", kDocumentSchema},
      {"tool", tool_json()},
      {"argv", document.argv},
      {"started_at", document.started_at},
      {"finished_at", document.finished_at.empty() ? Json(nullptr) : Json(document.finished_at)},
      {"ended_by_signal", document.ended_by_signal},
      {"host", host_json(document.devices)},
      {"cuda", {{"runtime", document.cuda_runtime}, {"driver", document.cuda_driver}}},
      {"devices", Json::array()},
      {"cells", Json::array()}};
  if (!document.merged_from.empty()) {
    json["merged_from"] = document.merged_from;
  }
  for (const auto& [device, setup, calibration] : document.devices) {
    Json entry = to_json(device);
    if (setup) {
      entry["setup"] = to_json(*setup);
    }
    if (calibration) {
      entry["calibration"] = to_json(*calibration);
    }
    json["devices"].push_back(std::move(entry));
  }
  for (const Result& result : document.cells) {
    json["cells"].push_back(to_json(result));
  }
  // argv may hold bytes that are not UTF-8; they are replaced, not fatal.
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  gmtime_r(&now, &parts);
  char text[] = "0000-00-00T00:00:00Z";
  strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

std::string default_document_path(const std::string& started_at) {
  std::string time = started_at.substr(0, started_at.size() - 1);
  std::erase(time, ':');
  const std::string_view commit = build_facts().commit;
  return "results/local/" + time + "-" +
         (commit.empty() ? "unknown" : std::string(commit.substr(0, kShortCommit))) + ".json";
}

}  // namespace mla_bench
