#include "apps/stdin_watcher.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/error.h"

namespace poseidon::apps {

StdinWatcher::StdinWatcher(std::function<void()> ended, std::chrono::milliseconds grace,
                           std::function<void()> overdue)
    : ended_(std::move(ended)), overdue_(std::move(overdue)), grace_(grace) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    throw RunError(text("--end-with-stdin: cannot create a pipe: ", std::strerror(errno)));
  over_ = Descriptor(ends[0]);
  end_ = Descriptor(ends[1]);
  thread_ = std::thread([this] { look(); });
}

StdinWatcher::~StdinWatcher() {
  end_ = {};
  thread_.join();
}

void StdinWatcher::look() {
  if (!input_ends()) return;
  ended_();
  pollfd over{.fd = over_.number(), .events = POLLIN, .revents = 0};
  int found = 0;
  const auto deadline = std::chrono::steady_clock::now() + grace_;
  do {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    found = ::poll(&over, 1, static_cast<int>(std::max<int64_t>(0, left.count())));
  } while (found < 0 && errno == EINTR);
  if (found == 0) overdue_();
}

/// Waits for the end of the input, and returns true. Returns false if the destructor runs first.
bool StdinWatcher::input_ends() const {
  while (true) {
    pollfd both[] = {{.fd = over_.number(), .events = POLLIN, .revents = 0},
                     {.fd = STDIN_FILENO, .events = POLLIN, .revents = 0}};
    if (::poll(both, 2, -1) < 0 && errno != EINTR) return true;
    if (both[0].revents != 0) return false;
    if (both[1].revents == 0) continue;
    char dropped[256];
    const ssize_t count = ::read(STDIN_FILENO, dropped, sizeof dropped);
    if (count == 0 || (count < 0 && errno != EINTR && errno != EAGAIN)) return true;
  }
}

}  // namespace poseidon::apps
