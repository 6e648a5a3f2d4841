#include "console.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>

#include "errors.hpp"

namespace mla_bench {
namespace {

// Columns of the terminal on stderr; the customary width where it does not say.
std::size_t terminal_width() {
  constexpr std::size_t kCustomary = 80;
  winsize size = {};
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : kCustomary;
}

}  // namespace

void open_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) < 0) {
      // The lowest free number, so this one.
      open("/dev/null", stream == STDERR_FILENO ? O_WRONLY : O_RDONLY);
    }
  }
}

void print_result(std::string_view text) {
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw UsageError(std::string("cannot write to stdout: ") + strerror(errno));
  }
}

void print_result_after(const std::function<void()>& write_files, std::string_view text) {
  std::optional<UsageError> unwritten;
  try {
    write_files();
  } catch (const UsageError& error) {
    unwritten = error;
  }
  print_result(text);
  if (unwritten) {
    throw *unwritten;
  }
}

void print_note(std::string_view text) {
  std::fprintf(stderr, "mla-bench: %.*s\n", static_cast<int>(text.size()), text.data());
}

ProgressLine::ProgressLine(bool wanted) : active_(wanted && isatty(STDERR_FILENO) == 1) {}

ProgressLine::~ProgressLine() {
  clear();
}

void ProgressLine::show(const std::string& text) {
  if (active_) {
    // A line that wraps cannot be taken back.
    std::fprintf(stderr, "\r\x1b[K%s", text.substr(0, terminal_width() - 1).c_str());
    shown_ = true;
  }
}

void ProgressLine::clear() {
  if (shown_) {
    std::fprintf(stderr, "\r\x1b[K");
    shown_ = false;
  }
}

}  // namespace mla_bench
