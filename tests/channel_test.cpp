// Lines over a socket: whole, in order, with an end, a deadline and a signal each told apart.
#include "channel.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "interrupt.hpp"

namespace mla_bench {
namespace {

using std::chrono::steady_clock;
using Outcome = Channel::Outcome;
using Seconds = std::chrono::duration<double>;

std::pair<Channel, Channel> make_channels() {
  int ends[2] = {-1, -1};
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  return {Channel(ends[0]), Channel(ends[1])};
}

TEST(Channel, DeliversLinesInOrder) {
  auto [here, there] = make_channels();
  ASSERT_TRUE(here.send("one"));
  ASSERT_TRUE(here.send(""));
  ASSERT_TRUE(here.send("three"));
  for (const std::string line : {"one", "", "three"}) {
    const Channel::Received received = there.receive(Seconds(5));
    EXPECT_EQ(received.outcome, Outcome::kLine);
    EXPECT_EQ(received.line, line);
  }
}

TEST(Channel, WaitsForTheWholeLine) {
  auto [here, there] = make_channels();
  const std::string half = "half";
  ASSERT_EQ(write(here.descriptor(), half.data(), half.size()), 4);
  EXPECT_EQ(there.receive(Seconds(0.02)).outcome, Outcome::kTimeout);
  ASSERT_TRUE(here.send(" and half"));
  EXPECT_EQ(there.receive(Seconds(5)).line, "half and half");
}

TEST(Channel, CarriesMoreThanTheSocketHolds) {
  auto [here, there] = make_channels();
  const std::string sent(5'000'000, 'x');
  std::thread writer([&end = here, &sent] { EXPECT_TRUE(end.send(sent)); });
  const Channel::Received received = there.receive(Seconds(30));
  writer.join();
  EXPECT_EQ(received.outcome, Outcome::kLine);
  EXPECT_EQ(received.line, sent);
}

TEST(Channel, KeepsItsDeadline) {
  auto [here, there] = make_channels();
  const auto start = steady_clock::now();
  EXPECT_EQ(there.receive(Seconds(0.05)).outcome, Outcome::kTimeout);
  EXPECT_GE(Seconds(steady_clock::now() - start).count(), 0.05);
  ASSERT_TRUE(here.send("late"));
  EXPECT_EQ(there.receive(Seconds(5)).line, "late");
}

TEST(Channel, AClosedEndIsNoError) {
  auto [here, there] = make_channels();
  ASSERT_TRUE(here.send("last words"));
  { const Channel gone = std::move(here); }
  EXPECT_EQ(there.receive(Seconds(5)).line, "last words");
  EXPECT_EQ(there.receive(Seconds(5)).outcome, Outcome::kClosed);
  EXPECT_EQ(there.receive(std::nullopt).outcome, Outcome::kClosed);
  EXPECT_FALSE(there.send("nobody hears")) << "and no SIGPIPE ends the process";
}

TEST(Channel, AHalfLineBeforeTheEndIsNotALine) {
  auto [here, there] = make_channels();
  ASSERT_EQ(write(here.descriptor(), "cut", 3), 3);
  { const Channel gone = std::move(here); }
  EXPECT_EQ(there.receive(Seconds(5)).outcome, Outcome::kClosed);
}

TEST(Channel, MovesItsPendingText) {
  auto [here, there] = make_channels();
  ASSERT_TRUE(here.send("one"));
  ASSERT_TRUE(here.send("two"));
  EXPECT_EQ(there.receive(Seconds(5)).line, "one");
  Channel moved = std::move(there);
  EXPECT_EQ(moved.receive(Seconds(5)).line, "two");
  Channel assigned(-1);
  assigned = std::move(moved);
  ASSERT_TRUE(here.send("three"));
  EXPECT_EQ(assigned.receive(Seconds(5)).line, "three");
}

TEST(Channel, NoDescriptorIsAClosedEnd) {
  Channel none(-1);
  EXPECT_FALSE(none.send("x"));
  EXPECT_EQ(none.receive(Seconds(0.02)).outcome, Outcome::kTimeout);
}

// Signals are noted for the whole process, so each of these has one of its own.
int code_of_child(int (*body)()) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    _exit(body());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST(Channel, ASignalEndsTheWait) {
  const int code = code_of_child([] {
    note_interrupts();
    auto [here, there] = make_channels();
    const pid_t parent = getpid();
    if (fork() == 0) {
      usleep(50'000);
      kill(parent, SIGINT);
      _exit(0);
    }
    const bool is_told = there.receive(std::nullopt).outcome == Outcome::kInterrupted;
    const bool stays_told = there.receive(Seconds(5)).outcome == Outcome::kInterrupted;
    return is_told && stays_told && interrupted() == SIGINT ? 7 : 1;
  });
  EXPECT_EQ(code, 7);
}

TEST(Channel, ASignalBeforeTheWaitIsNotMissed) {
  const int code = code_of_child([] {
    note_interrupts();
    auto [here, there] = make_channels();
    raise(SIGTERM);
    return there.receive(std::nullopt).outcome == Outcome::kInterrupted && interrupted() == SIGTERM
               ? 7
               : 1;
  });
  EXPECT_EQ(code, 7);
}

TEST(Channel, ALineThatArrivedIsReadBeforeTheSignal) {
  const int code = code_of_child([] {
    note_interrupts();
    auto [here, there] = make_channels();
    here.send("one");
    here.send("two");
    there.receive(Seconds(5));
    raise(SIGINT);
    return there.receive(Seconds(5)).line == "two" ? 7 : 1;
  });
  EXPECT_EQ(code, 7);
}

TEST(Interrupt, TheSecondSignalEndsTheProcess) {
  const int code = code_of_child([] {
    note_interrupts();
    raise(SIGINT);
    raise(SIGINT);
    return 1;
  });
  EXPECT_EQ(code, 128 + SIGINT);
}

TEST(Interrupt, HeldSignalsComeInAfterwards) {
  const int code = code_of_child([] {
    note_interrupts();
    {
      const InterruptsHeld held;
      raise(SIGHUP);
      if (interrupted() != 0) {
        return 1;
      }
    }
    return interrupted() == SIGHUP ? 7 : 2;
  });
  EXPECT_EQ(code, 7);
}

}  // namespace
}  // namespace mla_bench
