#include "net/batch_reception.h"

#include <vector>

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
  return device_.shares_memory() ? 0 : bytes_of_labels(input) + stored_bytes(input, kPlainFp32);
}

void BatchReception::take_memory(const Tensor& samples, const Tensor& labels) {
  input_ = samples;
  labels_ = labels;
  received_ = device_.allocate(bytes(samples.shape), Place::kDevice, "the next batch");
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
  const bool with_labels = labels_ && writer_ != nullptr;
  check(static_cast<int64_t>(values.count()) == input_.shape.count(), "a batch is set whole");
  const std::span<std::byte> room = values_received().first(values.bytes().size());
  const auto label_bytes = std::as_bytes(labels);
  const std::span<std::byte> label_room = received_.as<std::byte>().first(label_bytes.size());
  const Event came = device_.beside(Lane::kReceive, taken_, [&] {
    device_.copy(values.bytes(), room);
    if (with_labels) device_.copy(label_bytes, label_room);
  });
  device_.await(came);
  if (with_labels)
    writer_->write_labels({reinterpret_cast<const int32_t*>(label_room.data()), labels.size()},
                          labels_);
  have_labels_ = with_labels;
  write_input(values.at(room));
  return came;
}

void BatchReception::set_labels(std::span<const int32_t> labels) {
  if (!labels_ || have_labels_) return;
  const std::vector<float> values(labels.begin(), labels.end());
  device_.write(std::as_bytes(std::span(values)), {labels_.as<std::byte>(), labels.size_bytes()});
}

std::span<std::byte> BatchReception::values_received() const {
  return received_.as<std::byte>().subspan(bytes_of_labels(input_.shape));
}

void BatchReception::write_input(const BatchValues& received) {
  if (writer_ != nullptr)
    writer_->write(received, input_);
  else
    device_.copy(received.floats, {input_.as<float>(), received.floats.size()});
  taken_ = device_.record();
}

}  // namespace poseidon::net
