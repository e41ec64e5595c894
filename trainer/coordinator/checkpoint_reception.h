#pragma once

#include <memory>
#include <string>

#include "comm/exchange/tensor_intake.h"
#include "core/json.h"
#include "trainer/messages/notes.h"
#include "trainer/state/tensor_store.h"

namespace poseidon::trainer {

/// The tensors of checkpoints while they come in from workers. Used by the I/O thread.
class CheckpointReception {
 public:
  /// Which tensors a checkpoint has, as tensor_list() makes it. None is taken before.
  void expect(Json list) { list_ = std::move(list); }
  /// The name of the tensor at an index of that list.
  std::string tensor_name(size_t index) const;
  /// The tensors of that list that are not sums in flight.
  size_t tensors_without_sums() const;

  /// Another worker has this rank now.
  void forget(uint16_t worker) { intake_.forget(worker); }

  comm::Placement place(uint16_t worker, const comm::FrameHeader& header);
  /// The slice that has come with this header, as it is passed on; empty where it was dropped.
  comm::Payload received(uint16_t worker, const comm::FrameHeader& header);
  /// The checkpoint of `step` that the worker says it has sent. Throws ConfigError for one that is
  /// not whole.
  std::shared_ptr<TensorStore> take(uint16_t worker, int64_t step, const SentCheckpoint& sent);

 private:
  Json list_;
  comm::CheckpointIntake<TensorStore> intake_{
      [this] { return std::make_shared<TensorStore>(list_); }};
};

}  // namespace poseidon::trainer
