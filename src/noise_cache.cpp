#include "noise_cache.hpp"

#include <filesystem>
#include <optional>

#include "cache_file.hpp"
#include "errors.hpp"
#include "json_access.hpp"
#include "output_file.hpp"

namespace mla_bench {
namespace {

constexpr double kFreshSeconds = 30.0 * 24 * 3600;
constexpr std::string_view kPrefix = "noise-";

// {"cells": {NAME: {"deviation": 0.001, "measured_at": TIME}}}; empty for a damaged file.
Json cells_of(const std::string& path) {
  const std::optional<std::string> text = text_of_cache(path);
  if (text) {
    try {
      const Json json = parse_json(*text, path);
      if (const Json* cells = find_member(json, "cells"); cells != nullptr && cells->is_object()) {
        return *cells;
      }
    } catch (const UsageError&) {
      // as none
    }
  }
  return Json::object();
}

}  // namespace

bool keep_noise(std::span<const CellNoise> noise, const std::string& now) {
  std::map<std::string, Json> files;
  for (const CellNoise& cell : noise) {
    const std::string path = cache_file(std::string(kPrefix) + cell.device);
    if (path.empty()) {
      return false;
    }
    Json& cells = files.try_emplace(path, cells_of(path)).first->second;
    cells[cell.cell] = {{"deviation", cell.deviation}, {"measured_at", now}};
  }
  for (const auto& [path, cells] : files) {
    try {
      write_whole_file(path, Json{{"cells", cells}}.dump(1) + "\n");
    } catch (const UsageError&) {
      return false;  // and no more: a cache is a convenience
    }
  }
  return true;
}

std::map<std::string, double> kept_noise(const std::string& now) {
  namespace fs = std::filesystem;
  std::map<std::string, double> deviations;
  const std::string example = cache_file(kPrefix);
  std::error_code error;
  for (fs::directory_iterator file(fs::path(example).parent_path(), error), end;
       !error && file != end; file.increment(error)) {
    if (!file->path().filename().string().starts_with(kPrefix)) {
      continue;
    }
    const Json cells = cells_of(file->path().string());
    for (const auto& [name, entry] : cells.items()) {
      try {
        const auto deviation = get<double>(entry, "deviation");
        const double age_s = seconds_between(get<std::string>(entry, "measured_at"), now);
        if (deviation >= 0 && age_s >= 0 && age_s < kFreshSeconds) {
          deviations[name] = deviation;
        }
      } catch (const UsageError&) {
        // an entry of another version
      }
    }
  }
  return deviations;
}

}  // namespace mla_bench
