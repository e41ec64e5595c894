#include "trainer/step/sums_in_flight.h"

#include <algorithm>

#include "core/error.h"

namespace poseidon::trainer {

SumsInFlight::SumsInFlight(net::Net& net, int64_t most) : net_(net) {
  for (const int layer : net.parameters().summed_layers()) {
    for (const int index : net.parameters().of(layer))
      if (const auto& parameter = net.parameters()[static_cast<size_t>(index)]; parameter.learned)
        tensors_.push_back({.layer = layer, .parameter = &parameter});
    for (const int index : net.parameters().statistics_of(layer))
      tensors_.push_back({.layer = layer,
                          .statistic = &net.parameters().statistics()[static_cast<size_t>(index)]});
  }
  places_.resize(static_cast<size_t>(most), StepSums(tensors_.size()));
}

size_t SumsInFlight::bytes_of_step() const {
  size_t bytes = 0;
  for (const Tensor& tensor : tensors_)
    bytes += static_cast<size_t>(tensor.shape().count()) * sizeof(float);
  return bytes;
}

void SumsInFlight::begin_with(int64_t first, int64_t steps) {
  check(steps <= static_cast<int64_t>(places_.size()), "there is room for all sums in flight");
  first_ = first;
  steps_ = steps;
}

void SumsInFlight::drop_before(int64_t step) {
  const int64_t dropped = std::clamp<int64_t>(step - first_, 0, steps_);
  std::rotate(places_.begin(), places_.begin() + dropped, places_.end());
  steps_ -= dropped;
  first_ = steps_ > 0 ? first_ + dropped : step;
}

void SumsInFlight::add_step() {
  check(steps_ < static_cast<int64_t>(places_.size()), "there is room for all sums in flight");
  ++steps_;
}

void SumsInFlight::keep(int64_t step, int layer) {
  StepSums& sums = places_[place_of(step)];
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const Tensor& tensor = tensors_[i];
    if (tensor.layer != layer) continue;
    sums[i].resize(static_cast<size_t>(tensor.shape().count()));
    if (tensor.parameter != nullptr)
      net_.values().read_packed(*tensor.parameter, tensor.parameter->gradient, sums[i]);
    else
      net_.device().read(tensor.statistic->contribution, sums[i]);
  }
}

void SumsInFlight::load(int64_t step, int layer) const {
  const StepSums& sums = places_[place_of(step)];
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const Tensor& tensor = tensors_[i];
    if (tensor.layer != layer) continue;
    if (tensor.parameter != nullptr)
      net_.values().write_packed(*tensor.parameter, sums[i], tensor.parameter->gradient);
    else
      net_.device().write(std::as_bytes(std::span(sums[i])),
                          std::as_writable_bytes(tensor.statistic->contribution));
  }
}

std::vector<std::vector<NamedTensor>> SumsInFlight::tensors() {
  std::vector<std::vector<NamedTensor>> all(places_.size());
  for (size_t place = 0; place < places_.size(); ++place)
    for (size_t i = 0; i < tensors_.size(); ++i)
      all[place].push_back(
          {.name = text("sum.", place, ".", tensors_[i].name()),
           .shape = tensors_[i].shape(),
           .get = [this, place,
                   i](std::span<float> out) { std::ranges::copy(places_[place][i], out.begin()); },
           .set =
               [this, place, i](std::span<const float> values) {
                 places_[place][i].assign(values.begin(), values.end());
               }});
  return all;
}

}  // namespace poseidon::trainer
