#pragma once

#include <span>
#include <vector>

#include "core/extras.h"
#include "layers/layer.h"

namespace poseidon::net {

/// Where batches come to: a net's input, further inputs, and labels. On a device with memory of its
/// own the next one comes up beside the passes, on Lane::kReceive, to memory of its own, from which
/// the input is written when they are done.
class BatchReception {
 public:
  /// `writer` may be null: what is received is copied to the input. `extras` must outlive it.
  BatchReception(Device& device, layers::BatchInput* writer, const std::vector<Extra>& extras)
      : device_(device), writer_(writer), extras_(extras) {}

  /// Those that come with each batch, in this order.
  const std::vector<Extra>& extras() const { return extras_; }

  /// A batch's memory in the net.
  struct Places {
    Tensor samples, labels;      ///< no labels where no layer reads them
    std::vector<Tensor> extras;  ///< plain
  };
  /// Takes what bytes() says. Throws OutOfMemory.
  void take_memory(Places places);
  /// Of what batches for such places take on their way; these need have no memory yet.
  size_t bytes(const Places& places) const;

  bool takes_pixels(const Shape& input) const {
    return writer_ != nullptr && writer_->takes_pixels(input);
  }
  /// From any memory of the host, which may be reused at once. `extras` are all values of the first
  /// further input, then those of the next.
  void set(std::span<const float> values, std::span<const float> extras);
  /// From staging memory, which may be reused after the event. The labels come with it, and what
  /// is told of mixtures (layers::StepContext).
  Event set(const BatchValues& values, std::span<const float> extras,
            std::span<const int32_t> labels, std::span<const float> mixtures);
  /// The same of a batch, from any memory of the host, unless they came with it. Where samples
  /// could be mixtures and none is, all second ones have no share.
  void set_labels(std::span<const int32_t> labels, std::span<const float> mixtures);

 private:
  std::span<float> extras_received() const;
  std::span<std::byte> values_received() const;
  void check_whole(size_t values, size_t extras) const;
  void write_input(const BatchValues& received, std::span<const float> extras);
  void write_extras(std::span<const float> received);

  Device& device_;
  layers::BatchInput* const writer_;
  const std::vector<Extra>& extras_;
  Places places_;
  bool have_labels_ = false;  ///< they came with the batch
  Buffer received_;           ///< labels, mixtures, extras and values of the next one
  Event taken_;               ///< the input is written: received_ is free again
};

}  // namespace poseidon::net
