#include "child_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <vector>

#include "errors.hpp"
#include "interrupt.hpp"
#include "text.hpp"
#include "worker_process.hpp"

namespace mla_bench {
namespace {

// What is kept of stderr: its end.
constexpr std::size_t kKept = 4096;

std::string last_line(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) {
    text.pop_back();
  }
  const std::size_t start = text.rfind('\n');
  return printable(start == std::string::npos ? text : text.substr(start + 1));
}

int reap(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFSIGNALED(status) ? kSignalBase + WTERMSIG(status) : WEXITSTATUS(status);
}

UsageError cannot_start(const std::string& program, int error) {
  return UsageError("cannot run '" + printable(program) + "': " + strerror(error));
}

}  // namespace

std::string ChildEnd::in_words(double timeout_s) const {
  if (timed_out) {
    return "was killed after " + fixed(timeout_s, 0) + " s (--timeout sets the limit)";
  }
  std::string words = code > kSignalBase
                          ? "was ended by signal " + std::to_string(code - kSignalBase) + " (" +
                                strsignal(code - kSignalBase) + ")"
                          : "ended with code " + std::to_string(code);
  return words + (errors.empty() ? "" : ": " + errors);
}

ChildEnd run_child(const std::string& program, std::span<const std::string> arguments,
                   double timeout_s) {
  std::vector<std::string> words{"mla-bench"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) {
    argv.push_back(word.data());
  }
  argv.push_back(nullptr);
  int told[2];     // its stderr
  int refused[2];  // errno where exec failed; closed by exec where it did not
  if (pipe2(told, O_CLOEXEC) != 0) {
    throw cannot_start(program, errno);
  }
  if (pipe2(refused, O_CLOEXEC) != 0) {
    const int error = errno;
    close(told[0]);
    close(told[1]);
    throw cannot_start(program, error);
  }
  const pid_t parent = getpid();
  const InterruptsHeld held;
  const pid_t pid = fork();
  if (pid == 0) {
    // Only calls that are safe between fork and exec.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpgid(0, 0);  // so that what it starts can be killed with it
    sigprocmask(SIG_SETMASK, held.wait_mask(), nullptr);
    const int nothing = open("/dev/null", O_RDWR);
    if (getppid() == parent && nothing >= 0) {
      dup2(nothing, STDIN_FILENO);
      dup2(nothing, STDOUT_FILENO);
      dup2(told[1], STDERR_FILENO);
      execv(program.c_str(), argv.data());
    }
    const int error = errno;
    [[maybe_unused]] const ssize_t sent = write(refused[1], &error, sizeof error);
    _exit(127);
  }
  const int fork_error = errno;
  close(told[1]);
  close(refused[1]);
  int error = 0;
  const bool has_refused =
      pid > 0 && read(refused[0], &error, sizeof error) == static_cast<ssize_t>(sizeof error);
  close(refused[0]);
  if (pid < 0 || has_refused) {
    close(told[0]);
    if (pid > 0) {
      reap(pid);
    }
    throw cannot_start(program, pid < 0 ? fork_error : error);
  }

  // Its end is awaited by a descriptor of its own: whoever inherited its stderr may outlive it.
  const int process = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(timeout_s);
  ChildEnd end;
  std::string text;
  const auto drain = [&] {
    std::array<char, kKept> buffer;
    const ssize_t count = read(told[0], buffer.data(), buffer.size());
    if (count > 0) {
      text.append(buffer.data(), static_cast<std::size_t>(count));
      text.erase(0, text.size() > kKept ? text.size() - kKept : 0);
    }
    return count > 0;
  };
  bool has_stderr = true;
  bool is_asked_to_end = false;
  while (true) {
    const std::chrono::duration<double> left = deadline - std::chrono::steady_clock::now();
    is_asked_to_end = interrupted() != 0;
    end.timed_out = left.count() <= 0;
    if (process < 0 || is_asked_to_end || end.timed_out) {
      kill(-pid, SIGKILL);
      break;
    }
    const double seconds = std::min(left.count(), 1e6);
    const timespec limit{.tv_sec = static_cast<time_t>(seconds),
                         .tv_nsec = static_cast<long>((seconds - std::floor(seconds)) * 1e9)};
    std::array<pollfd, 2> waits{
        pollfd{.fd = process, .events = POLLIN, .revents = 0},
        pollfd{.fd = has_stderr ? told[0] : -1, .events = POLLIN, .revents = 0}};
    if (ppoll(waits.data(), waits.size(), &limit, held.wait_mask()) <= 0) {
      continue;
    }
    if (waits[1].revents != 0) {
      has_stderr = drain();
    } else if (waits[0].revents != 0) {
      break;
    }
  }
  end.code = reap(pid);
  close(told[0]);
  if (process >= 0) {
    close(process);
  } else {
    throw cannot_start(program, ENOSYS);
  }
  if (is_asked_to_end) {
    throw Interrupted();
  }
  end.errors = last_line(text);
  return end;
}

}  // namespace mla_bench
