// The caller's side of a worker: starts it, asks it, and replaces it when it dies.
#pragma once

#include <sys/types.h>

#include <exception>
#include <optional>
#include <stdexcept>
#include <string>

#include "channel.hpp"
#include "executor.hpp"
#include "json.hpp"
#include "measure.hpp"
#include "options.hpp"
#include "result.hpp"

namespace mla_bench {

// A cell ended its worker: a crash, a hang, a device error. `what` says which, in one line.
class WorkerLost : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// SIGINT or another signal arrived while waiting for an answer.
class Interrupted : public std::exception {};

class WorkerProcess {
 public:
  explicit WorkerProcess(double timeout_s);
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  // What the worker's device layer sees.
  DeviceList devices();

  // As Session has them. Throw UsageError, WorkerLost or Interrupted.
  std::optional<GpuSetup> setup(const Device& device);
  Calibration calibrate(const Device& device);
  Result open(const Cell& cell, const Effort& effort, const std::optional<std::string>& save);
  Round measure(const Cell& cell);
  Result close(const Cell& cell);
  std::optional<Anchors> anchors();
  Referee witness(const Cell& cell);
  Result profile(const Cell& cell);

  // Ends the process; the next question starts a fresh one.
  void retire();

  // Number of the process that the next request goes to: a caller sees by it that open cells were
  // lost with an earlier one.
  int generation() const { return pid_ < 0 ? generation_ + 1 : generation_; }

 private:
  Json ask(const Json& request);
  void start();
  std::string reap();

  double timeout_s_;
  pid_t pid_ = -1;
  int generation_ = 0;  // processes started
  Channel channel_{-1};
};

}  // namespace mla_bench
