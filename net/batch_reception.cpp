#include "net/batch_reception.h"

#include "core/error.h"

namespace poseidon::net {

namespace {

/// Values begin where a GPU may load sixteen bytes at once.
constexpr size_t kRoomAlignment = 64;

size_t bytes_of_labels(const Shape& input) {
  const size_t bytes = static_cast<size_t>(input.samples()) * sizeof(int32_t);
  return (bytes + kRoomAlignment - 1) / kRoomAlignment * kRoomAlignment;
}

}  // namespace

size_t BatchReception::bytes(const Shape& input) const {
  return bytes_of_labels(input) + bytes_received(input);
}

size_t BatchReception::bytes_received(const Shape& input) const {
  return device_.shares_memory() ? 0 : bytes_of_labels(input) + stored_bytes(input, kPlainFp32);
}

void BatchReception::take_memory(const Tensor& input) {
  input_ = input;
  labels_ = device_.allocate(bytes_of_labels(input.shape), Place::kDevice, "labels");
  received_ = device_.allocate(bytes_received(input.shape), Place::kDevice, "the next batch");
}

void BatchReception::set(std::span<const float> values) {
  check(static_cast<int64_t>(values.size()) == input_.shape.count(), "a batch is set whole");
  have_labels_ = false;
  const BatchValues batch{.floats = values, .pixels = {}};
  if (device_.shares_memory())
    return device_.write(batch.bytes(), {input_.as<std::byte>(), batch.bytes().size()});
  const std::span<std::byte> room = values_received().first(batch.bytes().size());
  device_.await(
      device_.beside(Lane::kReceive, taken_, [&] { device_.write(batch.bytes(), room); }));
  write_input(batch.at(room));
}

Event BatchReception::set(const BatchValues& values, std::span<const int32_t> labels) {
  if (device_.shares_memory()) {
    set(values.floats);
    return {};
  }
  check(static_cast<int64_t>(values.count()) == input_.shape.count(), "a batch is set whole");
  const std::span<std::byte> room = values_received().first(values.bytes().size());
  const auto label_bytes = std::as_bytes(labels);
  const std::span<std::byte> label_room = received_.as<std::byte>().first(label_bytes.size());
  const Event came = device_.beside(Lane::kReceive, taken_, [&] {
    device_.copy(values.bytes(), room);
    device_.copy(label_bytes, label_room);
  });
  device_.await(came);
  device_.copy(label_room, labels_.as<std::byte>().first(label_room.size()));
  write_input(values.at(room));
  have_labels_ = true;
  return came;
}

std::span<const int32_t> BatchReception::labels(std::span<const int32_t> of_host) {
  const std::span<int32_t> there = labels_there(of_host.size());
  if (!have_labels_ && !of_host.empty())
    device_.write(std::as_bytes(of_host), std::as_writable_bytes(there));
  return there;
}

std::span<std::byte> BatchReception::values_received() const {
  return received_.as<std::byte>().subspan(labels_.bytes());
}

void BatchReception::write_input(const BatchValues& received) {
  if (writer_ != nullptr)
    writer_->write(received, input_);
  else
    device_.copy(received.floats, {input_.as<float>(), received.floats.size()});
  taken_ = device_.record();
}

}  // namespace poseidon::net
