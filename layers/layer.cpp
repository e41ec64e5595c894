#include "layers/layer.h"

#include <algorithm>

#include "core/error.h"
#include "layers/eltwise.h"

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
                 "learning rate factor of each parameter, in order; 0: frozen");
  fields.numbers("decay_multipliers", decay, at_least(0),
                 "weight decay factor of each parameter, in order");
}

void Multipliers::apply(std::vector<ParameterSpec>& parameters) const {
  for (const auto& [key, factors] : {std::pair{"learning_rate_multipliers", &learning_rate},
                                     std::pair{"decay_multipliers", &decay}})
    if (factors->size() > parameters.size())
      throw ConfigError(text("\"", key, "\": expected at most ", parameters.size(),
                             parameters.size() == 1 ? " number" : " numbers",
                             ", one for each parameter of the layer, got ", factors->size()));
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (i < learning_rate.size()) parameters[i].learning_rate_multiplier = learning_rate[i];
    if (i < decay.size()) parameters[i].decay_multiplier = decay[i];
  }
}

namespace {

/// Describes a text field whose value is "" or one of `names`.
void describe_name(Fields& fields, std::string_view key, std::string& value,
                   std::vector<std::string> names, std::string_view doc) {
  names.insert(names.begin(), "");
  int index = static_cast<int>(std::find(names.begin(), names.end(), value) - names.begin());
  fields.choice(key, index, names, doc);
  value = names[static_cast<size_t>(index)];
}

}  // namespace

void AlgorithmChoice::describe(Fields& fields) {
  std::vector<std::string> layouts;
  for (const Layout each :
       {Layout::kPlain, Layout::kChannelsLast, Layout::kBlocked8, Layout::kBlocked16})
    layouts.push_back(layout_name(each));
  describe_name(fields, "layout", layout, layouts, "layout of the activations");
  // Accepts any text, because only the device's layer knows which algorithms exist.
  fields.text("forward", forward, "algorithm of the forward pass");
  fields.text("backward_data", backward_data, "algorithm of the gradient of the input");
  fields.text("backward_weights", backward_weights, "algorithm of the gradient of the weight");
}

Bindings addition_bindings(std::span<const float> values, std::span<float> sums) {
  const auto tensor = [&](const float* data) {
    return Tensor{
        .data = const_cast<float*>(data), .shape = {1, std::ssize(sums)}, .format = kPlainFp32};
  };
  Bindings memory;
  memory.output_gradients = {tensor(sums.data()), tensor(values.data())};
  return memory;
}

void Layer::round(int, const float*, Bf16*) const {
  throw LogicError("this layer type reads no rounded parameter");
}

void Layer::write_factors(const Bindings&, const FactorMemory&) {
  throw LogicError("this layer type has no factors");
}

void Layer::rebuild(const FactorMemory&, const Bindings&, const GradientSink*) {
  throw LogicError("this layer type has no factors");
}

void Layer::pack_gradient(int index, const float* canonical, const Bindings& memory,
                          const GradientSink& sink) const {
  const auto count = static_cast<size_t>(packed_count(index));
  if (packed_is_canonical(index)) return sink(index, 0, {canonical, count});
  float* packed = memory.parameters[static_cast<size_t>(index)].gradient;
  pack(index, canonical, packed);
  sink(index, 0, {packed, count});
}

bool LayerFactory::fuses_relu(const Definition& definition) const {
  const std::string_view type = definition.type();
  if (type == "eltwise")
    return static_cast<const Eltwise&>(definition).operation == EltwiseOperation::kSum;
  return type == "convolution" || type == "linear" || type == "batch_norm";
}

bool LayerFactory::fuses_residual(const Definition& definition) const {
  return definition.type() == "batch_norm";
}

}  // namespace poseidon::layers
