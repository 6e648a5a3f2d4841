#include "environment.hpp"

#include "text.hpp"

namespace mla_bench {

bool ThrottleReasons::protects() const {
  return hardware_slowdown || software_thermal || hardware_thermal || power_brake;
}

std::string ThrottleReasons::in_words() const {
  std::vector<std::string> words;
  const auto add = [&words](bool holds, const char* what) {
    if (holds) {
      words.emplace_back(what);
    }
  };
  add(software_power_cap, "power cap");
  add(hardware_slowdown, "slowdown by hardware");
  add(software_thermal, "thermal slowdown by software");
  add(hardware_thermal, "thermal slowdown by hardware");
  add(power_brake, "power brake");
  return join(words, ", ");
}

}  // namespace mla_bench
