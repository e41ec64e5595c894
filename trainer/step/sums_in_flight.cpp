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
  steps_kept_.resize(static_cast<size_t>(most), StepSums(tensors_.size()));
}

size_t SumsInFlight::bytes_of_step() const {
  size_t bytes = 0;
  for (const Tensor& tensor : tensors_)
    bytes += static_cast<size_t>(tensor.shape().count()) * sizeof(float);
  return bytes;
}

void SumsInFlight::begin_with(int64_t first, int64_t steps) {
  check(steps <= static_cast<int64_t>(steps_kept_.size()), "there is room for all sums in flight");
  first_ = first;
  steps_ = steps;
}

void SumsInFlight::drop_before(int64_t step) {
  const int64_t dropped = std::clamp<int64_t>(step - first_, 0, steps_);
  std::rotate(steps_kept_.begin(), steps_kept_.begin() + dropped, steps_kept_.end());
  steps_ -= dropped;
  first_ = steps_ > 0 ? first_ + dropped : step;
}

void SumsInFlight::add_step() {
  check(steps_ < static_cast<int64_t>(steps_kept_.size()), "there is room for all sums in flight");
  ++steps_;
}

void SumsInFlight::keep(int64_t step, int layer) {
  StepSums& sums = steps_kept_[index_of(step)];
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const Tensor& tensor = tensors_[i];
    if (tensor.layer != layer) continue;
    sums[i].resize(static_cast<size_t>(tensor.shape().count()));
    if (tensor.parameter != nullptr)
      net_.values().read_packed(*tensor.parameter, tensor.parameter->gradient, sums[i]);
    else
      net_.device().read(std::as_bytes(tensor.statistic->contribution),
                         std::as_writable_bytes(std::span(sums[i])));
  }
}

void SumsInFlight::load(int64_t step, int layer) const {
  const StepSums& sums = steps_kept_[index_of(step)];
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
  std::vector<std::vector<NamedTensor>> all(steps_kept_.size());
  for (size_t index = 0; index < steps_kept_.size(); ++index)
    for (size_t i = 0; i < tensors_.size(); ++i)
      all[index].push_back({.name = text("sum.", index, ".", tensors_[i].name()),
                            .shape = tensors_[i].shape(),
                            .get =
                                [this, index, i](std::span<float> out) {
                                  std::ranges::copy(steps_kept_[index][i], out.begin());
                                },
                            .set =
                                [this, index, i](std::span<const float> values) {
                                  steps_kept_[index][i].assign(values.begin(), values.end());
                                }});
  return all;
}

}  // namespace poseidon::trainer
