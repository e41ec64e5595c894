// A long link between two network namespaces: it delays packets, loses some of them at random, and
// limits the rate in each direction. bench/netlab/long_link.py uses it. Needs root and
// /dev/net/tun.
//
//     bench_long_link NAMESPACE NAMESPACE DELAY_MS LOSS_PERCENT RATE_MBPS QUEUE_MS
//
// Each namespace gets the TUN device "long", which the caller configures. Packets of one namespace
// arrive in the other one DELAY_MS later, plus their time in the queue of the link. The queue drops
// packets that would wait longer than QUEUE_MS. A rate of 0 means no limit. The program prints
// "ready", and ends at SIGTERM. Then it prints the packets of both directions.

#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <random>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using Nanoseconds = std::chrono::nanoseconds;

volatile std::sig_atomic_t stopped = 0;

[[noreturn]] void fail(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

/// Opens a TUN device in a namespace. The device belongs to the namespace in which the thread opens
/// it, so the program's own namespace does not matter.
int open_device(const std::string& space) {
  const std::string path = "/run/netns/" + space;
  const int target = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (target < 0 || ::setns(target, CLONE_NEWNET) != 0) fail(path);
  ::close(target);
  const int device = ::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (device < 0) fail("/dev/net/tun");
  ifreq request{};
  std::strcpy(request.ifr_name, "long");
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  if (::ioctl(device, TUNSETIFF, &request) != 0) fail("TUN device in " + space);
  return device;
}

struct Link {
  Nanoseconds delay{}, longest_queue{};
  double loss = 0;                  ///< probability
  double nanoseconds_per_byte = 0;  ///< 0: no limit
};

/// The packets of one direction.
class Direction {
 public:
  Direction(int from, int to, const Link& link, uint32_t seed)
      : from_(from), to_(to), link_(link), random_(seed) {}

  /// Reads the packets that have arrived, up to a batch.
  void read(Clock::time_point now) {
    constexpr int kBatch = 64;
    for (int i = 0; i < kBatch; ++i) {
      const ssize_t size = ::read(from_, buffer_.data(), buffer_.size());
      if (size <= 0) return;
      admit(static_cast<size_t>(size), now);
    }
  }
  /// Writes the packets whose delay is over.
  void write(Clock::time_point now) {
    for (; !packets_.empty() && packets_.front().due <= now; packets_.pop_front()) {
      const std::vector<char>& bytes = packets_.front().bytes;
      // A full device drops the packet, like a receiver without memory.
      if (::write(to_, bytes.data(), bytes.size()) < 0)
        ++dropped_;
      else
        ++carried_;
    }
  }
  Clock::time_point next() const {
    return packets_.empty() ? Clock::time_point::max() : packets_.front().due;
  }
  void report(const char* name) const {
    std::printf("%s: carried=%llu lost=%llu dropped=%llu\n", name, carried_, lost_, dropped_);
  }

 private:
  struct Packet {
    Clock::time_point due;
    std::vector<char> bytes;
  };

  void admit(size_t size, Clock::time_point now) {
    const Clock::time_point begins = std::max(now, free_at_);
    if (begins - now > link_.longest_queue) {
      ++dropped_;
      return;
    }
    // A lost packet uses the link too.
    free_at_ =
        begins + Nanoseconds(std::llround(static_cast<double>(size) * link_.nanoseconds_per_byte));
    if (std::bernoulli_distribution(link_.loss)(random_)) {
      ++lost_;
      return;
    }
    packets_.push_back(
        {.due = free_at_ + link_.delay, .bytes = {buffer_.data(), buffer_.data() + size}});
  }

  const int from_, to_;
  const Link link_;
  std::mt19937 random_;
  std::array<char, 65536> buffer_;
  std::deque<Packet> packets_;  ///< in order of `due`
  Clock::time_point free_at_{};
  unsigned long long carried_ = 0, lost_ = 0, dropped_ = 0;
};

void run(Direction& there, Direction& back, int first, int second) {
  std::array<pollfd, 2> devices{pollfd{.fd = first, .events = POLLIN, .revents = 0},
                                pollfd{.fd = second, .events = POLLIN, .revents = 0}};
  sigset_t all_allowed;
  sigemptyset(&all_allowed);
  while (stopped == 0) {
    const Clock::time_point next = std::min(there.next(), back.next());
    const Nanoseconds wait =
        next == Clock::time_point::max()
            ? std::chrono::seconds(1)
            : std::clamp<Nanoseconds>(next - Clock::now(), Nanoseconds(0), std::chrono::seconds(1));
    const timespec limit{.tv_sec = wait.count() / 1'000'000'000,
                         .tv_nsec = wait.count() % 1'000'000'000};
    ::ppoll(devices.data(), devices.size(), &limit, &all_allowed);
    const Clock::time_point now = Clock::now();
    if (devices[0].revents != 0) there.read(now);
    if (devices[1].revents != 0) back.read(now);
    there.write(now);
    back.write(now);
  }
}

}  // namespace

int main(int count, char** words) try {
  if (count != 7) {
    std::fprintf(stderr,
                 "usage: bench_long_link NAMESPACE NAMESPACE DELAY_MS LOSS_PERCENT RATE_MBPS "
                 "QUEUE_MS\n");
    return 2;
  }
  const auto milliseconds = [&](int place) {
    return Nanoseconds(std::llround(std::stod(words[place]) * 1e6));
  };
  const double rate = std::stod(words[5]);
  const Link link{.delay = milliseconds(3),
                  .longest_queue = milliseconds(6),
                  .loss = std::stod(words[4]) / 100,
                  .nanoseconds_per_byte = rate > 0 ? 8e3 / rate : 0};
  // SIGTERM is blocked except in ppoll(), so that none arrives unnoticed before the wait.
  sigset_t term;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  ::sigprocmask(SIG_BLOCK, &term, nullptr);
  std::signal(SIGTERM, [](int) { stopped = 1; });
  ::prctl(PR_SET_TIMERSLACK, 1UL);
  const int first = open_device(words[1]), second = open_device(words[2]);
  Direction there(first, second, link, 1), back(second, first, link, 2);
  std::puts("ready");
  std::fflush(stdout);
  run(there, back, first, second);
  there.report("there");
  back.report("back");
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "bench_long_link: %s\n", error.what());
  return 1;
}
