#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "core/buffer.h"

namespace poseidon {

/// Whose memory it is.
enum class Place : uint8_t {
  kDevice,   ///< only the device's own work reads and writes it
  kStaging,  ///< host memory that the device's work can reach: what comes from and goes to others
};

/// A point in the order of a device's work. A default one has been reached.
class Event {
 public:
  /// What a device makes of it.
  class Point {
   public:
    virtual ~Point() = default;
    virtual bool reached() const = 0;
    /// Blocks until it is reached.
    virtual void wait() const = 0;
    /// Runs `task` once it is reached: at once, or in a thread of the device's.
    virtual void then(std::function<void()> task) const = 0;
  };

  Event() = default;
  explicit Event(std::shared_ptr<const Point> point) : point_(std::move(point)) {}

  bool reached() const { return point_ == nullptr || point_->reached(); }
  void wait() const {
    if (point_ != nullptr) point_->wait();
  }
  void then(std::function<void()> task) const {
    if (point_ == nullptr) return task();
    point_->then(std::move(task));
  }
  /// Null for one that has been reached.
  const std::shared_ptr<const Point>& point() const { return point_; }

 private:
  std::shared_ptr<const Point> point_;
};

/// When a device came to a point of its work.
class Moment {
 public:
  virtual ~Moment() = default;
  virtual bool reached() const = 0;
  /// Nanoseconds of the steady clock, once it is reached.
  virtual int64_t nanoseconds() const = 0;
};

/// Work that goes on beside the usual: each lane is in order for itself.
enum class Lane : uint8_t {
  kReceive,  ///< the batch to compute next
  kSend,     ///< what leaves the device for others
  kUpdate,   ///< what comes from them, and what it changes
};

/// What tells work that comes again from other such work of the same owner.
struct RepeatKey {
  std::string_view what;  ///< a literal: "forward"
  std::vector<int64_t>
      numbers;  ///< all that the work depends on, the memory that it is on included
  auto operator<=>(const RepeatKey&) const = default;
};

/// Work that comes again and again, of one owner, who calls this wherever it issues such work.
class Repeats {
 public:
  virtual ~Repeats() = default;
  /// Issues what `work` issues. A device may record that once and, when it gets an equal key again,
  /// issue what it has recorded without calling `work`. So for one key it must always be the same
  /// work on the same memory: what differs from step to step is read from the device's memory. It
  /// consists of layers, updates and copies; nothing else of Device is called within.
  virtual void issue(const RepeatKey& /*key*/, const std::function<void()>& work) { work(); }
  /// Whether it is recorded: then it is better issued in large pieces.
  virtual bool records() const { return false; }
};

/// What net and trainer know of a device: memory, copies, and the order of its work. Its arithmetic
/// is that of layers::LayerFactory and layers::Updater. Calls of layers, updates and copies are
/// work: it is done in the order in which it was issued, perhaps later than the call returns, but
/// for what is issued to a lane. Used by the compute thread.
class Device {
 public:
  virtual ~Device() = default;

  /// Zeroed memory, 64-byte aligned. Throws OutOfMemory, which says what it is for: "gradients".
  virtual Buffer allocate(size_t bytes, Place place, std::string_view purpose) = 0;
  /// What it may still take of its own memory, bytes.
  virtual size_t available() const = 0;
  /// Whether the device's memory is the host's: then values can be sent, received and read where
  /// they lie, once the work on them is done.
  virtual bool shares_memory() const = 0;
  /// Issues a copy between memory of any two places.
  virtual void copy(std::span<const std::byte> from, std::span<std::byte> to) = 0;
  void copy(std::span<const float> from, std::span<float> to) {
    copy(std::as_bytes(from), std::as_writable_bytes(to));
  }
  /// Copies from a place to any memory of the host; blocks until it is there.
  virtual void read(std::span<const std::byte> from, std::span<std::byte> host) = 0;
  /// Copies from any memory of the host to a place; `host` may be reused at once.
  virtual void write(std::span<const std::byte> host, std::span<std::byte> to) = 0;
  /// The end of all work issued so far, within beside() of that of its lane.
  virtual Event record() = 0;
  /// Issues what `issue` issues to a lane: it is done after `after`, and with no order to other
  /// work from now on but by await(). Returns its end; `after` where there is none. A device
  /// without lanes keeps to its order.
  virtual Event beside(Lane, const Event& /*after*/, const std::function<void()>& issue) {
    issue();
    return record();
  }
  /// Work from now on is done after the event.
  virtual void await(const Event&) {}
  /// For an owner of work that comes again. The device must outlive it, and all memory that the
  /// work is on must too.
  virtual std::unique_ptr<Repeats> make_repeats() { return std::make_unique<Repeats>(); }
  /// The end of all work issued so far, whose time can be asked for later. Null where work is done
  /// when a call returns.
  virtual std::shared_ptr<const Moment> moment() { return nullptr; }
  /// Threads of the host that compute.
  virtual int threads() const = 0;
};

}  // namespace poseidon
