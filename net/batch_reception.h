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

  /// Of batches for `input`, the memory that bytes() says. Throws OutOfMemory.
  void take_memory(const Tensor& input);
  /// Of batches for an input of this shape.
  size_t bytes(const Shape& input) const;

  bool takes_pixels(const Shape& input) const {
    return writer_ != nullptr && writer_->takes_pixels(input);
  }
  /// From any memory of the host, which may be reused at once.
  void set(std::span<const float> values);
  /// From staging memory, which may be reused after the event. The labels come with it.
  Event set(const BatchValues& values, std::span<const int32_t> labels);
  /// The labels of the batch in device memory. Those that did not come with it come now.
  std::span<const int32_t> labels(std::span<const int32_t> of_host);
  /// The same, once they are there.
  std::span<int32_t> labels_there(size_t count) const { return labels_.as<int32_t>().first(count); }

 private:
  size_t bytes_received(const Shape& input) const;
  std::span<std::byte> values_received() const;
  void write_input(const BatchValues& received);

  Device& device_;
  layers::BatchInput* const writer_;
  Tensor input_;
  Buffer labels_;             ///< of the batch that is computed
  bool have_labels_ = false;  ///< they came with the batch
  Buffer received_;           ///< labels and values of the next one
  Event taken_;               ///< the input is written: received_ is free again
};

}  // namespace poseidon::net
