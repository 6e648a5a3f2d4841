// Lines of text between two processes over a socket.
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace mla_bench {

class Channel {
 public:
  explicit Channel(int descriptor) : descriptor_(descriptor) {}
  ~Channel();
  Channel(Channel&& other) noexcept;
  Channel& operator=(Channel&& other) noexcept;
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // False where the other side is gone.
  bool send(const std::string& line);

  enum class Outcome { kLine, kClosed, kTimeout, kInterrupted };
  struct Received {
    Outcome outcome;
    std::string line;
  };
  // Waits for a whole line; for ever without `timeout`. kInterrupted where a signal arrived, as
  // `interrupted()` says.
  Received receive(std::optional<std::chrono::duration<double>> timeout);

  int descriptor() const { return descriptor_; }

 private:
  int descriptor_ = -1;
  std::string pending_;
};

}  // namespace mla_bench
