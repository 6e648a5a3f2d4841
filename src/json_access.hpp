// JSON text to a value tree, and typed members of it: every misfit is a UsageError that names the
// key. What the members mean is json.hpp's business.
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "errors.hpp"
#include "text.hpp"

namespace mla_bench {

using Json = nlohmann::ordered_json;

// Whether JSON can hold these bytes.
bool is_utf8(const std::string& text);

// `text` with the bytes that are not UTF-8 replaced by U+FFFD.
std::string utf8_text(const std::string& text);

// Parses text from a file or another process: nesting is limited, since copying or printing a
// deeply nested value overflows the stack. Throws UsageError that names `origin` and the place.
Json parse_json(std::string_view text, std::string_view origin);

// NaN and infinities have no JSON number: null stands for them.
inline Json finite(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

// The value under `key`, or null where the key is absent or holds null.
inline const Json* find_member(const Json& json, const char* key) {
  if (!json.is_object()) {
    return nullptr;
  }
  const auto found = json.find(key);
  return found == json.end() || found->is_null() ? nullptr : &*found;
}

inline const Json& member(const Json& json, const char* key) {
  const auto found = json.is_object() ? json.find(key) : json.end();
  if (!json.is_object() || found == json.end()) {
    throw UsageError("key '" + std::string(key) + "' is missing");
  }
  return *found;
}

template <typename Value>
Value get(const Json& json, const char* key) {
  const Json& value = member(json, key);
  try {
    if constexpr (std::is_same_v<Value, bool>) {
      return value.get<bool>();
    } else if constexpr (std::is_integral_v<Value>) {
      if (!value.is_number_integer()) {
        throw UsageError("key '" + std::string(key) + "' is not a whole number");
      }
      const bool fits = value.is_number_unsigned()
                            ? std::in_range<Value>(value.get<std::uint64_t>())
                            : std::in_range<Value>(value.get<std::int64_t>());
      if (!fits) {
        throw UsageError("key '" + std::string(key) + "' is out of range");
      }
      return value.get<Value>();
    } else if constexpr (std::is_floating_point_v<Value>) {
      if (!value.is_number()) {
        throw UsageError("key '" + std::string(key) + "' is not a finite number");
      }
      return value.get<Value>();
    } else {
      return value.get<Value>();
    }
  } catch (const nlohmann::json::exception&) {
    throw UsageError("key '" + std::string(key) + "' has the wrong type");
  }
}

// An optional key: absent or null.
template <typename Value>
std::optional<Value> get_optional(const Json& json, const char* key) {
  return find_member(json, key) != nullptr ? std::optional(get<Value>(json, key)) : std::nullopt;
}

// The value whose name stands under `key`.
template <typename Value>
Value get_named(const Json& json, const char* key, std::span<const Value> valid) {
  const auto name = get<std::string>(json, key);
  for (const Value value : valid) {
    if (name_of(value) == name) {
      return value;
    }
  }
  throw UsageError("key '" + std::string(key) + "' has the unknown value " + in_quotes(name));
}

// Keeps a key only where there is a value.
template <typename Value>
void put(Json& json, const char* key, const std::optional<Value>& value) {
  if (value) {
    json[key] = *value;
  }
}

}  // namespace mla_bench
