// The kinds of failure that end a command. A wrong answer is none of them: it is a result.
#pragma once

#include <stdexcept>

namespace mla_bench {

// Exit codes of every command; first_of (gate.hpp) says which counts where several apply.
enum class ExitCode : int {
  kFine = 0,
  kRegression = 1,
  kUsage = 2,
  kIncorrect = 3,
  kInconclusive = 4,
  kIncomparable = 5,
  kUnfit = 6,
  kNothingRan = 77,
};

// A bad argument or file. One line that names the option or file and says what would work.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The device asked for is not here: ends with kNothingRan.
class NoDeviceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A device or host allocation that was refused. The message names the bytes.
class OutOfMemoryError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace mla_bench
