#pragma once

#include <memory>
#include <string>

#include "comm/exchange/tensor_intake.h"
#include "core/json.h"
#include "trainer/messages/notes.h"
#include "trainer/state/tensor_store.h"

namespace poseidon::trainer {

/// Receives the tensors of checkpoints from workers. Used by the I/O thread.
class CheckpointReception {
 public:
  /// Sets the tensors of a checkpoint, from tensor_list(). Before this call all tensors are
  /// refused.
  void expect(Json list) { list_ = std::move(list); }
  /// Name of the tensor at an index of the list from expect().
  std::string tensor_name(size_t index) const;
  /// Number of tensors in the list from expect() that are not sums in flight.
  size_t tensors_without_sums() const;

  /// Another worker has this rank now.
  void forget(uint16_t worker) { intake_.forget(worker); }

  comm::Destination destination(uint16_t worker, const comm::FrameHeader& header);
  /// Returns the slice that has arrived with this header, for forwarding; empty if it was dropped.
  comm::Payload received(uint16_t worker, const comm::FrameHeader& header);
  /// Returns the checkpoint of `step` after the worker has reported it as sent. Throws ConfigError
  /// if it is incomplete.
  std::shared_ptr<TensorStore> take(uint16_t worker, int64_t step, const SentCheckpoint& sent);

 private:
  Json list_;
  comm::CheckpointIntake<TensorStore> intake_{
      [this] { return std::make_shared<TensorStore>(list_); }};
};

}  // namespace poseidon::trainer
