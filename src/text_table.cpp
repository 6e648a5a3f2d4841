#include "text_table.hpp"

#include <algorithm>
#include <string_view>

#include "text.hpp"

namespace mla_bench {
namespace {

std::string csv_field(const std::string& text, bool is_text) {
  std::string field = printable(text);
  if (is_text && !field.empty() &&
      std::string_view("=+-@").find(field[0]) != std::string_view::npos) {
    field.insert(field.begin(), '\'');
  }
  if (field.find_first_of(",\"") == std::string::npos) {
    return field;
  }
  std::string quoted = "\"";
  for (const char c : field) {
    quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  }
  return quoted + "\"";
}

std::vector<std::string> titles_of(const TextTable& table) {
  std::vector<std::string> titles;
  for (const TextTable::Column& column : table.columns) {
    titles.push_back(column.title);
  }
  return titles;
}

}  // namespace

// A UTF-8 character has one byte that is no continuation.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

std::string aligned(const TextTable& table) {
  std::vector<std::vector<std::string>> lines{titles_of(table)};
  lines.insert(lines.end(), table.rows.begin(), table.rows.end());
  std::vector<std::size_t> widths(table.columns.size(), 0);
  for (std::vector<std::string>& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) {
      line[i] = printable(line[i]);
      widths[i] = std::max(widths[i], width_of(line[i]));
    }
  }
  std::string text;
  for (const std::vector<std::string>& line : lines) {
    std::string shown;
    for (std::size_t i = 0; i < line.size(); ++i) {
      const std::string padding(widths[i] - width_of(line[i]), ' ');
      shown += "  " + (table.columns[i].is_text ? line[i] + padding : padding + line[i]);
    }
    shown.erase(shown.find_last_not_of(' ') + 1);
    text += shown + "\n";
  }
  return text;
}

std::string markdown_text(const std::string& text) {
  std::string shown;
  for (const char c : printable(text)) {
    if (c == '<' || c == '>' || c == '&' || c == '@') {  // GitHub turns @name into a notification
      shown += "&#" + std::to_string(static_cast<int>(c)) + ";";
    } else {
      const bool is_markup = std::string_view("\\`*_{}[]()#+!|~").find(c) != std::string_view::npos;
      shown += is_markup ? std::string{'\\', c} : std::string(1, c);
    }
  }
  return shown;
}

std::string markdown(const TextTable& table) {
  const auto line_of = [](const std::vector<std::string>& entries) {
    std::string line = "|";
    for (const std::string& entry : entries) {
      line += " " + markdown_text(entry) + " |";
    }
    return line + "\n";
  };
  std::string text = line_of(titles_of(table)) + "|";
  for (const TextTable::Column& column : table.columns) {
    text += column.is_text ? "---|" : "--:|";
  }
  text += "\n";
  for (const std::vector<std::string>& row : table.rows) {
    text += line_of(row);
  }
  return text;
}

std::string csv(const TextTable& table) {
  std::string text;
  const auto add_line = [&text](const std::vector<std::string>& fields, const auto& is_text) {
    for (std::size_t i = 0; i < fields.size(); ++i) {
      text += (i == 0 ? "" : ",") + csv_field(fields[i], is_text(i));
    }
    text += "\r\n";
  };
  add_line(titles_of(table), [](std::size_t) { return true; });
  for (const std::vector<std::string>& row : table.rows) {
    add_line(row, [&table](std::size_t i) { return table.columns[i].is_text; });
  }
  return text;
}

}  // namespace mla_bench
