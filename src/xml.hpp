// Text as XML, for the JUnit reports.
#pragma once

#include <string>
#include <string_view>

namespace mla_bench {

// For element text and attributes; what XML cannot hold is shown in another way.
std::string xml_text(const std::string& text);

// ` name="value"`
std::string xml_attribute(std::string_view name, const std::string& value);

}  // namespace mla_bench
