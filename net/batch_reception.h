#pragma once

#include <span>

#include "layers/layer.h"

namespace poseidon::net {

/// Where batches come to: a net's input, and their labels. On a device with memory of its own the
/// next one comes up beside the passes, on Lane::kReceive, to memory of its own, from which the
/// input is written when they are done.
class BatchReception {
 public:
  /// `writer` may be null: what is received is copied to the input.
  BatchReception(Device& device, layers::BatchInput* writer) : device_(device), writer_(writer) {}

  /// Of batches for `samples` and, unless it is null, `labels`, the memory that bytes() says.
  /// Throws OutOfMemory.
  void take_memory(const Tensor& samples, const Tensor& labels);
  /// Of batches for an input and labels of these shapes.
  size_t bytes(const Shape& input, const Shape& labels) const;

  bool takes_pixels(const Shape& input) const {
    return writer_ != nullptr && writer_->takes_pixels(input);
  }
  /// From any memory of the host, which may be reused at once.
  void set(std::span<const float> values);
  /// From staging memory, which may be reused after the event. The labels come with it, and what
  /// is told of mixtures (layers::StepContext).
  Event set(const BatchValues& values, std::span<const int32_t> labels,
            std::span<const float> mixtures);
  /// The same of a batch, from any memory of the host, unless they came with it. Where samples
  /// could be mixtures and none is, all second ones have no share.
  void set_labels(std::span<const int32_t> labels, std::span<const float> mixtures);

 private:
  std::span<std::byte> values_received() const;
  void write_input(const BatchValues& received);

  Device& device_;
  layers::BatchInput* const writer_;
  Tensor input_, labels_;
  bool have_labels_ = false;  ///< they came with the batch
  Buffer received_;           ///< labels, mixtures and values of the next one
  Event taken_;               ///< the input is written: received_ is free again
};

}  // namespace poseidon::net
