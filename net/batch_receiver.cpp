#include "net/batch_receiver.h"

#include <utility>
#include <vector>

#include "core/error.h"

namespace poseidon::net {

namespace {

/// Alignment in bytes of the labels, auxiliary inputs and samples in received_. At least 16,
/// because a GPU loads up to 16 bytes at once.
constexpr size_t kRoomAlignment = 64;

/// Bytes that `values` 4-byte values occupy in received_: a multiple of kRoomAlignment.
size_t room_of(int64_t values) {
  const size_t bytes = static_cast<size_t>(values) * sizeof(float);
  return (bytes + kRoomAlignment - 1) / kRoomAlignment * kRoomAlignment;
}

int64_t count_of(const std::vector<Tensor>& tensors) {
  int64_t count = 0;
  for (const Tensor& tensor : tensors) count += tensor.shape.count();
  return count;
}

}  // namespace

size_t BatchReceiver::bytes(const BatchTensors& tensors) const {
  return device_.shares_memory()
             ? 0
             : room_of(tensors.labels.shape.count()) + room_of(count_of(tensors.extras)) +
                   stored_bytes(tensors.samples.shape, kPlainFp32);
}

void BatchReceiver::allocate_memory(BatchTensors tensors) {
  tensors_ = std::move(tensors);
  received_ = device_.allocate(bytes(tensors_), MemoryKind::kDevice, "the next batch");
}

void BatchReceiver::set(std::span<const float> values, std::span<const float> extras) {
  check_whole(values.size(), extras.size());
  have_labels_ = false;
  const BatchValues batch{.floats = values, .pixels = {}};
  if (device_.shares_memory()) {
    device_.write(batch.bytes(), {tensors_.samples.as<std::byte>(), batch.bytes().size()});
    return write_extras(extras);
  }
  const std::span<std::byte> room = values_received().first(batch.bytes().size());
  device_.await(device_.issue_on_stream(DeviceStream::kReceive, input_written_, [&] {
    device_.write(batch.bytes(), room);
    if (!extras.empty())
      device_.write(std::as_bytes(extras), std::as_writable_bytes(received_extras()));
  }));
  write_input(batch.at(room), received_extras());
}

Event BatchReceiver::set(const BatchValues& values, std::span<const float> extras,
                         std::span<const int32_t> labels, std::span<const float> mixup_labels) {
  if (device_.shares_memory()) {
    set(values.floats, extras);
    return {};
  }
  check_whole(values.count(), extras.size());
  const Tensor& kept = tensors_.labels;
  have_labels_ = kept && writer_ != nullptr;
  if (!have_labels_) labels = {};
  if (!have_labels_ || kept.shape.count() == std::ssize(labels)) mixup_labels = {};
  const std::span<std::byte> room = values_received().first(values.bytes().size());
  const std::span<int32_t> label_room = received_.as<int32_t>().first(labels.size());
  const std::span<float> mixup_room =
      received_.as<float>().subspan(labels.size(), mixup_labels.size());
  const Event came = device_.issue_on_stream(DeviceStream::kReceive, input_written_, [&] {
    device_.copy(values.bytes(), room);
    if (!extras.empty()) device_.copy(extras, received_extras());
    if (!labels.empty()) device_.copy(std::as_bytes(labels), std::as_writable_bytes(label_room));
    if (!mixup_labels.empty()) device_.copy(mixup_labels, mixup_room);
  });
  device_.await(came);
  if (!labels.empty()) writer_->write_labels(label_room, kept);
  if (!mixup_labels.empty())
    device_.copy(mixup_room, {kept.as<float>() + labels.size(), mixup_labels.size()});
  write_input(values.at(room), received_extras());
  return came;
}

void BatchReceiver::set_labels(std::span<const int32_t> labels,
                               std::span<const float> mixup_labels) {
  const Tensor& kept = tensors_.labels;
  if (!kept || have_labels_) return;
  std::vector<float> values(labels.begin(), labels.end());
  values.insert(values.end(), mixup_labels.begin(), mixup_labels.end());
  values.resize(static_cast<size_t>(kept.shape.count()));
  const auto bytes = std::as_bytes(std::span(values));
  device_.write(bytes, {kept.as<std::byte>(), bytes.size()});
}

void BatchReceiver::check_whole(size_t values, size_t extras) const {
  check(static_cast<int64_t>(values) == tensors_.samples.shape.count() &&
            static_cast<int64_t>(extras) == count_of(tensors_.extras),
        "the values cover the whole batch");
}

/// Auxiliary inputs follow the labels in received_.
std::span<float> BatchReceiver::received_extras() const {
  return received_.as<float>().subspan(room_of(tensors_.labels.shape.count()) / sizeof(float),
                                       static_cast<size_t>(count_of(tensors_.extras)));
}

/// Samples follow the auxiliary inputs in received_.
std::span<std::byte> BatchReceiver::values_received() const {
  return received_.as<std::byte>().subspan(room_of(tensors_.labels.shape.count()) +
                                           room_of(count_of(tensors_.extras)));
}

/// Writes samples and auxiliary inputs from device memory to the net's input tensors.
void BatchReceiver::write_input(const BatchValues& received, std::span<const float> extras) {
  if (writer_ != nullptr)
    writer_->write(received, tensors_.samples);
  else
    device_.copy(received.floats, {tensors_.samples.as<float>(), received.floats.size()});
  write_extras(extras);
  input_written_ = device_.record();
}

/// Writes auxiliary inputs to the net's input tensors. `received` is memory that the device can
/// read.
void BatchReceiver::write_extras(std::span<const float> received) {
  for (const Tensor& extra : tensors_.extras) {
    const auto count = static_cast<size_t>(extra.shape.count());
    device_.copy(received.first(count), {extra.as<float>(), count});
    received = received.subspan(count);
  }
}

}  // namespace poseidon::net
