#include "layers/replay/replay_layer.h"

#include <algorithm>
#include <cmath>

namespace poseidon::layers::replay {

namespace {

/// The value of all elements of a gradient, or of a contribution to a statistic. It varies with
/// step, batch and tensor. It is a small multiple of 2^-12, so fp32 sums of such values are exact.
float made_up(const StepContext& step, size_t tensor) {
  const StepParameters& numbers = *step.numbers;
  const uint64_t number = static_cast<uint64_t>(numbers.step) * 7 +
                          static_cast<uint64_t>(numbers.first_sample) * 3 + tensor;
  return static_cast<float>(number % 16 + 1) * 0x1p-12f;
}

/// Writes a constant to this share of the values, the first one included, and zeros between them.
void fill_with_density(double density, float* values, int64_t count) {
  if (density == 1) {
    std::fill_n(values, count, 0x1p-6f);
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    const double before = std::ceil(static_cast<double>(i) * density);
    values[i] = std::ceil(static_cast<double>(i + 1) * density) > before ? 0x1p-6f : 0.0F;
  }
}

}  // namespace

ReplayLayer::ReplayLayer(const LayerRequest& request, const LayerTime& time, ReplayDevice& device)
    : time_(time),
      device_(device),
      is_loss_(request.definition.is_loss()),
      gives_factors_(request.factor_rows > 0),
      factors_(request.definition.factors()) {
  needs_.input_formats.assign(request.input_formats.size(), kPlainFp32);
  for (const ParameterSpec& spec : request.definition.parameters())
    counts_.push_back(spec.shape.count());
  for (const StatisticSpec& spec : request.definition.statistics())
    statistic_counts_.push_back(spec.shape.count());
}

void ReplayLayer::forward(const StepContext& step, const Bindings& memory) {
  device_.work(time_.forward_ms, [&] {
    for (size_t i = 0; i < memory.statistics.size(); ++i)
      if (memory.statistics[i].gradient != nullptr)
        std::fill_n(memory.statistics[i].gradient, statistic_counts_[i], made_up(step, i));
    if (!is_loss_) return;
    std::fill_n(memory.output.as<float>(), memory.output.shape.count(), 1.0F);
  });
}

void ReplayLayer::backward(const StepContext& step, const Bindings& memory) {
  device_.work(gives_factors_ ? time_.backward_ms / 2 : time_.backward_ms, [&] {
    for (size_t i = 0; i < memory.parameters.size() && !gives_factors_; ++i)
      std::fill_n(memory.parameters[i].gradient, counts_[i], made_up(step, i));
  });
}

void ReplayLayer::write_factors(const Bindings& memory, const FactorMemory& factors) {
  if (factors.deltas == nullptr) return;
  const int64_t samples = memory.inputs[0].shape.samples();
  fill_with_density(time_.factor_density, factors.deltas, samples * factors_->deltas);
  fill_with_density(time_.factor_density, factors.activations, samples * factors_->activations);
}

void ReplayLayer::rebuild(const FactorMemory& factors, const Bindings& memory,
                          const GradientSink* sink) {
  device_.work(time_.rebuild_ms, [&] {
    for (size_t i = 0; i < memory.parameters.size(); ++i)
      std::fill_n(memory.parameters[i].gradient, counts_[i],
                  factors.deltas[0] * factors.activations[0]);
  });
  for (size_t i = 0; i < memory.parameters.size() && sink != nullptr; ++i)
    (*sink)(static_cast<int>(i), 0,
            {memory.parameters[i].gradient, static_cast<size_t>(counts_[i])});
}

void ReplayLayer::pack(int index, const float* canonical, float* packed) const {
  std::copy_n(canonical, packed_count(index), packed);
}

void ReplayLayer::unpack(int index, const float* packed, float* canonical) const {
  std::copy_n(packed, packed_count(index), canonical);
}

}  // namespace poseidon::layers::replay
