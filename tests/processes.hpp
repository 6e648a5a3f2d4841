// Other processes as the tests need them: found by their parent, and waited for with a deadline.
#pragma once

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "text.hpp"

namespace mla_bench {

// Parent and state ('Z': dead, not yet waited for) of a process; a parent of 0 where it is gone.
struct ProcessState {
  pid_t parent = 0;
  char state = 'X';
};

inline ProcessState state_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  // A process that goes between the opening and the reading is an error of the reading, which a
  // stream's own functions take as the end; its buffer's iterators throw.
  std::string text;
  std::getline(file, text, '\0');
  // "pid (name) state parent ...", and a name may hold anything.
  const std::size_t end = text.rfind(") ");
  if (end == std::string::npos) {
    return {};
  }
  const std::vector<std::string> fields = split(std::string_view(text).substr(end + 2), ' ');
  return {.parent = static_cast<pid_t>(parse_integer(fields.at(1)).value_or(0)),
          .state = fields.at(0).at(0)};
}

inline bool is_alive(pid_t pid) {
  const ProcessState state = state_of(pid);
  return state.parent != 0 && state.state != 'Z';
}

inline std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> children;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const auto pid = parse_integer(entry.path().filename().string());
    if (pid && state_of(static_cast<pid_t>(*pid)).parent == parent) {
      children.push_back(static_cast<pid_t>(*pid));
    }
  }
  return children;
}

// Whether `condition` comes true within so many seconds.
template <typename Condition>
bool comes_true(const Condition& condition, double seconds = 20) {
  const auto start = std::chrono::steady_clock::now();
  while (!condition()) {
    if (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() > seconds) {
      return false;
    }
    usleep(1000);
  }
  return true;
}

}  // namespace mla_bench
