#include "interrupt.hpp"

#include <array>

namespace mla_bench {
namespace {

constexpr std::array kNoted{SIGINT, SIGTERM, SIGHUP};

// The one piece of state a signal handler can reach.
volatile sig_atomic_t noted_signal = 0;

void note(int number) {
  if (noted_signal != 0) {
    signal(number, SIG_DFL);
    raise(number);
    return;
  }
  noted_signal = number;
}

sigset_t noted_set() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : kNoted) {
    sigaddset(&set, number);
  }
  return set;
}

}  // namespace

void note_interrupts() {
  struct sigaction action = {};
  action.sa_handler = note;
  action.sa_mask = noted_set();
  for (const int number : kNoted) {
    sigaction(number, &action, nullptr);
  }
  signal(SIGPIPE, SIG_IGN);
}

int interrupted() {
  return noted_signal;
}

InterruptsHeld::InterruptsHeld() {
  const sigset_t set = noted_set();
  sigprocmask(SIG_BLOCK, &set, &before_);
}

InterruptsHeld::~InterruptsHeld() {
  sigprocmask(SIG_SETMASK, &before_, nullptr);
}

}  // namespace mla_bench
