#include "calibration_cache.hpp"

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "build_facts.hpp"
#include "document.hpp"
#include "errors.hpp"
#include "json.hpp"

namespace mla_bench {
namespace {

constexpr double kFreshSeconds = 24 * 3600;

// Empty where the environment names no home.
std::string cache_path(const CalibrationKey& key) {
  std::string root;
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache == '/') {
    root = cache;
  } else if (const char* home = std::getenv("HOME"); home != nullptr && *home == '/') {
    root = std::string(home) + "/.cache";
  } else {
    return "";
  }
  std::string name = key.uuid;
  std::replace_if(
      name.begin(), name.end(),
      [](char c) { return (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z'); },
      '-');
  return root + "/mla-bench/" + name + ".json";
}

// Seconds since 1970 of "2026-11-29T16:03:00Z"; 0 for anything else, which is never fresh.
double seconds_of(const std::string& time) {
  std::tm parts = {};
  const char* end = strptime(time.c_str(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return end != nullptr && *end == 0 ? static_cast<double>(timegm(&parts)) : 0;
}

// What a kept calibration must have been measured by.
Json signature(const CalibrationKey& key) {
  const BuildFacts facts = build_facts();
  return {{"driver", key.driver}, {"version", facts.version}, {"commit", facts.commit}};
}

}  // namespace

std::optional<Calibration> cached_calibration(const CalibrationKey& key, const std::string& now) {
  const std::string path = cache_path(key);
  std::error_code error;
  std::ifstream file(path, std::ios::binary);
  if (!std::filesystem::is_regular_file(path, error) || !file) {  // a folder opens, but throws
    return std::nullopt;
  }
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  try {
    const Json json = parse_json(text, path);
    if (!json.is_object() || !json.contains("key") || json.at("key") != signature(key) ||
        !json.contains("calibration")) {
      return std::nullopt;
    }
    const Calibration calibration = calibration_from_json(json.at("calibration"));
    const double age_s = seconds_of(now) - seconds_of(calibration.measured_at);
    return age_s >= 0 && age_s < kFreshSeconds ? std::optional(calibration) : std::nullopt;
  } catch (const UsageError&) {
    return std::nullopt;  // damaged, or of another version
  }
}

void cache_calibration(const CalibrationKey& key, const Calibration& calibration) {
  const std::string path = cache_path(key);
  if (path.empty()) {
    return;
  }
  const Json json{{"key", signature(key)}, {"calibration", to_json(calibration)}};
  try {
    write_whole_file(path, json.dump(1) + "\n");
  } catch (const UsageError&) {
    // a cache is a convenience
  }
}

}  // namespace mla_bench
