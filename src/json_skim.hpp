// JSON text without the parts that a reader does not need. Nine tenths of a document are lists of
// numbers, which a JSON parser turns into values at some 50 MB/s; passing over them takes a tenth
// of that time, so that a hundred documents are compared within a second.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mla_bench {

struct SkimRules {
  std::span<const std::string_view> dropped;  // keys whose members are left out
  std::span<const std::string_view> emptied;  // keys whose lists become [] and objects {}
  // Lists of numbers inside lists of objects, {"rounds": [{"samples_ns": [1, 2]}, ...]}: lists
  // under `group` become [], and of their objects the lists under `numbers` are returned.
  std::string_view group;
  std::string_view numbers;
};

using NumberLists = std::vector<std::vector<double>>;

struct SkimmedJson {
  std::string text;                 // what is left; JSON if the whole was
  std::vector<NumberLists> groups;  // in their order, a list of numbers for each object
};

// What is passed over is looked at no further than finding its end. Throws UsageError that names
// `origin` and the byte where a group is no list of objects with a list of finite numbers each, or
// a value has no end.
SkimmedJson skim_json(std::string_view text, const SkimRules& rules, std::string_view origin);

}  // namespace mla_bench
