#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace poseidon::cuda {

class BlockRunner;

/// Is told what memory an operation touches, so that what must be ordered, and is not, can be
/// found.
class MemoryVisitor {
 public:
  virtual ~MemoryVisitor() = default;
  virtual void reads(const void* data, size_t bytes) = 0;
  virtual void writes(const void* data, size_t bytes) = 0;
};

/// What carries an operation out: a stream of a GPU, or, in tests, the host.
struct Executor {
  void* stream = nullptr;       ///< cudaStream_t
  BlockRunner* host = nullptr;  ///< core/cuda/host_thread.h
};

/// Work for a stream: a kernel with its arguments, or a call of a library. Copies are the driver's
/// own.
class Operation {
 public:
  virtual ~Operation() = default;
  /// What messages and traces call it.
  virtual std::string name() const = 0;
  /// All memory that it reads and writes; memory that it does both with is told twice.
  virtual void visit(MemoryVisitor& visitor) const = 0;
  /// Of an operation that is known entirely by name, memory and some bytes, those bytes: two such
  /// that have the same of all do the same. For tests; none where they are not known.
  virtual std::span<const std::byte> arguments() const { return {}; }
  /// Puts it into the executor's stream, or does it on the host.
  virtual void issue(const Executor& executor) const = 0;
};

}  // namespace poseidon::cuda
