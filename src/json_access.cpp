#include "json_access.hpp"

#include <algorithm>

namespace mla_bench {
namespace {

// A document nests 6 deep; a stranger's file may not nest deeper than this.
constexpr int kDeepest = 64;

// How deep brackets nest outside strings: in JSON, how deep its values do. Told beforehand, since
// asking at every value while parsing costs as much again.
int depth_of(std::string_view text) {
  int depth = 0;
  int deepest = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      i += c == '\\' ? 1 : 0;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      deepest = std::max(deepest, ++depth);
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return deepest;
}

}  // namespace

bool is_utf8(const std::string& text) {
  try {
    Json(text).dump();
    return true;
  } catch (const nlohmann::json::type_error&) {
    return false;
  }
}

std::string utf8_text(const std::string& text) {
  return Json::parse(Json(text).dump(-1, ' ', false, Json::error_handler_t::replace))
      .get<std::string>();
}

Json parse_json(std::string_view text, std::string_view origin) {
  if (depth_of(text) > kDeepest) {
    throw UsageError(std::string(origin) + " is nested deeper than a document of mla-bench");
  }
  try {
    return Json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    throw UsageError(std::string(origin) + " is not JSON: error at byte " +
                     std::to_string(error.byte));
  } catch (const nlohmann::json::exception&) {
    throw UsageError(std::string(origin) + " holds a number beyond the range of double");
  }
}

}  // namespace mla_bench
