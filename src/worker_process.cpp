#include "worker_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "errors.hpp"
#include "interrupt.hpp"
#include "text.hpp"

namespace mla_bench {
namespace {

using Clock = std::chrono::steady_clock;

// Google Benchmark takes defaults of its flags from the environment; a run must depend on our plan
// alone.
std::vector<char*> environment_for_worker() {
  std::vector<char*> kept;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!std::string_view(*entry).starts_with("BENCHMARK_")) {
      kept.push_back(*entry);
    }
  }
  kept.push_back(nullptr);
  return kept;
}

}  // namespace

Question<Result> open_question(const Cell& cell, const Effort& effort,
                               const std::optional<std::string>& save) {
  Json request{{"do", "open"},
               {"cell", to_json(cell)},
               {"warmup_s", effort.warmup_s},
               {"samples", effort.samples},
               {"times_only", effort.times_only},
               {"measure_plants", effort.measure_plants}};
  if (save) {
    request["save"] = *save;
  }
  return {.request = std::move(request), .read = result_from_json};
}

Question<Round> measure_question(const Cell& cell) {
  return {.request = {{"do", "measure"}, {"id", cell.id()}}, .read = round_from_json};
}

Question<Result> close_question(const Cell& cell) {
  return {.request = {{"do", "close"}, {"id", cell.id()}}, .read = result_from_json};
}

Question<Referee> witness_question(const Cell& cell) {
  return {.request = {{"do", "witness"}, {"id", cell.id()}}, .read = referee_from_json};
}

WorkerProcess::WorkerProcess(double timeout_s) : timeout_s_(timeout_s) {}

WorkerProcess::~WorkerProcess() {
  retire();
}

void WorkerProcess::retire() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    reap();
  }
}

void WorkerProcess::start() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    throw WorkerLost(std::string("no worker process: socketpair: ") + strerror(errno));
  }
  std::vector<char*> environment = environment_for_worker();
  std::string descriptor = std::to_string(ends[1]);
  std::string name = "mla-bench";
  std::string command = "worker";
  char* arguments[] = {name.data(), command.data(), descriptor.data(), nullptr};
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    // Only calls that are safe between fork and exec. The worker must not outlive its caller.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == parent) {
      fcntl(ends[1], F_SETFD, 0);
      execve("/proc/self/exe", arguments, environment.data());
    }
    _exit(127);
  }
  ::close(ends[1]);
  channel_ = Channel(ends[0]);
  if (pid < 0) {
    throw WorkerLost(std::string("no worker process: fork: ") + strerror(errno));
  }
  pid_ = pid;
  ++generation_;
}

// Waits for the process to be gone, and says how it ended.
std::string WorkerProcess::reap() {
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  channel_ = Channel(-1);
  if (WIFSIGNALED(status)) {
    return "its process was ended by signal " + std::to_string(WTERMSIG(status)) + " (" +
           strsignal(WTERMSIG(status)) + ")";
  }
  return "its process ended with code " + std::to_string(WEXITSTATUS(status));
}

Json WorkerProcess::ask(const Json& request) {
  send(request);
  return receive();
}

void WorkerProcess::send(const Json& request) {
  if (pid_ < 0) {
    start();
  }
  deadline_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                 std::chrono::duration<double>(timeout_s_));
  if (!channel_.send(request.dump())) {
    throw WorkerLost(reap());
  }
}

Json WorkerProcess::receive() {
  const Channel::Received received =
      channel_.receive(std::max(Clock::duration::zero(), deadline_ - Clock::now()));
  switch (received.outcome) {
    case Channel::Outcome::kLine:
      break;
    case Channel::Outcome::kClosed:
      throw WorkerLost(reap());
    case Channel::Outcome::kInterrupted:
      kill(pid_, SIGKILL);
      reap();
      throw Interrupted();
    case Channel::Outcome::kTimeout:
      kill(pid_, SIGKILL);
      reap();
      throw WorkerLost("no answer for " + fixed(timeout_s_, 0) +
                       " s, so its process was killed (--timeout sets the limit)");
  }
  const Json reply = parse_json(received.line, "the worker's answer");
  if (reply.contains("ok")) {
    return reply.at("ok");
  }
  const std::string error = reply.at("error");
  if (reply.at("kind") == "usage") {
    throw UsageError(error);
  }
  reap();  // the worker ends itself after a failure
  throw WorkerLost(error);
}

DeviceList WorkerProcess::devices() {
  const Json reply = ask(Json{{"do", "devices"}});
  DeviceList devices;
  devices.no_cuda = reply.at("no_cuda");
  devices.cuda_runtime = reply.at("cuda_runtime");
  devices.cuda_driver = reply.at("cuda_driver");
  devices.cuda_architectures = reply.at("cuda_architectures");
  for (const Json& device : reply.at("devices")) {
    devices.devices.push_back(device_from_json(device));
  }
  return devices;
}

std::size_t first_to_answer(std::span<WorkerProcess* const> asked) {
  std::vector<pollfd> waited;
  auto deadline = Clock::time_point::max();
  std::size_t soonest = 0;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    waited.push_back({.fd = asked[i]->channel_.descriptor(), .events = POLLIN, .revents = 0});
    if (asked[i]->deadline_ < deadline) {
      deadline = asked[i]->deadline_;
      soonest = i;
    }
  }
  while (true) {
    const InterruptsHeld held;
    const auto left = deadline - Clock::now();
    if (interrupted() != 0 || left <= Clock::duration::zero()) {
      return soonest;
    }
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
    const auto nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(left - seconds);
    const timespec timeout{.tv_sec = seconds.count(), .tv_nsec = nanoseconds.count()};
    if (ppoll(waited.data(), waited.size(), &timeout, held.wait_mask()) > 0) {
      const auto answered = std::find_if(waited.begin(), waited.end(),
                                         [](const pollfd& entry) { return entry.revents != 0; });
      return static_cast<std::size_t>(answered - waited.begin());
    }
  }
}

std::optional<GpuSetup> WorkerProcess::setup(const Device& device) {
  const Json reply = ask({{"do", "setup"}, {"device", to_json(device)}});
  return reply.is_null() ? std::nullopt : std::optional(setup_from_json(reply));
}

Calibration WorkerProcess::calibrate(const Device& device) {
  return calibration_from_json(ask({{"do", "calibrate"}, {"device", to_json(device)}}));
}

Result WorkerProcess::open(const Cell& cell, const Effort& effort,
                           const std::optional<std::string>& save) {
  return ask(open_question(cell, effort, save));
}

Round WorkerProcess::measure(const Cell& cell) {
  return ask(measure_question(cell));
}

Result WorkerProcess::close(const Cell& cell) {
  return ask(close_question(cell));
}

std::optional<Anchors> WorkerProcess::anchors() {
  const Json reply = ask({{"do", "anchors"}});
  return reply.is_null() ? std::nullopt : std::optional(anchors_from_json(reply));
}

Referee WorkerProcess::witness(const Cell& cell) {
  return ask(witness_question(cell));
}

Result WorkerProcess::profile(const Cell& cell) {
  return result_from_json(ask({{"do", "profile"}, {"cell", to_json(cell)}}));
}

}  // namespace mla_bench
