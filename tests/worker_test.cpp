// Real worker processes, which this program starts of itself: each way to end one is told apart,
// and the next request is served by a new one.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>

#include "channel.hpp"
#include "errors.hpp"
#include "json.hpp"
#include "late_faults.hpp"
#include "processes.hpp"
#include "text.hpp"
#include "worker.hpp"
#include "worker_process.hpp"

namespace mla_bench {
namespace {

using std::chrono::steady_clock;

constexpr double kPatience_s = 60;  // for workers that are not meant to hang

Cell cell_of(const std::string& variant) {
  Cell cell;
  cell.variant = variant;
  cell.device = find_cpu_device().uuid;
  cell.threads = 1;
  cell.problem = {.batch = 1, .seq = 3, .model_dim = 4, .rank = 2, .kv_heads = 1, .head_dim = 4};
  return cell;
}

Result open(WorkerProcess& worker, const std::string& variant) {
  return worker.open(cell_of(variant), {.warmup_s = 0}, std::nullopt);
}

// Why the worker was lost over this cell; fails the test where it was not.
std::string loss(WorkerProcess& worker, const std::string& variant) {
  const LateFaults late_faults;
  try {
    if (open(worker, variant).status == Status::kPassed) {
      late_faults.come();
      worker.measure(cell_of(variant));
    }
  } catch (const WorkerLost& lost) {
    return lost.what();
  }
  ADD_FAILURE() << variant << " was survived";
  return "";
}

#define EXPECT_SAYS(message, part) \
  EXPECT_NE((message).find(part), std::string::npos) << "it says: " << (message)

TEST(WorkerProcess, OneServesAllWhileAllGoesWell) {
  WorkerProcess worker(kPatience_s);
  EXPECT_TRUE(children_of(getpid()).empty()) << "none is started before it is asked";
  const DeviceList devices = worker.devices();
  ASSERT_FALSE(devices.devices.empty());
  EXPECT_EQ(devices.devices.back().uuid, find_cpu_device().uuid);
  ASSERT_EQ(open(worker, "right").status, Status::kPassed);
  EXPECT_GE(worker.measure(cell_of("right")).samples_ns.size(), 3u);
  EXPECT_EQ(worker.close(cell_of("right")).status, Status::kPassed);
  EXPECT_EQ(open(worker, "writes_nan").status, Status::kIncorrect);
  EXPECT_EQ(open(worker, "no_memory").status, Status::kSkipped);
  EXPECT_EQ(open(worker, "right").status, Status::kPassed);
  EXPECT_EQ(worker.generation(), 1);
}

TEST(WorkerProcess, ACrashNamesItsSignal) {
  WorkerProcess worker(kPatience_s);
  EXPECT_SAYS(loss(worker, "crashes"), "ended by signal 11 (Segmentation fault)");
  EXPECT_SAYS(loss(worker, "throws_no_exception"), "ended by signal 6");
}

TEST(WorkerProcess, AnExitNamesItsCode) {
  WorkerProcess worker(kPatience_s);
  EXPECT_SAYS(loss(worker, "exits"), "ended with code 7");
}

TEST(WorkerProcess, AnExceptionNamesItsReason) {
  WorkerProcess worker(kPatience_s);
  EXPECT_EQ(loss(worker, "throws"), "the launch was refused");
  EXPECT_EQ(loss(worker, "throws_later"), "the launch was refused later");
  EXPECT_EQ(worker.generation(), 3) << "a device error may have broken the process";
}

TEST(WorkerProcess, AHangIsKilledAfterTheTimeout) {
  WorkerProcess worker(1);
  for (const std::string variant : {"hangs", "hangs_later"}) {
    const auto start = steady_clock::now();
    const std::string reason = loss(worker, variant);
    const std::chrono::duration<double> elapsed = steady_clock::now() - start;
    EXPECT_SAYS(reason, "no answer for 1 s");
    EXPECT_SAYS(reason, "--timeout");
    EXPECT_GE(elapsed.count(), 1);
    EXPECT_LT(elapsed.count(), 15);
    EXPECT_TRUE(children_of(getpid()).empty()) << "the hung one is gone";
  }
}

TEST(WorkerProcess, ANewOneServesAfterEachLoss) {
  WorkerProcess worker(kPatience_s);
  int generation = 1;
  for (const std::string variant : {"crashes", "crashes_later", "exits", "throws"}) {
    EXPECT_NE(loss(worker, variant), "");
    EXPECT_EQ(worker.generation(), ++generation) << "told before the next one is started";
    ASSERT_EQ(open(worker, "right").status, Status::kPassed) << variant;
    EXPECT_EQ(worker.generation(), generation);
    EXPECT_GE(worker.measure(cell_of("right")).samples_ns.size(), 3u);
    EXPECT_EQ(worker.close(cell_of("right")).status, Status::kPassed);
  }
}

TEST(WorkerProcess, ACellOpenInALostWorkerIsNotOpenInTheNext) {
  WorkerProcess worker(kPatience_s);
  ASSERT_EQ(open(worker, "right").status, Status::kPassed);
  EXPECT_NE(loss(worker, "crashes"), "");
  EXPECT_THROW(worker.measure(cell_of("right")), WorkerLost);
}

TEST(WorkerProcess, ABadRequestCostsNoWorker) {
  WorkerProcess worker(kPatience_s);
  Cell cell = cell_of("right");
  cell.inputs.file = "/nowhere/at/all.safetensors";
  EXPECT_THROW(worker.open(cell, {.warmup_s = 0}, std::nullopt), UsageError);
  EXPECT_THROW(open(worker, "unheard_of"), UsageError);
  EXPECT_EQ(open(worker, "right").status, Status::kPassed);
  EXPECT_EQ(worker.generation(), 1);
}

TEST(WorkerProcess, OneKilledFromOutsideIsLostAndReplaced) {
  WorkerProcess worker(kPatience_s);
  for (int i = 0; i < 5; ++i) {
    ASSERT_EQ(open(worker, "right").status, Status::kPassed);
    const std::vector<pid_t> children = children_of(getpid());
    ASSERT_EQ(children.size(), 1u);
    kill(children[0], SIGKILL);
    EXPECT_SAYS(loss(worker, "right"), "ended by signal 9");
  }
}

TEST(WorkerProcess, GoesWithItsOwner) {
  {
    WorkerProcess worker(kPatience_s);
    worker.devices();
    EXPECT_EQ(children_of(getpid()).size(), 1u);
  }
  EXPECT_TRUE(children_of(getpid()).empty());
}

TEST(WorkerProcess, DoesNotOutliveAKilledCaller) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t caller = fork();
  if (caller == 0) {
    WorkerProcess worker(kPatience_s);
    worker.devices();
    (void)!write(ready[1], "x", 1);
    open(worker, "hangs");
    _exit(0);
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  const std::vector<pid_t> workers = children_of(caller);
  ASSERT_EQ(workers.size(), 1u);
  usleep(200'000);  // an idle worker would see its channel close; this one hangs
  kill(caller, SIGKILL);
  waitpid(caller, nullptr, 0);
  EXPECT_TRUE(comes_true([&] { return !is_alive(workers[0]); }));
  kill(workers[0], SIGKILL);
  ::close(ready[0]);
  ::close(ready[1]);
}

// Google Benchmark reads its flags' defaults from these when a process starts.
TEST(WorkerProcess, TheEnvironmentChangesNoRound) {
  const auto samples_with = [](bool set) {
    for (const auto& [name, value] : {std::pair{"BENCHMARK_REPETITIONS", "2"},
                                      {"BENCHMARK_FILTER", "nothing"},
                                      {"BENCHMARK_DRY_RUN", "true"},
                                      {"BENCHMARK_REPORT_AGGREGATES_ONLY", "true"},
                                      {"BENCHMARK_LIST_TESTS", "true"},
                                      {"BENCHMARK_OUT", "/nowhere/at/all"},
                                      {"BENCHMARK_FORMAT", "unheard of"}}) {
      set ? setenv(name, value, 1) : unsetenv(name);
    }
    WorkerProcess worker(kPatience_s);
    EXPECT_EQ(open(worker, "is_slow").status, Status::kPassed);
    const Round round = worker.measure(cell_of("is_slow"));
    EXPECT_EQ(round.samples_ns.size(), round.long_ns.size());
    return round.samples_ns.size();
  };
  const std::size_t with = samples_with(true);
  EXPECT_EQ(with, samples_with(false));
  EXPECT_GE(with, 3u);
}

// The protocol from the other side: what a caller may send, and that the end of it is the end.
TEST(Worker, AnswersEachRequestAndEndsWithItsChannel) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    ::close(ends[0]);
    _exit(serve(ends[1]));
  }
  ::close(ends[1]);
  const auto answer = [](Channel& channel, const std::string& request) {
    EXPECT_TRUE(channel.send(request));
    return parse_json(channel.receive(std::chrono::duration<double>(kPatience_s)).line, "it");
  };
  {
    Channel channel(ends[0]);
    EXPECT_TRUE(answer(channel, R"({"do": "devices"})")["ok"].contains("no_cuda"));
    EXPECT_EQ(answer(channel, "no JSON")["kind"], "usage");
    EXPECT_EQ(answer(channel, R"({"do": "open", "cell": {}, "warmup_s": 0})")["kind"], "usage");
    EXPECT_TRUE(answer(channel, R"({"do": "devices"})").contains("ok")) << "still there";
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(Worker, EndsAfterAFailure) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    ::close(ends[0]);
    _exit(serve(ends[1]));
  }
  ::close(ends[1]);
  Channel channel(ends[0]);
  const std::chrono::duration<double> patience(kPatience_s);
  EXPECT_TRUE(channel.send(R"({"do": "measure", "id": "none"})"));
  EXPECT_EQ(parse_json(channel.receive(patience).line, "it")["kind"], "failed");
  EXPECT_EQ(channel.receive(patience).outcome, Channel::Outcome::kClosed);
  waitpid(child, nullptr, 0);
}

}  // namespace
}  // namespace mla_bench

// Workers are started from this very program.
int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "worker") {
    return mla_bench::serve(static_cast<int>(mla_bench::parse_integer(argv[2]).value_or(-1)));
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
