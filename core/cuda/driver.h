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

/// A point in the order of a stream's work, made by Driver::record.
class Mark : public Event::Point {};

/// A stream of a device, by its number: work in it is done in the order in which it was issued.
/// Work of different streams has no order but by marks.
enum class Stream : uint32_t {};

/// A piece of work in a graph: an operation or, where that is null, a copy.
struct GraphNode {
  std::shared_ptr<const Operation> operation;
  const void* from = nullptr;
  void* to = nullptr;
  size_t bytes = 0;
};

/// Work that is issued as one, and again: nodes that are done one after another.
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

enum class Urgency : uint8_t { kUsual, kHigh };

/// All that is asked of CUDA for one device: memory, streams, marks, copies, operations and graphs
/// of these. Another implementation, for tests, does the same on the host, in every order that is
/// legal (tests/support/gpu/fake_driver.h). Used by one thread, but for marks, which any thread may
/// use.
class Driver {
 public:
  virtual ~Driver() = default;

  /// Zeroed memory. Throws OutOfMemory. Giving memory back waits for all work.
  virtual Buffer allocate(size_t bytes, Place place, std::string_view purpose) = 0;
  /// What it may still take of the device's memory, bytes.
  virtual size_t available() const = 0;
  virtual Stream make_stream(Urgency urgency) = 0;

  virtual void issue(Stream stream, std::unique_ptr<const Operation> operation) = 0;
  /// Between memory of this driver of any two places.
  virtual void copy(Stream stream, const void* from, void* to, size_t bytes) = 0;
  /// For this stream, as urgent. What is in it must have been issued by itself before: libraries
  /// load their code and take memory when they are first called, which no graph can hold.
  virtual std::shared_ptr<const Graph> make_graph(Stream stream, std::vector<GraphNode> nodes) = 0;
  virtual void issue(Stream stream, const std::shared_ptr<const Graph>& graph) = 0;
  /// The end of what was issued to the stream so far.
  virtual std::shared_ptr<const Mark> record(Stream stream) = 0;
  /// The same, with its time.
  virtual std::shared_ptr<const Moment> moment(Stream stream) = 0;
  /// What is issued to the stream from now on is done after the mark.
  virtual void wait(Stream stream, const std::shared_ptr<const Mark>& mark) = 0;
};

}  // namespace poseidon::cuda
