// A program run to its end, with a limit: what a gate starts to measure afresh.
#pragma once

#include <optional>
#include <span>
#include <string>

namespace mla_bench {

struct ChildEnd {
  int code = 0;  // its exit code; 128 + n where signal n ended it
  bool timed_out = false;
  std::string errors;  // the last line that it wrote on stderr

  // "ended with code 2: unknown option"; "was killed after 600 s".
  std::string in_words(double timeout_s) const;
};

// Runs `program` with `arguments` (its own name apart), stdin and stdout closed to /dev/null, and
// waits. It is killed after `timeout_s`, and if this process ends. Throws Interrupted (see
// worker_process.hpp) once a signal asks this process to end, and UsageError where `program` cannot
// be started.
ChildEnd run_child(const std::string& program, std::span<const std::string> arguments,
                   double timeout_s);

}  // namespace mla_bench
