// What a full disk is to a write: a limit on the size of files.
#pragma once

#include <sys/resource.h>

#include <cerrno>
#include <csignal>
#include <system_error>

namespace mla_bench {

// As long as it lives, no file of this process grows beyond 1000 bytes.
class FullDisk {
 public:
  FullDisk() {
    ask(getrlimit(RLIMIT_FSIZE, &before_));
    rlimit small = before_;
    small.rlim_cur = 1000;
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
    ask(setrlimit(RLIMIT_FSIZE, &small));
  }
  ~FullDisk() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  static void ask(int status) {
    if (status != 0) {
      throw std::system_error(errno, std::generic_category(), "a limit on the size of files");
    }
  }

  rlimit before_ = {};
  void (*handler_)(int) = nullptr;
};

}  // namespace mla_bench
