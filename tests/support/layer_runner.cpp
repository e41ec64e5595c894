#include "tests/support/layer_runner.h"

#include <doctest/doctest.h>

#include <cstring>

#include "core/philox.h"
#include "layers/registry.h"

namespace poseidon::test {

using layers::Layer;
using layers::LayerRequest;

struct LayerRunner::Memory {
  explicit Memory(const LayerRunner& runner)
      : of_device(*runner.backend_.device), step(runner.case_.step) {
    step.numbers = of_device.hold(std::span(&runner.case_.numbers, 1)).data();
  }

  std::byte* take(size_t bytes) { return reinterpret_cast<std::byte*>(of_device.take(bytes)); }

  DeviceMemory of_device;
  layers::StepContext step;  ///< the step context with device pointers, as layers get it
  layers::Bindings bindings;
};

std::unique_ptr<layers::Definition> define(const Json& json, const std::vector<Shape>& inputs,
                                           Shape* output) {
  auto definition = layers::make_definition(json.at("type").get<std::string>());
  REQUIRE(definition);
  Json fields = json;
  definition->name = fields.value("name", "layer");
  fields.erase("name");
  fields.erase("type");
  read_fields(fields, {"test.json", ""}, [&](Fields& f) { definition->describe(f); });
  const Shape inferred = definition->infer(inputs);
  if (output != nullptr) *output = inferred;
  return definition;
}

LayerRunner::LayerRunner(const LayerCase& layer_case)
    : case_(layer_case), backend_(case_.backend(case_.threads, case_.type)) {
  add_label_input();
  // The fused residual is an input of the layer, but not of its definition.
  std::vector<Shape> inputs = case_.inputs;
  if (case_.residual) inputs.pop_back();
  definition_ = define(case_.json, inputs, &output_shape_);
  std::vector<Format> formats;
  for (const Shape& shape : case_.inputs)
    formats.push_back({shape.rank() == 4 ? case_.layout : Layout::kPlain, case_.type});
  if (label_ >= 0) formats[static_cast<size_t>(label_)] = kPlainFp32;
  std::vector<bool> wanted;
  for (size_t i = 0; i < case_.inputs.size(); ++i) wanted.push_back(wants_gradient(i));
  layer_ = backend_.factory->make({.definition = *definition_,
                                   .input_shapes = case_.inputs,
                                   .output_shape = output_shape_,
                                   .input_formats = formats,
                                   .input_needs_gradient = wanted,
                                   .training = case_.training,
                                   .relu = case_.relu,
                                   .residual = case_.residual,
                                   .choice = case_.choice});
  REQUIRE(needs().input_formats.size() == case_.inputs.size());
}

/// Adds the label input, as a network does.
void LayerRunner::add_label_input() {
  const auto label =
      layers::make_definition(case_.json.at("type").get<std::string>())->label_input();
  if (label != std::ssize(case_.inputs)) return;
  label_ = label;
  const int64_t samples = std::ssize(case_.step.labels);
  case_.inputs.push_back(case_.step.mixup_labels.empty() ? Shape{samples, 1} : Shape{3, samples});
}

bool LayerRunner::wants_gradient(size_t input) const {
  if (static_cast<int>(input) == label_) return false;
  return case_.input_needs_gradient.empty() || case_.input_needs_gradient[input];
}

std::vector<Shape> LayerRunner::parameter_shapes() const {
  std::vector<Shape> shapes;
  for (const auto& spec : definition_->parameters()) shapes.push_back(spec.shape);
  return shapes;
}

std::vector<Shape> LayerRunner::statistic_shapes() const {
  std::vector<Shape> shapes;
  for (const auto& spec : definition_->statistics()) shapes.push_back(spec.shape);
  return shapes;
}

void LayerRunner::check_labels() const {
  layers::StepContext step = case_.step;
  step.numbers = &case_.numbers;
  definition_->check_labels(step);
}

void LayerRunner::bind(const LayerInputs& values, Memory& memory) const {
  auto& bound = memory.bindings;
  DeviceMemory& device = memory.of_device;
  for (size_t i = 0; i < case_.inputs.size(); ++i) {
    bound.inputs.push_back(device.take_tensor(case_.inputs[i], needs().input_formats[i]));
    if (static_cast<int>(i) == label_) {
      Values labels(case_.step.labels.begin(), case_.step.labels.end());
      labels.insert(labels.end(), case_.step.mixup_labels.begin(), case_.step.mixup_labels.end());
      device.store(labels, bound.inputs.back());
    } else {
      device.store(values.inputs[i], bound.inputs.back());
    }
  }
  bound.output = {nullptr, output_shape_, needs().output_format};
  const int shared = case_.in_place ? needs().forward_in_place : -1;
  if (shared >= 0)
    bound.output.data = bound.inputs[static_cast<size_t>(shared)].data;
  else
    bound.output = device.take_tensor(output_shape_, needs().output_format);
  for (size_t i = 0; i < values.parameters.size(); ++i) {
    const int index = static_cast<int>(i);
    float* value = device.take_floats(layer_->packed_count(index));
    layer_->pack(index, device.hold(values.parameters[i]), value);
    bound.parameters.push_back(
        {.value = value, .gradient = device.take_floats(layer_->packed_count(index))});
    if (!layer_->reads_rounded(index)) continue;
    const auto count = static_cast<size_t>(layer_->packed_count(index));
    auto* rounded = reinterpret_cast<Bf16*>(device.take(count * sizeof(Bf16)));
    layer_->round(index, value, rounded);
    bound.parameters.back().rounded = rounded;
  }
  for (const Values& statistic : values.statistics)
    bound.statistics.push_back({.value = device.hold(statistic),
                                .gradient = device.take(statistic.size() * sizeof(float))});
  bound.workspace = memory.take(needs().workspace_bytes);
  bound.scratch = memory.take(needs().scratch_bytes);
}

void LayerRunner::bind_backward(const LayerInputs& values, Memory& memory) const {
  auto& bound = memory.bindings;
  DeviceMemory& device = memory.of_device;
  for (const Values& gradient : values.output_gradients) {
    bound.output_gradients.push_back(device.take_tensor(output_shape_, needs().output_format));
    device.store(gradient, bound.output_gradients.back());
  }
  for (size_t i = 0; i < case_.inputs.size(); ++i) {
    Tensor tensor = bound.inputs[i];
    tensor.data = nullptr;
    const bool shared = case_.in_place && needs().backward_in_place == static_cast<int>(i);
    if (wants_gradient(i))
      tensor = shared ? Tensor{bound.output_gradients[0].data, tensor.shape, tensor.format}
                      : device.take_tensor(tensor.shape, tensor.format);
    bound.input_gradients.push_back(tensor);
  }
}

/// pack() writes zeros to the padding. So packing again must give the same bits as a packed
/// gradient with zero padding.
void LayerRunner::check_packed_padding(int index, const float* packed, const float* canonical,
                                       Memory& memory) const {
  if (layer_->packed_is_canonical(index)) return;
  const auto count = static_cast<size_t>(layer_->packed_count(index));
  float* again = memory.of_device.take(count * sizeof(float));
  layer_->pack(index, canonical, again);
  const Values got = memory.of_device.values_at(packed, count);
  const Values expected = memory.of_device.values_at(again, count);
  if (std::memcmp(got.data(), expected.data(), count * sizeof(float)) != 0)
    FAIL_CHECK("padding of the gradient of parameter " << index << " is not zero");
}

Values LayerRunner::forward(const LayerInputs& values) {
  Memory memory(*this);
  bind(values, memory);
  check_labels();
  layer_->forward(memory.step, memory.bindings);
  memory.of_device.check_padding_is_zero(memory.bindings.output);
  return memory.of_device.load(memory.bindings.output);
}

LayerResults LayerRunner::run(const LayerInputs& values) {
  Memory memory(*this);
  bind(values, memory);
  auto& bound = memory.bindings;
  DeviceMemory& device = memory.of_device;
  LayerResults results;
  check_labels();
  layer_->forward(memory.step, bound);
  device.check_padding_is_zero(bound.output);
  results.output = device.load(bound.output);
  for (size_t i = 0; i < bound.statistics.size(); ++i)
    results.statistics.push_back(
        device.values_at(bound.statistics[i].gradient, values.statistics[i].size()));
  bind_backward(values, memory);
  layer_->backward(memory.step, bound);
  for (size_t i = 0; i < bound.input_gradients.size(); ++i) {
    if (static_cast<int>(i) == label_) continue;
    const Tensor& gradient = bound.input_gradients[i];
    results.input_gradients.emplace_back();
    if (!gradient) continue;
    device.check_padding_is_zero(gradient);
    results.input_gradients.back() = device.load(gradient);
  }
  for (size_t i = 0; i < bound.parameters.size(); ++i) {
    const size_t count = values.parameters[i].size();
    float* canonical = device.take(count * sizeof(float));
    layer_->unpack(static_cast<int>(i), bound.parameters[i].gradient, canonical);
    check_packed_padding(static_cast<int>(i), bound.parameters[i].gradient, canonical, memory);
    results.parameter_gradients.push_back(device.values_at(canonical, count));
  }
  return results;
}

Values random_values(int64_t count, uint64_t seed, float low, float high) {
  RandomStream random(seed, RandomPurpose::kGeneration, 0, 0);
  Values values(static_cast<size_t>(count));
  for (float& value : values) value = random.next_uniform(low, high);
  return values;
}

LayerInputs random_inputs(const LayerRunner& runner, const LayerCase& layer_case,
                          size_t contributions, uint64_t seed) {
  LayerInputs values;
  uint64_t stream = seed * 100;
  for (const Shape& shape : layer_case.inputs)
    values.inputs.push_back(random_values(shape.count(), ++stream));
  for (const Shape& shape : runner.parameter_shapes())
    values.parameters.push_back(random_values(shape.count(), ++stream));
  for (const Shape& shape : runner.statistic_shapes())
    values.statistics.push_back(random_values(shape.count(), ++stream, 0.5F, 1.5F));
  if (runner.definition().is_loss()) return values;
  for (size_t i = 0; i < contributions; ++i)
    values.output_gradients.push_back(random_values(runner.output_shape().count(), ++stream));
  return values;
}

}  // namespace poseidon::test
