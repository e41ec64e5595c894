#include "net/batch_reception.h"

#include <vector>

#include "core/error.h"

namespace poseidon::net {

namespace {

/// Values begin where a GPU may load sixteen bytes at once.
constexpr size_t kRoomAlignment = 64;

size_t bytes_of_labels(const Shape& labels) {
  const size_t bytes = static_cast<size_t>(labels.count()) * sizeof(float);
  return (bytes + kRoomAlignment - 1) / kRoomAlignment * kRoomAlignment;
}

}  // namespace

size_t BatchReception::bytes(const Shape& input, const Shape& labels) const {
  return device_.shares_memory() ? 0 : bytes_of_labels(labels) + stored_bytes(input, kPlainFp32);
}

void BatchReception::take_memory(const Tensor& samples, const Tensor& labels) {
  input_ = samples;
  labels_ = labels;
  received_ =
      device_.allocate(bytes(samples.shape, labels.shape), Place::kDevice, "the next batch");
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

Event BatchReception::set(const BatchValues& values, std::span<const int32_t> labels,
                          std::span<const float> mixtures) {
  if (device_.shares_memory()) {
    set(values.floats);
    return {};
  }
  check(static_cast<int64_t>(values.count()) == input_.shape.count(), "a batch is set whole");
  have_labels_ = labels_ && writer_ != nullptr;
  if (!have_labels_) labels = {};
  if (!have_labels_ || labels_.shape.count() == std::ssize(labels)) mixtures = {};
  const std::span<std::byte> room = values_received().first(values.bytes().size());
  const std::span<int32_t> label_room = received_.as<int32_t>().first(labels.size());
  const std::span<float> mixture_room =
      received_.as<float>().subspan(labels.size(), mixtures.size());
  const Event came = device_.beside(Lane::kReceive, taken_, [&] {
    device_.copy(values.bytes(), room);
    if (!labels.empty()) device_.copy(std::as_bytes(labels), std::as_writable_bytes(label_room));
    if (!mixtures.empty()) device_.copy(mixtures, mixture_room);
  });
  device_.await(came);
  if (!labels.empty()) writer_->write_labels(label_room, labels_);
  if (!mixtures.empty())
    device_.copy(mixture_room, {labels_.as<float>() + labels.size(), mixtures.size()});
  write_input(values.at(room));
  return came;
}

void BatchReception::set_labels(std::span<const int32_t> labels, std::span<const float> mixtures) {
  if (!labels_ || have_labels_) return;
  std::vector<float> values(labels.begin(), labels.end());
  values.insert(values.end(), mixtures.begin(), mixtures.end());
  values.resize(static_cast<size_t>(labels_.shape.count()));
  const auto bytes = std::as_bytes(std::span(values));
  device_.write(bytes, {labels_.as<std::byte>(), bytes.size()});
}

std::span<std::byte> BatchReception::values_received() const {
  return received_.as<std::byte>().subspan(bytes_of_labels(labels_.shape));
}

void BatchReception::write_input(const BatchValues& received) {
  if (writer_ != nullptr)
    writer_->write(received, input_);
  else
    device_.copy(received.floats, {input_.as<float>(), received.floats.size()});
  taken_ = device_.record();
}

}  // namespace poseidon::net
