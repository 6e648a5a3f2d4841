#include "xml.hpp"

#include "json_access.hpp"
#include "text.hpp"

namespace mla_bench {

// XML 1.0 forbids control characters and U+FFFE and U+FFFF even as
// references; bytes that are not UTF-8 can come from a path.
std::string xml_text(const std::string& text) {
  std::string shown;
  const std::string plain = utf8_text(printable(text));
  for (std::size_t i = 0; i < plain.size(); ++i) {
    const std::string_view next = std::string_view(plain).substr(i, 3);
    if (next == "\xef\xbf\xbe" || next == "\xef\xbf\xbf") {
      shown += "\xef\xbf\xbd";  // U+FFFD, the replacement character
      i += 2;
      continue;
    }
    switch (plain[i]) {
      case '&':
        shown += "&amp;";
        break;
      case '<':
        shown += "&lt;";
        break;
      case '>':
        shown += "&gt;";
        break;
      case '"':
        shown += "&quot;";
        break;
      default:
        shown += plain[i];
    }
  }
  return shown;
}

std::string xml_attribute(std::string_view name, const std::string& value) {
  return " " + std::string(name) + "=\"" + xml_text(value) + "\"";
}

}  // namespace mla_bench
