#include "cache_file.hpp"

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>

namespace mla_bench {
namespace {

// Seconds since 1970.
std::optional<double> seconds_of(const std::string& time) {
  std::tm parts = {};
  const char* end = strptime(time.c_str(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return end != nullptr && *end == 0 ? std::optional(static_cast<double>(timegm(&parts)))
                                     : std::nullopt;
}

}  // namespace

std::string cache_file(std::string_view name) {
  std::string root;
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache == '/') {
    root = cache;
  } else if (const char* home = std::getenv("HOME"); home != nullptr && *home == '/') {
    root = std::string(home) + "/.cache";
  } else {
    return "";
  }
  std::string plain(name);
  std::replace_if(
      plain.begin(), plain.end(),
      [](char c) { return (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z'); },
      '-');
  return root + "/mla-bench/" + plain + ".json";
}

std::optional<std::string> text_of_cache(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {  // a folder opens and throws, a FIFO waits
    return std::nullopt;
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return std::nullopt;
  }
  return std::string{std::istreambuf_iterator<char>(file), {}};
}

double seconds_between(const std::string& then, const std::string& now) {
  const std::optional<double> from = seconds_of(then);
  const std::optional<double> to = seconds_of(now);
  return from && to ? *to - *from : -std::numeric_limits<double>::infinity();
}

}  // namespace mla_bench
