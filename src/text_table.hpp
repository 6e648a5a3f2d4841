// A table of words and numbers, and its renderings for terminals, Markdown and spreadsheets. What
// a stranger's text could do to its reader there is made harmless here.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace mla_bench {

struct TextTable {
  struct Column {
    std::string title;
    bool is_text = true;  // left-aligned; a number is right-aligned
  };
  std::vector<Column> columns;
  std::vector<std::vector<std::string>> rows;  // each as long as `columns`
};

// Characters, not bytes.
std::size_t width_of(const std::string& text);

// Columns padded to their widest entry, two blanks before each, a line a row; the titles first.
std::string aligned(const TextTable& table);

// A pipe table of GitHub's Markdown.
std::string markdown(const TextTable& table);

// RFC 4180: CRLF, quotes where needed. Text that a spreadsheet would run as a formula gets a quote
// mark in front.
std::string csv(const TextTable& table);

// `text` as Markdown that shows exactly these characters, on one line and inside a table.
std::string markdown_text(const std::string& text);

}  // namespace mla_bench
