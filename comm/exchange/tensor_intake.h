#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "comm/wire/outlet.h"
#include "core/counted.h"
#include "core/error.h"

/// Reception of tensors in frames, slice by slice: the tensors of a checkpoint, or initial values.
/// A frame's `key` is the tensor's index in a list that both ends know.
namespace poseidon::comm {

/// The destinations for the slices of a list of tensors, and the record of the received slices. A
/// complete tensor consists of exactly one received slice at each position.
class TensorIntake {
 public:
  /// `tensors` is the memory of each tensor, which must stay valid; empty: the tensor will not
  /// arrive.
  explicit TensorIntake(std::vector<std::span<std::byte>> tensors);

  /// Returns the destination of a slice in its tensor's memory. Drops a slice that was already
  /// received, and rejects a slice that does not match its tensor.
  Destination destination(const FrameHeader& header);
  /// Records that the body for the last destination() has arrived. Returns false if destination()
  /// dropped this body.
  bool received();

  bool complete() const { return missing_ == 0; }
  /// Whether all slices of one tensor have arrived.
  bool has(size_t tensor) const { return missing_of_[tensor] == 0; }
  /// Of the slices of the first `tensors` tensors, the number of slices that have not arrived.
  uint64_t missing(size_t tensors) const;

 private:
  struct Slice {
    size_t tensor = 0;
    uint64_t number = 0;
  };

  std::vector<std::span<std::byte>> tensors_;
  std::vector<std::vector<bool>> received_slices_;  ///< by tensor and slice
  std::vector<uint64_t> missing_of_;                ///< slices, by tensor
  uint64_t missing_ = 0;
  std::optional<Slice> open_;  ///< the slice that is being read
};

/// Sends a tensor in slices, which share its owner. `header` sets all fields except kind, offset
/// and length.
using SendSlice = std::function<void(const FrameHeader&, const Payload&)>;
void send_tensor(const FrameHeader& header, const Payload& tensor, const SendSlice& send);

/// The checkpoints that workers send, one at a time from each worker. Two checkpoints are never
/// mixed: a worker numbers its checkpoints, and a frame's `chunk` is that number. `Store` holds one
/// checkpoint; its memory() returns the destinations for a TensorIntake.
template <class Store>
class CheckpointIntake {
 public:
  explicit CheckpointIntake(std::function<std::shared_ptr<Store>()> make)
      : make_(std::move(make)) {}

  Destination destination(uint16_t worker, const FrameHeader& header) {
    if (header.kind != FrameKind::kTensor)
      return Destination::refused(
          text("sent a ", name_of(header.kind), " frame, expected a tensor"));
    auto found = by_worker_.find(worker);
    if (found != by_worker_.end() && header.chunk < found->second.number)
      return Destination::dropped();
    // The last slice for the replaced store was read before this header, so no read writes into
    // that store any more.
    if (found == by_worker_.end() || header.chunk > found->second.number)
      found = by_worker_.insert_or_assign(worker, Incoming(header, make_())).first;
    Incoming& incoming = found->second;
    if (!incoming.store) return Destination::dropped();
    if (header.step != incoming.step)
      return Destination::refused(text("sent a tensor of step ", header.step,
                                       " within the checkpoint of step ", incoming.step));
    return incoming.intake.destination(header);
  }

  /// Forgets the checkpoint of this rank. Call it when the rank passes to another worker, because
  /// that worker numbers its checkpoints from the start.
  void forget(uint16_t worker) { by_worker_.erase(worker); }

  /// Records that the body for the last destination() has arrived. Returns the store that holds the
  /// body; null if the body was dropped.
  std::shared_ptr<Store> received(uint16_t worker) {
    const auto found = by_worker_.find(worker);
    if (found == by_worker_.end() || !found->second.intake.received()) return nullptr;
    return found->second.store;
  }

  /// Returns the checkpoint that `worker` reports as sent, with all its tensors. Throws ConfigError
  /// if the checkpoint is not complete, or has another number or step.
  std::shared_ptr<Store> take(uint16_t worker, uint32_t number, int64_t step) {
    return take(worker, number, step, [](Store& store) { return store.memory().size(); });
  }

  /// Like the other take(), but requires only the first count(store) tensors of the list.
  template <class Count>
  std::shared_ptr<Store> take(uint16_t worker, uint32_t number, int64_t step, Count count) {
    const auto found = by_worker_.find(worker);
    if (found == by_worker_.end() || found->second.number != number || !found->second.store)
      throw ConfigError(text("received no tensor of the checkpoint of step ", step));
    Incoming& incoming = found->second;
    if (incoming.step != static_cast<uint64_t>(step))
      throw ConfigError(
          text("received the checkpoint of step ", incoming.step, ", expected step ", step));
    const uint64_t missing = incoming.intake.missing(count(*incoming.store));
    if (missing > 0)
      throw ConfigError(
          text("the checkpoint of step ", step, " lacks ", counted(missing, "slice")));
    return std::move(incoming.store);
  }

 private:
  struct Incoming {
    Incoming(const FrameHeader& header, std::shared_ptr<Store> into)
        : number(header.chunk),
          step(header.step),
          store(std::move(into)),
          intake(store->memory()) {}

    uint32_t number;
    uint64_t step;
    std::shared_ptr<Store> store;  ///< null after take()
    TensorIntake intake;
  };

  const std::function<std::shared_ptr<Store>()> make_;
  std::map<uint16_t, Incoming> by_worker_;  ///< the latest checkpoint of each worker
};

}  // namespace poseidon::comm
