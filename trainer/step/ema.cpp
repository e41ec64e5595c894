#include "trainer/step/ema.h"

#include <algorithm>

namespace poseidon::trainer {

namespace {

size_t followed_floats(net::Net& net) {
  size_t floats = 0;
  for (const net::Parameter& parameter : net.parameters())
    if (parameter.learned)
      floats += net::TensorMemory::padded(net.parameters().packed_count(parameter));
  for (const net::Statistic& statistic : net.parameters().statistics())
    floats += net::TensorMemory::padded(static_cast<size_t>(statistic.spec.shape.count()));
  return floats;
}

}  // namespace

size_t Ema::bytes(net::Net& net, size_t kind) {
  size_t bytes = sizeof(float);
  for (int version = 0; version < net.parameters().versions(); ++version)
    bytes += net::TensorMemory::bytes(followed_floats(net), kind++);
  return bytes;
}

Ema::Ema(double decay, net::Net& net, layers::Updater& updater, size_t kind)
    : decay_(decay),
      net_(net),
      updater_(updater),
      parameters_(net.parameters().size()),
      rate_(net.device().allocate(sizeof(float), MemoryKind::kDevice, "the averages' rate")) {
  for (int version = 0; version < net.parameters().versions(); ++version)
    memory_.emplace_back(net.device(), followed_floats(net), kind++, "averages");
  for (size_t i = 0; i < parameters_.size(); ++i)
    if (net.parameters()[i].learned) parameters_[i] = allocate(net.parameters()[i].value().size());
  for (const net::Statistic& statistic : net.parameters().statistics())
    statistics_.push_back(allocate(statistic.value().size()));
}

net::TensorVersions Ema::allocate(size_t floats) {
  const std::span<float> even = memory_.front().allocate(floats);
  return memory_.size() == 1 ? net::TensorVersions(even)
                             : net::TensorVersions(even, memory_.back().allocate(floats));
}

void Ema::begin(int64_t step) {
  constexpr double kEarlyUpdates = 10;
  const auto rate = static_cast<float>(
      std::max(1 - decay_, kEarlyUpdates / (kEarlyUpdates + static_cast<double>(step))));
  net_.device().write(std::as_bytes(std::span(&rate, 1)),
                      std::as_writable_bytes(rate_.as<float>().first(1)));
}

void Ema::update(size_t parameter, int64_t first, size_t count) {
  const auto piece = [&](std::span<float> whole) {
    return whole.subspan(static_cast<size_t>(first), count);
  };
  const net::TensorVersions& average = parameters_[parameter];
  updater_.average(rate_.as<const float>().data(), piece(average.current()),
                   piece(net_.parameters()[parameter].next()), piece(average.next()));
}

void Ema::update(const net::Statistic& statistic) {
  const auto index = static_cast<size_t>(&statistic - net_.parameters().statistics().data());
  const net::TensorVersions& average = statistics_[index];
  updater_.average(rate_.as<const float>().data(), average.current(), statistic.next(),
                   average.next());
}

void Ema::flip(int layer) {
  for (const int index : net_.parameters().of(layer))
    parameters_[static_cast<size_t>(index)].flip();
  for (const int index : net_.parameters().statistics_of(layer))
    statistics_[static_cast<size_t>(index)].flip();
}

void Ema::with_ema(const std::function<void()>& use) {
  swap();
  try {
    use();
  } catch (...) {
    swap();
    throw;
  }
  swap();
}

/// Exchanges the averages with the net's values. Waits for the device, because the stream of
/// updates is not ordered after this work.
void Ema::swap() {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (of_parameter(i).empty()) continue;
    updater_.swap(of_parameter(i), net_.parameters()[i].value());
    net_.values().round(net_.parameters()[i]);
  }
  for (size_t i = 0; i < statistics_.size(); ++i)
    updater_.swap(of_statistic(i), net_.parameters().statistics()[i].value());
  net_.device().record().wait();
}

}  // namespace poseidon::trainer
