#include "layers/layer.h"

#include "core/error.h"

namespace poseidon::layers {

void Definition::fail(const std::string& message) const {
  throw ConfigError(text("[", type(), " '", name, "'] ", message));
}

void Definition::expect_inputs(std::span<const Shape> inputs, size_t count) const {
  if (inputs.size() != count)
    fail(text("expected ", count, " input", count == 1 ? "" : "s", ", got ", inputs.size()));
}

void Multipliers::describe(Fields& fields) {
  fields.numbers("learning_rate_multipliers", learning_rate, at_least(0),
                 "factor on the learning rate of each parameter, in order; 0 freezes it");
  fields.numbers("decay_multipliers", decay, at_least(0),
                 "factor on the weight decay of each parameter, in order");
}

void Multipliers::apply(std::vector<ParameterSpec>& parameters) const {
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (i < learning_rate.size()) parameters[i].learning_rate_multiplier = learning_rate[i];
    if (i < decay.size()) parameters[i].decay_multiplier = decay[i];
  }
}

void Choice::describe(Fields& fields) {
  fields.text("layout", layout, "layout of the activations");
  fields.text("forward", forward, "algorithm of the forward pass");
  fields.text("backward_data", backward_data, "algorithm of the gradient of the input");
  fields.text("backward_weights", backward_weights, "algorithm of the gradient of the weight");
}

void Layer::write_factors(const Bindings&, const FactorMemory&) {
  throw LogicError("this layer gives no factors");
}

void Layer::rebuild(const FactorMemory&, const Bindings&, const GradientSink*) {
  throw LogicError("this layer gives no factors");
}

void Layer::give_gradient(int index, const float* canonical, const Bindings& memory,
                          const GradientSink& sink) const {
  const auto count = static_cast<size_t>(packed_count(index));
  if (packed_is_canonical(index)) return sink(index, 0, {canonical, count});
  float* packed = memory.parameters[static_cast<size_t>(index)].gradient;
  pack(index, canonical, packed);
  sink(index, 0, {packed, count});
}

}  // namespace poseidon::layers
