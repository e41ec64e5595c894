#pragma once

#include <span>
#include <vector>

#include "core/auxiliary_input.h"
#include "layers/layer.h"

namespace poseidon::net {

/// Receives the batches of a net: samples, auxiliary inputs and labels. If the device shares host
/// memory, set() writes the net's input tensors directly. Otherwise the device first copies the
/// batch to a separate buffer, in the stream DeviceStream::kReceive. This copy can overlap with the
/// passes of the previous batch. After these passes, the device copies the batch from the buffer to
/// the input tensors, and converts it if necessary.
class BatchReceiver {
 public:
  /// `writer` converts samples to the format of the input tensor. Null: samples are copied as plain
  /// fp32. All arguments must outlive this object.
  BatchReceiver(Device& device, layers::BatchInput* writer,
                const std::vector<AuxiliaryInput>& extras)
      : device_(device), writer_(writer), extras_(extras) {}

  /// The auxiliary inputs of the net, in the order in which each batch contains them.
  const std::vector<AuxiliaryInput>& extras() const { return extras_; }

  /// The input tensors of the net.
  struct BatchTensors {
    Tensor samples, labels;      ///< labels: null if no layer reads them
    std::vector<Tensor> extras;  ///< in plain layout
  };
  /// Stores `tensors`, and allocates the buffer of bytes(tensors) bytes. Throws OutOfMemory.
  void allocate_memory(BatchTensors tensors);
  /// Bytes of the separate buffer; 0 if the device shares host memory. Uses only the shapes of
  /// `tensors`.
  size_t bytes(const BatchTensors& tensors) const;

  bool accepts_pixels(const Shape& input) const {
    return writer_ != nullptr && writer_->accepts_pixels(input);
  }
  /// Receives samples and auxiliary inputs from any host memory, which the caller may reuse at
  /// once. `extras` are all values of the first auxiliary input, then those of the next one.
  /// set_labels() must follow; Net::forward() calls it.
  void set(std::span<const float> values, std::span<const float> extras);
  /// Receives a batch from staging memory, which the caller may reuse after the returned event.
  /// `values` may be pixels only if accepts_pixels() is true. Also receives labels and mixup data
  /// (layers::StepContext::mixup_labels) under three conditions: the device does not share host
  /// memory, a layer reads labels, and `writer` is not null. Otherwise ignores both, and
  /// set_labels() must follow.
  Event set(const BatchValues& values, std::span<const float> extras,
            std::span<const int32_t> labels, std::span<const float> mixup_labels);
  /// Receives labels and mixup data from any host memory. Does nothing if no layer reads labels, or
  /// if set() received the labels of this batch. If the label form is kMixed and `mixup_labels` is
  /// empty, all second samples have weight 0.
  void set_labels(std::span<const int32_t> labels, std::span<const float> mixup_labels);

 private:
  std::span<float> received_extras() const;
  std::span<std::byte> values_received() const;
  void check_whole(size_t values, size_t extras) const;
  void write_input(const BatchValues& received, std::span<const float> extras);
  void write_extras(std::span<const float> received);

  Device& device_;
  layers::BatchInput* const writer_;
  const std::vector<AuxiliaryInput>& extras_;
  BatchTensors tensors_;
  bool have_labels_ = false;  ///< whether set() received the labels of the current batch
  Buffer received_;      ///< labels, mixup data, auxiliary inputs and samples of the next batch
  Event input_written_;  ///< reached when the input is written and received_ may be overwritten
};

}  // namespace poseidon::net
