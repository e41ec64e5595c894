#include "trainer/step/optimizer.h"

#include <cmath>
#include <utility>

namespace poseidon::trainer {

using layers::UpdateRule;
using net::TensorVersions;

namespace {

/// Number of the kinds of net::TensorMemory that the net uses: two versions of the values, and the
/// gradients.
constexpr size_t kKindsOfNet = 3;

size_t learned_floats(net::Net& net) {
  size_t floats = 0;
  for (const net::Parameter& parameter : net.parameters())
    if (parameter.learned)
      floats += net::TensorMemory::padded(net.parameters().packed_count(parameter));
  return floats;
}

/// Number of kinds of net::TensorMemory for the state: one for each state tensor and version.
size_t kinds_of_state(const OptimizerConfig& config, const net::Net& net) {
  return static_cast<size_t>(net.parameters().versions()) * config.state_names().size();
}

}  // namespace

size_t Optimizer::bytes(const OptimizerConfig& config, net::Net& net) {
  size_t bytes = net.parameters().size() * sizeof(layers::UpdateParameters);
  for (size_t kind = 0; kind < kinds_of_state(config, net); ++kind)
    bytes += net::TensorMemory::bytes(learned_floats(net), kKindsOfNet + kind);
  if (config.average_decay > 0) bytes += Ema::bytes(net, kKindsOfNet + kinds_of_state(config, net));
  return bytes;
}

Optimizer::Optimizer(const OptimizerConfig& config, net::Net& net, layers::Updater& updater)
    : config_(config),
      form_{.rule = config.rule(), .l1 = config.l1_decay > 0},
      net_(net),
      updater_(updater),
      states_of_parameter_(net.parameters().size()),
      update_parameters_(net.parameters().size()),
      device_update_parameters_(
          net.device().allocate(update_parameters_.size() * sizeof(layers::UpdateParameters),
                                MemoryKind::kDevice, "the optimizer's numbers")) {
  const std::span<const char* const> names = config.state_names();
  for (size_t kind = 0; kind < kinds_of_state(config, net); ++kind)
    memory_.emplace_back(net.device(), learned_floats(net), kKindsOfNet + kind,
                         "the optimizer's state");
  const bool two_versions = net.parameters().versions() == 2;
  states_.reserve(net.parameters().size() * names.size());
  for (size_t i = 0; i < net.parameters().size(); ++i) {
    const net::Parameter& parameter = net.parameters()[i];
    if (!parameter.learned) continue;
    for (size_t state = 0; state < names.size(); ++state) {
      const size_t count = parameter.value().size();
      const std::span<float> memory = memory_[state].allocate(count);
      states_.push_back(
          {.name = parameter.name + "." + names[state],
           .parameter = i,
           .versions = two_versions
                           ? TensorVersions(memory, memory_[names.size() + state].allocate(count))
                           : TensorVersions(memory)});
    }
    states_of_parameter_[i] = std::span(states_).last(names.size());
  }
  if (config.average_decay > 0)
    averages_.emplace(config.average_decay, net, updater, kKindsOfNet + memory_.size());
}

void Optimizer::begin(const UpdateStep& step) {
  if (averages_) averages_->begin(step.step);
  write_update_parameters(0, update_parameters_.size(), step);
}

/// Writes one range, because the parameters of a layer have consecutive indices.
void Optimizer::begin(const UpdateStep& step, int layer) {
  if (averages_) averages_->begin(step.step);
  const std::span<const int> parameters = net_.parameters().of(layer);
  if (!parameters.empty())
    write_update_parameters(static_cast<size_t>(parameters.front()), parameters.size(), step);
}

void Optimizer::write_update_parameters(size_t first, size_t count, const UpdateStep& step) {
  for (size_t index = first; index < first + count; ++index)
    if (net_.parameters()[index].learned)
      update_parameters_[index] = update_parameters(index, step);
  net_.device().write(
      std::as_bytes(std::span(update_parameters_).subspan(first, count)),
      std::as_writable_bytes(
          device_update_parameters_.as<layers::UpdateParameters>().subspan(first, count)));
}

void Optimizer::update(size_t index, int64_t first, std::span<const float> gradient) {
  const net::Parameter& parameter = net_.parameters()[index];
  const auto piece = [&](std::span<float> whole) {
    return whole.subspan(static_cast<size_t>(first), gradient.size());
  };
  layers::UpdateMemory memory{.value = piece(parameter.value()),
                              .gradient = gradient,
                              .state = {},
                              .new_value = piece(parameter.next()),
                              .new_state = {}};
  if (const std::span<Bf16> rounded = parameter.rounded.next(); !rounded.empty())
    memory.rounded = rounded.subspan(static_cast<size_t>(first), gradient.size());
  const std::span<const State> states = states_of_parameter_[index];
  for (size_t i = 0; i < states.size(); ++i) {
    memory.state[i] = piece(states[i].versions.current());
    memory.new_state[i] = piece(states[i].versions.next());
  }
  updater_.update(form_, &device_update_parameters_.as<const layers::UpdateParameters>()[index],
                  memory);
  if (averages_) averages_->update(index, first, gradient.size());
}

void Optimizer::update(size_t index) {
  const net::Parameter& parameter = net_.parameters()[index];
  if (parameter.learned) update(index, 0, parameter.gradient);
}

void Optimizer::track(const net::Statistic& statistic, int64_t shards) {
  updater_.track({.momentum = static_cast<float>(statistic.spec.momentum),
                  .contribution_weight = 1 / static_cast<float>(shards)},
                 statistic.value(), statistic.contribution, statistic.next());
  if (averages_) averages_->update(statistic);
}

void Optimizer::flip(int layer) {
  for (const int index : net_.parameters().of(layer))
    for (State& state : states_of_parameter_[static_cast<size_t>(index)]) state.versions.flip();
  if (averages_) averages_->flip(layer);
}

layers::UpdateParameters Optimizer::update_parameters(size_t index, const UpdateStep& step) {
  const net::Parameter& parameter = net_.parameters()[index];
  const auto real = [](double value) { return static_cast<float>(value); };
  const double decay = config_.weight_decay * parameter.spec.decay_multiplier;
  const double updates = static_cast<double>(step.step) + 1;
  const bool shrinks = form_.rule == UpdateRule::kAdamW;
  layers::UpdateParameters update_parameters{
      .learning_rate = real(step.learning_rate * parameter.spec.learning_rate_multiplier),
      .l2 = shrinks ? 0 : real(decay),
      .l1 = real(config_.l1_decay * parameter.spec.decay_multiplier),
      .shrinkage = shrinks ? real(decay) : 0,
      .gradient_scale = real(step.gradient_scale),
      .momentum = real(config_.momentum),
      .beta1 = real(config_.beta1),
      .beta2 = real(config_.beta2),
      .one_minus_beta1 = real(1 - config_.beta1),
      .one_minus_beta2 = real(1 - config_.beta2),
      .correction1 = real(1 - std::pow(config_.beta1, updates)),
      .correction2 = real(1 - std::pow(config_.beta2, updates)),
      .epsilon = real(config_.adam_epsilon)};
  switch (form_.rule) {
    case UpdateRule::kAdaGrad: update_parameters.epsilon = real(config_.adagrad_epsilon); break;
    case UpdateRule::kRmsProp:
      update_parameters.smoothing = real(config_.rmsprop_smoothing);
      update_parameters.one_minus_smoothing = real(1 - config_.rmsprop_smoothing);
      update_parameters.momentum = real(config_.rmsprop_momentum);
      update_parameters.epsilon = real(config_.rmsprop_epsilon);
      break;
    case UpdateRule::kAdaDelta:
      update_parameters.smoothing = real(config_.adadelta_smoothing);
      update_parameters.one_minus_smoothing = real(1 - config_.adadelta_smoothing);
      update_parameters.epsilon = real(config_.adadelta_epsilon);
      break;
    case UpdateRule::kLars: update_parameters.trust = real(trust_of(parameter, decay)); break;
    default: break;
  }
  return update_parameters;
}

/// Device memory for a tensor in canonical order, valid until the next call.
std::span<float> Optimizer::scratch(const net::Parameter& parameter) {
  const auto count = static_cast<size_t>(parameter.spec.shape.count());
  if (scratch_.bytes() < count * sizeof(float))
    scratch_ = net_.device().allocate(count * sizeof(float), MemoryKind::kDevice, "norms");
  return scratch_.as<float>().first(count);
}

double Optimizer::squared_gradient_norm(const net::Parameter& parameter) {
  const std::span<float> canonical = scratch(parameter);
  net_.values().canonical_gradient(parameter, canonical);
  return updater_.squared_norm(canonical);
}

double Optimizer::squared_value_norm(const net::Parameter& parameter) {
  const std::span<float> canonical = scratch(parameter);
  net_.values().canonical_value(parameter, canonical);
  return updater_.squared_norm(canonical);
}

double Optimizer::trust_of(const net::Parameter& parameter, double decay) {
  // Biases, scales and shifts use the plain learning rate, as is common for LARS.
  if (parameter.spec.shape.rank() < 2) return 1;
  const double gradient = std::sqrt(squared_gradient_norm(parameter));
  const double value = std::sqrt(squared_value_norm(parameter));
  if (gradient == 0 || value == 0) return 1;
  return config_.trust * value / (gradient + decay * value);
}

double Optimizer::clipping_scale() {
  if (!clips()) return 1;
  double squares = 0;
  for (const net::Parameter& parameter : net_.parameters())
    if (parameter.learned) squares += squared_gradient_norm(parameter);
  const double norm = std::sqrt(squares);
  return norm > config_.clip_norm ? config_.clip_norm / norm : 1;
}

}  // namespace poseidon::trainer
