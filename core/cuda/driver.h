#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/buffer.h"
#include "core/cuda/operation.h"
#include "core/device.h"

namespace poseidon::cuda {

/// A position in the order of a stream's work, made by Driver::record.
class StreamEvent : public Event::Point {};

/// The index of a stream of a device, in the order of Driver::make_stream. Work in one stream is
/// done in the order of issue. Only events (Driver::wait) order the work of different streams.
enum class Stream : uint32_t {};

/// One unit of work in a graph: an operation, or a copy if `operation` is null.
struct GraphNode {
  std::shared_ptr<const Operation> operation;
  const void* from = nullptr;
  void* to = nullptr;
  size_t bytes = 0;
};

/// Work that can be issued repeatedly as one unit. Its nodes are done one after another.
class Graph {
 public:
  explicit Graph(std::vector<GraphNode> nodes) : nodes_(std::move(nodes)) {}
  virtual ~Graph() = default;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  const std::vector<GraphNode>& nodes() const { return nodes_; }

 private:
  const std::vector<GraphNode> nodes_;
};

enum class StreamPriority : uint8_t { kNormal, kHigh };

/// The interface to CUDA for one device: memory, streams, events, copies, operations and graphs.
/// The tests have another implementation, which does the work on the host, in any legal order
/// (tests/support/gpu/fake_driver.h). One thread uses a driver; any thread may use its events.
class Driver {
 public:
  virtual ~Driver() = default;

  /// Allocates zeroed memory. Throws OutOfMemory. The release of the memory waits for all work.
  virtual Buffer allocate(size_t bytes, MemoryKind place, std::string_view purpose) = 0;
  /// Bytes of device memory for a net: the free bytes, less a reserve for graphs and libraries.
  virtual size_t available() const = 0;
  virtual Stream make_stream(StreamPriority priority) = 0;

  virtual void issue(Stream stream, std::unique_ptr<const Operation> operation) = 0;
  /// Issues a copy. Each side may be device or staging memory of this driver.
  virtual void copy(Stream stream, const void* from, void* to, size_t bytes) = 0;
  /// Makes a graph for this stream, with the priority of the stream. Each node must have been
  /// issued individually before, because libraries load code and allocate memory when they are
  /// first called. A graph cannot contain these actions. Throws RunError if CUDA refuses to make
  /// the graph, and OutOfMemory. The stream can be used afterwards.
  virtual std::shared_ptr<const Graph> make_graph(Stream stream, std::vector<GraphNode> nodes) = 0;
  virtual void issue(Stream stream, const std::shared_ptr<const Graph>& graph) = 0;
  /// Returns an event at the end of all work issued to the stream so far. If a task of the
  /// stream (Event::Point::then) or the work before it failed, throws that exception.
  virtual std::shared_ptr<const StreamEvent> record(Stream stream) = 0;
  /// Returns a timestamp at the end of all work issued to the stream so far.
  virtual std::shared_ptr<const Timestamp> record_timestamp(Stream stream) = 0;
  /// Work issued to the stream from now on starts after the event `mark`, which may belong to
  /// another stream.
  virtual void wait(Stream stream, const std::shared_ptr<const StreamEvent>& mark) = 0;
};

}  // namespace poseidon::cuda
