#include "channel.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "interrupt.hpp"

namespace mla_bench {
namespace {

using Clock = std::chrono::steady_clock;

timespec remaining(Clock::time_point deadline) {
  const auto left = std::max(Clock::duration::zero(), deadline - Clock::now());
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
  const auto nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(left - seconds);
  return {.tv_sec = seconds.count(), .tv_nsec = nanoseconds.count()};
}

}  // namespace

Channel::~Channel() {
  if (descriptor_ >= 0) {
    close(descriptor_);
  }
}

Channel::Channel(Channel&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), pending_(std::move(other.pending_)) {}

Channel& Channel::operator=(Channel&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(pending_, other.pending_);
  return *this;
}

bool Channel::send(const std::string& line) {
  const std::string text = line + "\n";
  std::size_t sent = 0;
  while (sent < text.size()) {
    // A socket, so that a dead reader is an error here and not a SIGPIPE.
    const ssize_t count = ::send(descriptor_, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count <= 0) {
      return false;
    }
    sent += static_cast<std::size_t>(count);
  }
  return true;
}

Channel::Received Channel::receive(std::optional<std::chrono::duration<double>> timeout) {
  const Clock::time_point deadline =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(
                         timeout.value_or(std::chrono::duration<double>(0)));
  while (true) {
    const std::size_t end = pending_.find('\n');
    if (end != std::string::npos) {
      std::string line = pending_.substr(0, end);
      pending_.erase(0, end + 1);
      return {Outcome::kLine, std::move(line)};
    }
    int ready = 0;
    {
      const InterruptsHeld held;
      if (interrupted() != 0) {
        return {Outcome::kInterrupted, ""};
      }
      pollfd waited{.fd = descriptor_, .events = POLLIN, .revents = 0};
      const timespec left = remaining(deadline);
      ready = ppoll(&waited, 1, timeout ? &left : nullptr, held.wait_mask());
    }
    if (ready == 0) {
      return {Outcome::kTimeout, ""};
    }
    if (ready < 0) {
      continue;  // a signal: the next turn looks which
    }
    std::array<char, 1 << 16> buffer;
    const ssize_t count = read(descriptor_, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count <= 0) {
      return {Outcome::kClosed, ""};
    }
    pending_.append(buffer.data(), static_cast<std::size_t>(count));
  }
}

}  // namespace mla_bench
