#include "tests/support/layer_runner.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "core/bf16.h"
#include "core/philox.h"
#include "layers/cpu/reorder.h"
#include "layers/registry.h"

namespace poseidon::test {

using layers::Layer;
using layers::LayerRequest;

namespace {

/// Memory in which every float is a NaN.
Buffer poisoned(size_t bytes) {
  Buffer buffer(std::max<size_t>(bytes, 64));
  std::memset(buffer.data(), 0xFF, buffer.bytes());
  return buffer;
}

Buffer poisoned_floats(int64_t count) {
  return poisoned(static_cast<size_t>(count) * sizeof(float));
}

Buffer poisoned_tensor(const Tensor& tensor) {
  return poisoned(stored_bytes(tensor.shape, tensor.format));
}

void store(const Values& canonical, const Tensor& target) {
  REQUIRE(static_cast<int64_t>(canonical.size()) == target.shape.count());
  layers::cpu::reorder({const_cast<float*>(canonical.data()), target.shape, kPlainFp32}, target);
}

Values load(const Tensor& source) {
  Values canonical(static_cast<size_t>(source.shape.count()));
  layers::cpu::reorder(source, {canonical.data(), source.shape, kPlainFp32});
  return canonical;
}

float element(const Tensor& tensor, int64_t place) {
  if (tensor.format.type == DataType::kBf16) return tensor.as<Bf16>()[place];
  return tensor.as<float>()[place];
}

void check_padding_is_zero(const Tensor& tensor) {
  const Blocking b = tensor.blocking();
  for (int64_t n = 0; n < b.samples; ++n)
    for (int64_t c = b.channels; c < b.blocks * b.block; ++c)
      for (int64_t p = 0; p < b.area; ++p)
        if (element(tensor, b.offset(n, c, p)) != 0) {
          FAIL_CHECK("padding lane is not zero: sample " << n << ", lane " << c);
          return;
        }
}

}  // namespace

struct LayerRunner::Memory {
  std::vector<Buffer> buffers;
  layers::Bindings bindings;

  float* keep(Buffer buffer) {
    buffers.push_back(std::move(buffer));
    return static_cast<float*>(buffers.back().data());
  }
};

layers::StepContext usual_step() {
  layers::StepContext step;
  step.seed = 7;
  step.step = 3;
  return step;
}

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
  // A fused residual is no input of the definition.
  std::vector<Shape> inputs = case_.inputs;
  if (case_.residual) inputs.pop_back();
  definition_ = define(case_.json, inputs, &output_shape_);
  std::vector<Format> formats;
  for (const Shape& shape : case_.inputs)
    formats.push_back({shape.rank() == 4 ? case_.layout : Layout::kPlain, case_.type});
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

bool LayerRunner::wants_gradient(size_t input) const {
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

void LayerRunner::bind(const LayerInputs& values, Memory& memory) const {
  auto& bound = memory.bindings;
  for (size_t i = 0; i < case_.inputs.size(); ++i) {
    Tensor input{nullptr, case_.inputs[i], needs().input_formats[i]};
    input.data = memory.keep(poisoned_tensor(input));
    bound.inputs.push_back(input);
    store(values.inputs[i], bound.inputs.back());
  }
  bound.output = {nullptr, output_shape_, needs().output_format};
  const int shared = case_.in_place ? needs().forward_in_place : -1;
  bound.output.data = shared >= 0 ? bound.inputs[static_cast<size_t>(shared)].data
                                  : memory.keep(poisoned_tensor(bound.output));
  for (size_t i = 0; i < values.parameters.size(); ++i) {
    const int index = static_cast<int>(i);
    float* value = memory.keep(poisoned_floats(layer_->packed_count(index)));
    layer_->pack(index, values.parameters[i].data(), value);
    bound.parameters.push_back({value, memory.keep(poisoned_floats(layer_->packed_count(index)))});
  }
  for (const Values& statistic : values.statistics) {
    const auto count = static_cast<int64_t>(statistic.size());
    float* value = memory.keep(poisoned_floats(count));
    std::copy(statistic.begin(), statistic.end(), value);
    bound.statistics.push_back({value, memory.keep(poisoned_floats(count))});
  }
  finish();
  bound.workspace = reinterpret_cast<std::byte*>(memory.keep(poisoned(needs().workspace_bytes)));
  bound.scratch = reinterpret_cast<std::byte*>(memory.keep(poisoned(needs().scratch_bytes)));
}

void LayerRunner::bind_backward(const LayerInputs& values, Memory& memory) const {
  auto& bound = memory.bindings;
  for (const Values& gradient : values.output_gradients) {
    Tensor tensor = bound.output;
    tensor.data = memory.keep(poisoned_tensor(tensor));
    store(gradient, tensor);
    bound.output_gradients.push_back(tensor);
  }
  for (size_t i = 0; i < case_.inputs.size(); ++i) {
    Tensor tensor = bound.inputs[i];
    tensor.data = nullptr;
    const bool shared = case_.in_place && needs().backward_in_place == static_cast<int>(i);
    if (wants_gradient(i))
      tensor.data = shared ? bound.output_gradients[0].data : memory.keep(poisoned_tensor(tensor));
    bound.input_gradients.push_back(tensor);
  }
}

Values LayerRunner::forward(const LayerInputs& values) {
  Memory memory;
  bind(values, memory);
  definition_->check_labels(case_.step);
  layer_->forward(case_.step, memory.bindings);
  finish();
  check_padding_is_zero(memory.bindings.output);
  return load(memory.bindings.output);
}

LayerResults LayerRunner::run(const LayerInputs& values) {
  Memory memory;
  bind(values, memory);
  auto& bound = memory.bindings;
  LayerResults results;
  definition_->check_labels(case_.step);
  layer_->forward(case_.step, bound);
  finish();
  check_padding_is_zero(bound.output);
  results.output = load(bound.output);
  for (size_t i = 0; i < bound.statistics.size(); ++i)
    results.statistics.emplace_back(bound.statistics[i].gradient,
                                    bound.statistics[i].gradient + values.statistics[i].size());
  bind_backward(values, memory);
  layer_->backward(case_.step, bound);
  finish();
  for (const Tensor& gradient : bound.input_gradients) {
    results.input_gradients.emplace_back();
    if (!gradient) continue;
    check_padding_is_zero(gradient);
    results.input_gradients.back() = load(gradient);
  }
  for (size_t i = 0; i < bound.parameters.size(); ++i) {
    Values canonical(values.parameters[i].size());
    layer_->unpack(static_cast<int>(i), bound.parameters[i].gradient, canonical.data());
    finish();
    results.parameter_gradients.push_back(canonical);
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
