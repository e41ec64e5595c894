#include "layers/eltwise.h"

#include "layers/cpu/elementwise.h"

namespace poseidon::layers::cpu {

namespace {

struct Sum {
  static float join(float a, float b) { return a + b; }
};
struct Product {
  static float join(float a, float b) { return a * b; }
};
struct Maximum {
  /// NaN if `a` or `b` is NaN.
  static float join(float a, float b) { return b > a || b != b ? b : a; }
};

/// output = a (op) b. Applies a leaky relu if `slope` is not 1.
template <class Operation, class Element>
void join(ThreadTeam& team, const Element* a, const Element* b, Element* output, int64_t count,
          float slope) {
  for_each_element(team, count, [=](int64_t i) {
    const float joined = Operation::join(a[i], b[i]);
    output[i] = joined * (joined > 0 ? 1 : slope);
  });
}

template <class Operation, class Element>
void join_all(ThreadTeam& team, const Bindings& memory, float slope) {
  const int64_t count = memory.output.blocking().count();
  const size_t last = memory.inputs.size() - 1;
  const auto* so_far = memory.inputs[0].as<Element>();
  for (size_t k = 1; k <= last; ++k) {
    join<Operation>(team, so_far, memory.inputs[k].as<Element>(), memory.output.as<Element>(),
                    count, k == last ? slope : 1);
    so_far = memory.output.as<Element>();
  }
}

template <class Element>
class CpuEltwise final : public CpuLayer {
 public:
  CpuEltwise(const LayerRequest& request, CpuDevice& device)
      : CpuLayer(request, device),
        operation_(static_cast<const Eltwise&>(request.definition).operation),
        relu_(request.relu) {
    needs_.output_format = common_format(request);
    needs_.input_formats.assign(request.input_shapes.size(), needs_.output_format);
    needs_.backward_reads_output = relu_.has_value();
    if (operation_ == EltwiseOperation::kSum)
      needs_.forward_in_place = needs_.backward_in_place = 0;
    else
      needs_.backward_reads_inputs = true;
  }

  void forward(const StepContext&, const Bindings& memory) override {
    const float slope = relu_.value_or(1);
    switch (operation_) {
      case EltwiseOperation::kSum: return join_all<Sum, Element>(team(), memory, slope);
      case EltwiseOperation::kProduct: return join_all<Product, Element>(team(), memory, slope);
      case EltwiseOperation::kMaximum: return join_all<Maximum, Element>(team(), memory, slope);
    }
  }

  void backward(const StepContext&, const Bindings& memory) override {
    if (operation_ == EltwiseOperation::kSum) return backward_sum(memory);
    const auto* gradient = combined_gradient(team(), memory, relu_).template as<Element>();
    const int64_t count = memory.output.blocking().count();
    for (size_t k = 0; k < memory.inputs.size(); ++k) {
      auto* target = memory.input_gradients[k].as<Element>();
      if (target == nullptr) continue;
      if (operation_ == EltwiseOperation::kProduct)
        multiply_others(memory, k, gradient, target, count);
      else
        pass_to_maximum(memory, k, gradient, target, count);
    }
  }

 private:
  /// All inputs have the same gradient. The first input's gradient may be in the memory of the
  /// output's gradient, so it is written last.
  void backward_sum(const Bindings& memory) const {
    const Tensor gradient = memory.output_gradients[0];
    combined_gradient(team(), memory, relu_);
    for (size_t k = memory.inputs.size(); k-- > 0;)
      if (memory.input_gradients[k]) copy(team(), gradient, memory.input_gradients[k]);
  }

  void multiply_others(const Bindings& memory, size_t k, const Element* gradient, Element* target,
                       int64_t count) const {
    const Element* so_far = gradient;
    for (size_t other = 0; other < memory.inputs.size(); ++other) {
      if (other == k) continue;
      join<Product>(team(), so_far, memory.inputs[other].as<Element>(), target, count, 1);
      so_far = target;
    }
  }

  /// If several inputs have the maximum, only the first of these inputs receives the gradient.
  void pass_to_maximum(const Bindings& memory, size_t k, const Element* gradient, Element* target,
                       int64_t count) const {
    const auto* input = memory.inputs[k].as<Element>();
    copy(team(), {const_cast<Element*>(gradient), memory.output.shape, memory.output.format},
         memory.input_gradients[k]);
    for (size_t other = 0; other < memory.inputs.size(); ++other) {
      if (other == k) continue;
      const auto* rival = memory.inputs[other].as<Element>();
      const bool earlier = other < k;
      for_each_element(team(), count, [=](int64_t i) {
        const bool beaten = earlier ? rival[i] >= input[i] : rival[i] > input[i];
        target[i] = beaten ? 0.0F : static_cast<float>(target[i]);
      });
    }
  }

  EltwiseOperation operation_;
  std::optional<float> relu_;
};

}  // namespace

std::unique_ptr<Layer> make_eltwise(const LayerRequest& request, CpuDevice& device) {
  return make_for_element_of<CpuEltwise>(common_format(request), request, device);
}

}  // namespace poseidon::layers::cpu
