#include "calibration_cache.hpp"

#include "build_facts.hpp"
#include "cache_file.hpp"
#include "errors.hpp"
#include "json.hpp"
#include "output_file.hpp"

namespace mla_bench {
namespace {

constexpr double kFreshSeconds = 24 * 3600;

// What a kept calibration must have been measured by.
Json signature(const CalibrationKey& key) {
  const BuildFacts facts = build_facts();
  return {{"driver", key.driver},
          {"version", facts.version},
          {"commit", facts.commit},
          {"cuda_architectures", facts.cuda_architectures}};
}

}  // namespace

std::optional<Calibration> cached_calibration(const CalibrationKey& key, const std::string& now) {
  const std::string path = cache_file(key.uuid);
  const std::optional<std::string> text = text_of_cache(path);
  if (!text) {
    return std::nullopt;
  }
  try {
    const Json json = parse_json(*text, path);
    if (!json.is_object() || !json.contains("key") || json.at("key") != signature(key) ||
        !json.contains("calibration")) {
      return std::nullopt;
    }
    const Calibration calibration = calibration_from_json(json.at("calibration"));
    const double age_s = seconds_between(calibration.measured_at, now);
    return age_s >= 0 && age_s < kFreshSeconds ? std::optional(calibration) : std::nullopt;
  } catch (const UsageError&) {
    return std::nullopt;  // damaged, or of another version
  }
}

void cache_calibration(const CalibrationKey& key, const Calibration& calibration) {
  const std::string path = cache_file(key.uuid);
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
