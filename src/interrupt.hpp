// Signals that ask the program to end, as a value to look at: nothing is lost, since the run stops
// between two steps and writes its document.
#pragma once

#include <signal.h>

namespace mla_bench {

// From now on SIGINT, SIGTERM and SIGHUP are noted instead of ending the process; a second one of
// them ends it at once. SIGPIPE is ignored: a closed stdout is an error of the write.
void note_interrupts();

// The first signal noted, or 0.
int interrupted();

// A program that signal n asked to end ends with this plus n.
inline constexpr int kSignalBase = 128;

// Blocks the noted signals while it lives, so that one cannot slip in between a look at
// interrupted() and a wait. `wait_mask` is what ppoll takes to let them in during the wait.
class InterruptsHeld {
 public:
  InterruptsHeld();
  ~InterruptsHeld();
  const sigset_t* wait_mask() const { return &before_; }

 private:
  sigset_t before_;
};

}  // namespace mla_bench
