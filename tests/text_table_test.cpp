// Tables for terminals, Markdown and spreadsheets, and what a stranger's text cannot do there.
#include "text_table.hpp"

#include <gtest/gtest.h>

namespace mla_bench {
namespace {

TextTable table_of(const std::string& text, const std::string& number) {
  return {.columns = {{"name"}, {"value", false}}, .rows = {{text, number}, {"b", "12345678"}}};
}

TEST(TextTable, AlignsByCharactersNotBytes) {
  EXPECT_EQ(aligned(table_of("\xc3\xa9t\xc3\xa9", "1")),
            "  name     value\n"
            "  \xc3\xa9t\xc3\xa9          1\n"
            "  b     12345678\n");
}

TEST(TextTable, ShowsControlCharactersAsText) {
  const TextTable table = table_of("\x1b[31m\n", "1");
  for (const std::string& text : {aligned(table), markdown(table), csv(table)}) {
    EXPECT_EQ(text.find('\x1b'), std::string::npos);
    EXPECT_NE(text.find("x1b"), std::string::npos);
  }
}

TEST(TextTable, MarkdownIsEscaped) {
  EXPECT_EQ(markdown(table_of("a|b_c", "-1")),
            "| name | value |\n|---|--:|\n| a\\|b\\_c | -1 |\n| b | 12345678 |\n");
  EXPECT_EQ(markdown_text("<b>&@you `x` [l](u)"),
            "&#60;b&#62;&#38;&#64;you \\`x\\` \\[l\\]\\(u\\)");
}

TEST(TextTable, CsvIsQuotedAndHoldsNoFormula) {
  EXPECT_EQ(csv(table_of("a,\"b\"", "-1")), "name,value\r\n\"a,\"\"b\"\"\",-1\r\nb,12345678\r\n");
  for (const std::string start : {"=", "+", "-", "@"}) {
    EXPECT_EQ(csv(table_of(start + "A1", "1")),
              "name,value\r\n'" + start + "A1,1\r\nb,12345678\r\n");
  }
}

}  // namespace
}  // namespace mla_bench
