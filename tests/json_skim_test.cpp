// JSON without what its reader does not need.
#include "json_skim.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "errors.hpp"
#include "json_access.hpp"

namespace mla_bench {
namespace {

constexpr std::array<std::string_view, 2> kDropped{"drop", "also"};
constexpr std::array<std::string_view, 1> kEmptied{"empty"};

SkimmedJson skim(std::string_view text) {
  return skim_json(text,
                   {.dropped = kDropped, .emptied = kEmptied, .group = "group", .numbers = "lift"},
                   "the text");
}

TEST(JsonSkim, EmptiesListsAndObjects) {
  EXPECT_EQ(skim(R"({"a": 1, "empty": [1, [2]], "b": {"empty" : {"x": "}"}}})").text,
            R"({"a": 1, "empty": [], "b": {"empty" : {}}})");
  EXPECT_EQ(skim(R"({"empty": 5})").text, R"({"empty": 5})");
}

TEST(JsonSkim, LeavesMembersOut) {
  EXPECT_EQ(skim(R"({"a": 1, "drop": [1, 2], "also" : {"x": [3, {"y": "]}"}]}, "b": "drop"})").text,
            R"({"a": 1, "b": "drop"})");
  EXPECT_EQ(skim(R"({"drop": 5, "also": "te,\"xt", "c": [true]})").text, R"({"c": [true]})");
  EXPECT_EQ(skim(R"({"a": 1, "drop": true, "also": null})").text, R"({"a": 1})");
  EXPECT_EQ(skim("{\"a\": 1,\n \"also\": -1e5\n}").text, "{\"a\": 1\n}");
  EXPECT_EQ(skim(R"([{"drop": {}}, {"drop": "]"}, {"b": {"also": 1}, "drop": 2}])").text,
            R"([{}, {}, {"b": {}}])");
  EXPECT_EQ(skim(R"({"drop": [[1], ["]", "\"]"]], "b": 1})").text, R"({"b": 1})");
  EXPECT_EQ(skim("").text, "");
}

TEST(JsonSkim, AKeyIsNoValueAndNoPartOfAString) {
  EXPECT_EQ(skim(R"(["drop", [1]])").text, R"(["drop", [1]])");
  EXPECT_EQ(skim(R"({"a": "\"drop\": [1]"})").text, R"({"a": "\"drop\": [1]"})");
  EXPECT_EQ(skim(R"({"a\\": [1], "drop": [1]})").text, R"({"a\\": [1]})");
}

TEST(JsonSkim, LiftsNumbersOutOfGroupsInTheirOrder) {
  const SkimmedJson skimmed = skim(
      R"([{"group": [{"lift": [1, -2.5e3 , 0.125], "x": {"y": ["]"]}}, {"z": [3], "lift":[]}], "a": 1},)"
      R"( {"group" : []}, {"b": {"group": [{"lift": [7]}]}, "lift": [8]}])");
  EXPECT_EQ(skimmed.text,
            R"([{"group": [], "a": 1}, {"group" : []}, {"b": {"group": []}, "lift": [8]}])");
  EXPECT_EQ(skimmed.groups, (std::vector<NumberLists>{{{1, -2500, 0.125}, {}}, {}, {{7}}}));
}

TEST(JsonSkim, RefusesToLiftWhatIsNoListOfFiniteNumbers) {
  for (const char* value :
       {"5", "null", "{}", "[1 2]", "[1,]", "[,1]", "[NaN]", "[inf]", "[-inf]", "[\"1\"]", "[[1]]",
        "[1e999]", "[.5]", "[5.]", "[+1]", "[-]", "[1", "["}) {
    const std::string text = "{\"group\": [{\"lift\": " + std::string(value) + "}]}";
    EXPECT_THROW(skim(text), UsageError) << value;
  }
  for (const char* value : {"5", "null", "", "[", "[{", "[{}]", "[{\"lift\": [1]}, {}]",
                            "[{\"lift\": [1], \"lift\": [1]}]"}) {
    EXPECT_THROW(skim("{\"group\": " + std::string(value)), UsageError) << value;
  }
}

// Whatever is cut off: no reading beyond the end, and nothing that a parser takes for whole.
TEST(JsonSkim, ATruncatedTextIsRefusedOrStaysTruncated) {
  const std::string whole =
      R"({"a": "x\"y", "drop": [1, 2], "also": {"k": "v"}, "group": [{"lift": [1.5, 2]}], "empty": {"e": 1}, "b": [{"drop": 1}]})";
  for (std::size_t size = 0; size < whole.size(); ++size) {
    try {
      const std::string text = skim(whole.substr(0, size)).text;
      EXPECT_THROW(parse_json(text, "the text"), UsageError) << size;
    } catch (const UsageError&) {
    }
  }
}

}  // namespace
}  // namespace mla_bench
