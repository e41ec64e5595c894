#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/wire/transport.h"
#include "core/fields.h"
#include "core/json.h"
#include "trainer/state/checkpoint.h"

namespace poseidon::trainer {

/// The tensors of a run in this process's memory, in canonical order, on the way to or from a
/// checkpoint.
class TensorStore {
 public:
  struct Entry {
    std::string name;
    Shape shape;
    std::shared_ptr<float[]> memory;  ///< uninitialized: pages are allocated on first write

    std::span<float> values() const { return {memory.get(), static_cast<size_t>(shape.count())}; }
    /// The values as a message payload.
    comm::Payload payload() const { return {std::as_bytes(values()), memory}; }
  };

  /// Allocates uninitialized tensors for the JSON of tensor_list(). Throws ConfigError if the JSON
  /// is invalid.
  explicit TensorStore(const Json& list);

  std::vector<Entry>& entries() { return entries_; }
  /// The entries as RunTensors. The store must outlive the result.
  RunTensors tensors();

  /// The memory of each entry, into which a comm::TensorIntake receives values.
  std::vector<std::span<std::byte>> memory() const;

 private:
  std::vector<Entry> entries_;
  size_t weights_ = 0, parameters_ = 0, optimizer_ = 0;
  size_t sum_steps_ = 0;  ///< number of steps whose sums are the remaining entries
};

/// Names and shapes of a run's tensors: {"parameters": 8, "weights": [{"name", "shape"}],
/// "optimizer": [...], "sums": [...], "sum_steps": 1}, in the order of in_order().
Json tensor_list(const RunTensors& tensors);

}  // namespace poseidon::trainer
