#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace poseidon::cuda {

class BlockRunner;

/// Receives the memory ranges that an operation accesses. Tests use it to find missing waits
/// between operations.
class MemoryVisitor {
 public:
  virtual ~MemoryVisitor() = default;
  virtual void reads(const void* data, size_t bytes) = 0;
  virtual void writes(const void* data, size_t bytes) = 0;
};

/// The executor of an operation: a stream of a GPU or, in tests, the host.
struct Executor {
  void* stream = nullptr;       ///< a cudaStream_t
  BlockRunner* host = nullptr;  ///< see core/cuda/host_thread.h
};

/// Work for a stream: a kernel with its arguments, or a library call. Copies are not operations;
/// the driver issues them.
class Operation {
 public:
  virtual ~Operation() = default;
  /// The operation's name in messages and traces.
  virtual std::string name() const = 0;
  /// Reports all memory that the operation reads and writes. Memory that is both read and written
  /// is reported twice.
  virtual void visit(MemoryVisitor& visitor) const = 0;
  /// The operation's arguments as bytes: two operations with equal name, memory and
  /// arguments do the same work. Used by tests; empty if unknown.
  virtual std::span<const std::byte> arguments() const { return {}; }
  /// Issues the operation to the executor's stream, or runs it on the host.
  virtual void issue(const Executor& executor) const = 0;
};

}  // namespace poseidon::cuda
