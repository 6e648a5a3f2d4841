// JSON text without the parts that a reader does not need. Nine tenths of a document are lists of
// numbers, which a JSON parser turns into values at some 50 MB/s; passing over them takes a tenth
// of that time, so that a hundred documents are compared within a second.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mla_bench {

// Lists of numbers inside lists of objects: {"rounds": [{"samples_ns": [1, 2]}, ...]}.
struct LiftedKeys {
  std::string_view group;    // "rounds"
  std::string_view numbers;  // "samples_ns"
};

using NumberLists = std::vector<std::vector<double>>;

struct SkimmedJson {
  std::string text;                 // what is left; JSON if the whole was
  std::vector<NumberLists> groups;  // in their order, a list of numbers for each object
};

// Lists under a key of `dropped` become [], objects null; other values there stay. Lists under
// `lifted.group` become [] as well, and of their objects the numbers are returned. What is passed
// over is looked at no further than finding its end. Throws UsageError that names `origin` and the
// byte where a group is no list of objects with a list of finite numbers each, or a value has no
// end.
SkimmedJson skim_json(std::string_view text, std::span<const std::string_view> dropped,
                      const LiftedKeys& lifted, std::string_view origin);

}  // namespace mla_bench
