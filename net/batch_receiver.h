#pragma once

#include <span>
#include <vector>

#include "core/auxiliary_input.h"
#include "layers/layer.h"

namespace poseidon::net {

/// Receives batches: samples, auxiliary inputs and labels of a net. If the device has its own
/// memory, the next batch arrives in a separate buffer while the passes run, in the stream
/// DeviceStream::kReceive. After the passes, the net's input is written from that buffer.
class BatchReceiver {
 public:
  /// `writer` may be null: then received samples are copied to the input. `extras` must outlive
  /// this object.
  BatchReceiver(Device& device, layers::BatchInput* writer,
                const std::vector<AuxiliaryInput>& extras)
      : device_(device), writer_(writer), extras_(extras) {}

  /// The auxiliary inputs of each batch, in this order.
  const std::vector<AuxiliaryInput>& extras() const { return extras_; }

  /// The memory of a batch in the net.
  struct BatchTensors {
    Tensor samples, labels;      ///< labels: null if no layer reads them
    std::vector<Tensor> extras;  ///< in plain layout
  };
  /// Allocates bytes(). Throws OutOfMemory.
  void allocate_memory(BatchTensors tensors);
  /// Bytes of the buffer for batches in transfer. `tensors` needs only shapes, no memory yet.
  size_t bytes(const BatchTensors& tensors) const;

  bool accepts_pixels(const Shape& input) const {
    return writer_ != nullptr && writer_->accepts_pixels(input);
  }
  /// Receives a batch from any host memory, which the caller may reuse at once. `extras` are all
  /// values of the first auxiliary input, then those of the next one.
  void set(std::span<const float> values, std::span<const float> extras);
  /// Receives a batch from staging memory, which the caller may reuse after the returned event.
  /// Labels and mixup data `mixup_labels` (layers::StepContext) come with the batch under three
  /// conditions: the device has its own memory, a layer reads labels, and `writer` is not null.
  Event set(const BatchValues& values, std::span<const float> extras,
            std::span<const int32_t> labels, std::span<const float> mixup_labels);
  /// Receives labels and mixup data from any host memory, unless they came with the batch. If the
  /// label form is kMixed but `mixup_labels` is empty, all second samples have weight 0.
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
  bool have_labels_ = false;  ///< the labels came with the batch
  Buffer received_;      ///< labels, mixup data, auxiliary inputs and samples of the next batch
  Event input_written_;  ///< after it, the input is written and received_ is free
};

}  // namespace poseidon::net
