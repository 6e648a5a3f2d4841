// Lets the faults of fault_registry.cpp named *_later come when a test says so, in whatever process
// they run: they look for a file whose name the processes inherit.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace mla_bench {

inline constexpr const char* kLateFaults = "MLA_BENCH_TEST_LATE_FAULTS";

class LateFaults {
 public:
  LateFaults()
      : path_(std::filesystem::temp_directory_path() /
              ("mla-bench-late-faults-" + std::to_string(getpid()))) {
    std::filesystem::remove(path_);
    setenv(kLateFaults, path_.c_str(), 1);
  }
  LateFaults(const LateFaults&) = delete;
  LateFaults& operator=(const LateFaults&) = delete;
  // The name stays: a process started after this may meet the next one.
  ~LateFaults() { std::filesystem::remove(path_); }

  // From now on.
  void come() const { std::ofstream(path_) << "now"; }

 private:
  std::filesystem::path path_;
};

}  // namespace mla_bench
