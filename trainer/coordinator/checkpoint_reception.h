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
  /// Sets the names and shapes of a checkpoint's tensors: `list` is the result of tensor_list().
  /// Before this call all tensors are refused.
  void expect(Json list) { list_ = std::move(list); }
  /// Name of the tensor at an index of the list from expect(); "tensor 7" if index 7 is not in the
  /// list.
  std::string tensor_name(size_t index) const;
  /// Number of tensors in the list from expect() that are not sums in flight; 0 before expect().
  size_t tensors_without_sums() const;

  /// Drops the incomplete checkpoint of this rank, because another worker may have the rank now.
  void forget(uint16_t worker) { intake_.forget(worker); }

  comm::Destination destination(uint16_t worker, const comm::FrameHeader& header);
  /// The body of the frame with this header has arrived. Returns the slice in it, so that the
  /// caller can forward it to joiners; empty if the slice was dropped.
  comm::Payload received(uint16_t worker, const comm::FrameHeader& header);
  /// The worker has reported that it has sent the whole checkpoint of `step`. Returns this
  /// checkpoint. Throws ConfigError if tensors are missing, or if `sent` states sums of more steps
  /// than the list has.
  std::shared_ptr<TensorStore> take(uint16_t worker, int64_t step, const SentCheckpoint& sent);

 private:
  Json list_;
  comm::CheckpointIntake<TensorStore> intake_{
      [this] { return std::make_shared<TensorStore>(list_); }};
};

}  // namespace poseidon::trainer
