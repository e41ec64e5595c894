#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/outlet.h"
#include "comm/transport.h"
#include "core/json.h"
#include "trainer/checkpoint.h"

namespace poseidon::trainer {

/// The tensors of a run in this process's memory, in canonical order: on their way to a checkpoint
/// or from one.
class TensorStore {
 public:
  struct Entry {
    std::string name;
    Shape shape;
    std::vector<float> values;
  };

  /// Empty tensors like these, from the JSON that tensor_list() made. Throws ConfigError.
  explicit TensorStore(const Json& list);

  std::vector<Entry>& entries() { return entries_; }
  /// The same as files know them. The store must outlive the result.
  RunTensors tensors();

  /// Where the body of a tensor frame goes; header.key is the tensor's place in the list.
  comm::Placement place(const comm::FrameHeader& header);

 private:
  std::vector<Entry> entries_;
  size_t weights_ = 0, parameters_ = 0, optimizer_ = 0;
  size_t sum_steps_ = 0;  ///< the rest of the entries are the sums of so many steps
};

/// Names and shapes of a run's tensors: {"parameters": 8, "weights": [{"name", "shape"}],
/// "optimizer": [...], "sums": [...], "sum_steps": 1}, in the order of in_order().
Json tensor_list(const RunTensors& tensors);

/// Sends one tensor in slices.
using SendSlice = std::function<void(const comm::FrameHeader&, comm::Payload)>;
void send_tensor(uint32_t place, uint64_t step, uint32_t view,
                 std::shared_ptr<const std::vector<float>> values, const SendSlice& send);

/// CRC-32C of each tensor in canonical order, the sums of `in_flight` steps included.
std::vector<int64_t> tensor_digests(const RunTensors& tensors, int64_t in_flight);

}  // namespace poseidon::trainer
