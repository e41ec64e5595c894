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

/// The kind of memory that Device::allocate returns.
enum class MemoryKind : uint8_t {
  kDevice,   ///< for the device's work; the host may access it only if shares_memory()
  kStaging,  ///< host memory that the device can access, for transfers to and from the host
};

/// A position in the order of a device's work. The event is reached when all earlier work is done.
/// A default-constructed event is already reached.
class Event {
 public:
  /// The device's implementation of an event.
  class Point {
   public:
    virtual ~Point() = default;
    virtual bool reached() const = 0;
    /// Blocks until the event is reached.
    virtual void wait() const = 0;
    /// Runs `task` after the event is reached: at once in the caller, or later in a thread of the
    /// device. If the work before the event fails, the device may discard `task`. Then the next
    /// record() throws.
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
  /// Null if the event is default-constructed.
  const std::shared_ptr<const Point>& point() const { return point_; }

 private:
  std::shared_ptr<const Point> point_;
};

/// The time at which a device reached a position in its work.
class Timestamp {
 public:
  virtual ~Timestamp() = default;
  virtual bool reached() const = 0;
  /// Nanoseconds of the steady clock. Valid only after reached() returns true.
  virtual int64_t nanoseconds() const = 0;
};

/// An additional stream for work that runs concurrently with computation. Work in one stream is
/// done in order.
enum class DeviceStream : uint8_t {
  kReceive,  ///< copies the next batch from the host to the device
  kSend,     ///< copies gradients and the net's results from the device to the host
  kUpdate,   ///< copies sums from the host to the device, and updates parameters
};

/// Identifies one kind of recurring work. Keys are unique within a GraphCapture.
struct GraphKey {
  std::string_view what;         ///< a string literal, such as "forward"
  std::vector<int64_t> numbers;  ///< every host value that the work depends on, addresses included
  auto operator<=>(const GraphKey&) const = default;
};

/// Issues the recurring work of one owner. The owner calls issue() each time the work recurs. A
/// device may capture the work as a graph.
class GraphCapture {
 public:
  virtual ~GraphCapture() = default;
  /// Issues the work of `key` by a call of `work`. A device may record this work. In later calls
  /// with an equal key, it may issue the recorded work instead. Therefore a key must always
  /// identify the same work on the same memory. Values that change from step to step must be in
  /// device memory. The work may consist only of layers, updates and copies; `work` must not call
  /// other functions of Device.
  virtual void issue(const GraphKey& /*key*/, const std::function<void()>& work) { work(); }
  /// True if the device records the work. Large units of work are then more efficient.
  virtual bool records() const { return false; }
};

/// The interface through which the net and the trainer use a device: memory, copies, and the order
/// of the device's work. layers::LayerFactory and layers::Updater provide the device's arithmetic.
/// Work means calls of layers, updates and copies. A device does its work in the order of issue,
/// possibly after the call returns. Only work in an additional stream (DeviceStream) is outside
/// this order. Called only by the compute thread.
class Device {
 public:
  virtual ~Device() = default;

  /// Allocates zeroed memory, 64-byte aligned. Throws OutOfMemory; its message contains `purpose`,
  /// for example "gradients".
  virtual Buffer allocate(size_t bytes, MemoryKind place, std::string_view purpose) = 0;
  /// Bytes of device memory that can still be allocated.
  virtual size_t available() const = 0;
  /// True if the device uses host memory. The host can then send, receive and read values in place,
  /// after the work on them is done.
  virtual bool shares_memory() const = 0;
  /// Issues a copy. Each side may be device or staging memory.
  virtual void copy(std::span<const std::byte> from, std::span<std::byte> to) = 0;
  void copy(std::span<const float> from, std::span<float> to) {
    copy(std::as_bytes(from), std::as_writable_bytes(to));
  }
  /// Copies from device or staging memory to any host memory. Blocks until the copy is done.
  virtual void read(std::span<const std::byte> from, std::span<std::byte> host) = 0;
  /// Issues a copy from any host memory to device or staging memory. The caller may reuse `host`
  /// after the return.
  virtual void write(std::span<const std::byte> host, std::span<std::byte> to) = 0;
  /// An event at the end of all work issued so far to the current stream. Within issue_on_stream(),
  /// the current stream is the stream of that call.
  virtual Event record() = 0;
  /// Calls `issue`, and sends the work that `issue` issues to the given stream. This work starts
  /// after the event `after`. Work in other streams waits for this work only through await().
  /// Returns the event at the end of this work, or `after` if `issue` issues no work. A device
  /// without additional streams does the work in the order of issue.
  virtual Event issue_on_stream(DeviceStream, const Event& /*after*/,
                                const std::function<void()>& issue) {
    issue();
    return record();
  }
  /// Work issued to the current stream from now on starts after the event.
  virtual void await(const Event&) {}
  /// Creates a GraphCapture for one owner of recurring work. The device and all memory that the
  /// work uses must outlive the GraphCapture.
  virtual std::unique_ptr<GraphCapture> make_graph_capture() {
    return std::make_unique<GraphCapture>();
  }
  /// A timestamp at the end of all work issued so far to the current stream, to be read later. Null
  /// for a device whose calls return only after their work is done.
  virtual std::shared_ptr<const Timestamp> record_timestamp() { return nullptr; }
  /// Number of host threads that compute.
  virtual int threads() const = 0;
};

}  // namespace poseidon
