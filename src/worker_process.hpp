// The caller's side of a worker: starts it, asks it, and replaces it when it dies.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <exception>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

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

// What may be asked of a worker for a cell that it serves, and how the answer is read: as Session
// has them.
template <typename Value>
struct Question {
  Json request;
  Value (*read)(const Json&);
};

Question<Result> open_question(const Cell& cell, const Effort& effort,
                               const std::optional<std::string>& save);
Question<Round> measure_question(const Cell& cell);
Question<Result> close_question(const Cell& cell);
Question<Referee> witness_question(const Cell& cell);

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

  // A question in two halves, for a caller that asks several workers at the same time: one answer
  // is received for each request sent. Throw as above.
  void send(const Json& request);
  Json receive();

  // Ends the process; the next question starts a fresh one.
  void retire();

  // Number of the process that the next request goes to: a caller sees by it that open cells were
  // lost with an earlier one.
  int generation() const { return pid_ < 0 ? generation_ + 1 : generation_; }

 private:
  friend std::size_t first_to_answer(std::span<WorkerProcess* const> asked);

  template <typename Value>
  Value ask(const Question<Value>& question) {
    return question.read(ask(question.request));
  }
  Json ask(const Json& request);
  void start();
  std::string reap();

  double timeout_s_;
  pid_t pid_ = -1;
  int generation_ = 0;  // processes started
  Channel channel_{-1};
  std::chrono::steady_clock::time_point deadline_;  // of the answer
};

// Waits until one of these workers, each of which was sent a request, has answered, died or run out
// of time, and returns its place. An interrupt ends the wait too, as `receive` then says.
std::size_t first_to_answer(std::span<WorkerProcess* const> asked);

}  // namespace mla_bench
