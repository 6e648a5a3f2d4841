// What the program says to people: results, warnings, and one line of progress on a terminal.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace mla_bench {

// Fills in stdin, stdout and stderr where the caller closed them: the next file or socket would
// get their number, and the program's texts with it. Writing to such a stdout fails.
void open_standard_streams();

// Writes and flushes. Throws UsageError where stdout does not take it (closed, full disk).
void print_result(std::string_view text);

// A result that goes into files too: those first, and then stdout in any case, so that neither is
// lost with the other. Throws UsageError where one of them was not written.
void print_result_after(const std::function<void()>& write_files, std::string_view text);

// One line on stderr.
void print_note(std::string_view text);

// A line on stderr that replaces itself; silent unless stderr is a terminal.
class ProgressLine {
 public:
  explicit ProgressLine(bool wanted);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  void show(const std::string& text);
  void clear();

 private:
  bool active_;
  bool shown_ = false;
};

}  // namespace mla_bench
