// Files of this program's own between runs: a convenience, so nothing here fails.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace mla_bench {

// $XDG_CACHE_HOME/mla-bench/<name>.json (or ~/.cache/mla-bench), what is no letter or digit of the
// name as a hyphen. Empty where the environment names no home.
std::string cache_file(std::string_view name);

// The whole file; nothing where it cannot be read.
std::optional<std::string> text_of_cache(const std::string& path);

// Of times such as "2026-11-29T16:03:00Z"; far below 0 where `then` is none.
double seconds_between(const std::string& then, const std::string& now);

}  // namespace mla_bench
