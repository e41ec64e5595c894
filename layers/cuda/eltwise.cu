#include "layers/eltwise.h"

#include <algorithm>

#include "layers/cuda/channels.cuh"

namespace poseidon::layers::cuda {

namespace {

/// Length of the arrays of tensors in a kernel's arguments. More tensors need several launches or
/// additional copies.
constexpr size_t kTensorsAtOnce = 4;

/// Calls body(first, each) for the elements of one thread: `each` elements from `first` on. `each`
/// is an std::integral_constant. A thread has one pack. The last thread has the elements after the
/// last whole pack, with one call for each. `count`: number of elements of the tensor.
template <class Element, class Body>
POSEIDON_DEVICE void for_neighbours(const Thread& thread, uint32_t threads, int64_t count,
                                    const Body& body) {
  const int64_t first = (int64_t{thread.block()} * threads + thread.thread()) * kPack<Element>;
  if (first + kPack<Element> <= count)
    body(first, std::integral_constant<int, kPack<Element>>{});
  else
    for (int64_t i = first; i < count; ++i) body(i, std::integral_constant<int, 1>{});
}

struct SumOfTwo {
  static constexpr const char* kName = "sum of inputs";
  POSEIDON_DEVICE float operator()(float a, float b) const { return a + b; }
};
struct ProductOfTwo {
  static constexpr const char* kName = "product of inputs";
  POSEIDON_DEVICE float operator()(float a, float b) const { return a * b; }
};
struct MaximumOfTwo {
  static constexpr const char* kName = "maximum of inputs";
  POSEIDON_DEVICE float operator()(float a, float b) const {
    return b > a || b != b ? b : a;  // NaN if either is NaN
  }
};

/// out[i] = in[0][i] (op) in[1][i] (op) ..., followed by leaky relu if `slope` is not 1. `out` may
/// be any of the inputs.
template <class Element, class Operation>
struct JoinInputsKernel {
  static constexpr const char* kName = Operation::kName;
  static constexpr uint32_t kThreads = 256;

  const Element* in[kTensorsAtOnce];
  int inputs;
  Element* out;
  int64_t count;
  float slope;

  void visit(MemoryVisitor& visitor) const {
    for (int k = 0; k < inputs; ++k) visitor.reads(in[k], bytes_of_elements<Element>(count));
    visitor.writes(out, bytes_of_elements<Element>(count));
  }

  POSEIDON_DEVICE void operator()(const Thread& thread) const {
    for_neighbours<Element>(thread, kThreads, count, [this](int64_t first, auto each) {
      Channels<each> joined = load_channels<each>(in[0] + first);
      for (int k = 1; k < inputs; ++k) {
        const Channels<each> next = load_channels<each>(in[k] + first);
#pragma unroll
        for (int i = 0; i < each; ++i) joined[i] = Operation{}(joined[i], next[i]);
      }
#pragma unroll
      for (int i = 0; i < each; ++i) joined[i] *= joined[i] > 0 ? 1 : slope;
      store_channels<each>(out + first, joined);
    });
  }
};

/// The gradient of a sum, for several inputs at once. Each target receives the sum of in[k],
/// multiplied by the derivative of a fused relu. A target may be one of in[k].
template <class Element>
struct SumBackwardKernel {
  static constexpr const char* kName = "gradient of a sum";
  static constexpr uint32_t kThreads = 256;

  const Element* in[kContributions];
  int contributions;
  const Element* output;  ///< null: no relu
  Element* targets[kTensorsAtOnce];
  int wanted;
  int64_t count;
  float slope;

  void visit(MemoryVisitor& visitor) const {
    const size_t bytes = bytes_of_elements<Element>(count);
    for (int k = 0; k < contributions; ++k) visitor.reads(in[k], bytes);
    if (output != nullptr) visitor.reads(output, bytes);
    for (int k = 0; k < wanted; ++k) visitor.writes(targets[k], bytes);
  }

  POSEIDON_DEVICE void operator()(const Thread& thread) const {
    for_neighbours<Element>(thread, kThreads, count, [this](int64_t first, auto each) {
      Channels<each> sum = load_channels<each>(in[0] + first);
      for (int k = 1; k < contributions; ++k) {
        const Channels<each> other = load_channels<each>(in[k] + first);
#pragma unroll
        for (int i = 0; i < each; ++i) sum[i] += other[i];
      }
      if (output != nullptr) {
        const Channels<each> y = load_channels<each>(output + first);
#pragma unroll
        for (int i = 0; i < each; ++i) sum[i] = y[i] > 0 ? sum[i] : sum[i] * slope;
      }
      for (int k = 0; k < wanted; ++k) store_channels<each>(targets[k] + first, sum);
    });
  }
};

/// The gradient of a maximum for one input. Rivals are the other inputs. The gradient of an element
/// is zero if a rival is greater there, or if an earlier rival is equal.
template <class Element>
struct MaximumBackwardKernel {
  static constexpr const char* kName = "gradient of a maximum";
  static constexpr uint32_t kThreads = 256;

  const Element* gradient;
  const Element* input;
  const Element* rivals[kTensorsAtOnce];
  int count_of_rivals;
  int earlier;  ///< the first `earlier` rivals come before the input in the layer's order
  Element* target;
  int64_t count;

  void visit(MemoryVisitor& visitor) const {
    const size_t bytes = bytes_of_elements<Element>(count);
    visitor.reads(gradient, bytes);
    visitor.reads(input, bytes);
    for (int k = 0; k < count_of_rivals; ++k) visitor.reads(rivals[k], bytes);
    visitor.writes(target, bytes);
  }

  POSEIDON_DEVICE void operator()(const Thread& thread) const {
    for_neighbours<Element>(thread, kThreads, count, [this](int64_t first, auto each) {
      Channels<each> g = load_channels<each>(gradient + first);
      const Channels<each> x = load_channels<each>(input + first);
      for (int k = 0; k < count_of_rivals; ++k) {
        const Channels<each> rival = load_channels<each>(rivals[k] + first);
#pragma unroll
        for (int i = 0; i < each; ++i)
          if (rival[i] > x[i] || (k < earlier && rival[i] == x[i])) g[i] = 0;
      }
      store_channels<each>(target + first, g);
    });
  }
};

/// Launches a kernel of this file with one thread for each pack of elements.
template <class Element, class Kernel>
void launch_eltwise(CudaDevice& device, const Kernel& kernel) {
  device.launch_for(poseidon::cuda::blocks_for(kernel.count, kPack<Element>), kernel);
}

class CudaEltwise final : public CudaLayer {
 public:
  CudaEltwise(const LayerRequest& request, CudaDevice& device)
      : CudaLayer(request, device),
        operation_(static_cast<const Eltwise&>(request.definition).operation),
        relu_(request.relu) {
    needs_.backward_reads_output = relu_.has_value();
    if (operation_ == EltwiseOperation::kSum)
      needs_.forward_in_place = needs_.backward_in_place = 0;
    else
      needs_.backward_reads_inputs = true;
  }

  void forward(const StepContext&, const Bindings& memory) override {
    const float slope = relu_.value_or(1);
    switch (operation_) {
      case EltwiseOperation::kSum: return join<SumOfTwo>(memory.inputs, memory.output, slope);
      case EltwiseOperation::kProduct:
        return join<ProductOfTwo>(memory.inputs, memory.output, slope);
      case EltwiseOperation::kMaximum:
        return join<MaximumOfTwo>(memory.inputs, memory.output, slope);
    }
  }

  void backward(const StepContext&, const Bindings& memory) override {
    if (std::ranges::none_of(memory.input_gradients, &Tensor::operator bool)) return;
    if (operation_ == EltwiseOperation::kSum) return backward_sum(memory);
    const Tensor& gradient = combined_gradient(device_, memory, relu_);
    for (size_t k = 0; k < memory.inputs.size(); ++k) {
      if (!memory.input_gradients[k]) continue;
      if (operation_ == EltwiseOperation::kProduct)
        multiply_others(memory, k, gradient);
      else
        pass_to_maximum(memory, k, gradient);
    }
  }

 private:
  /// target = the tensors combined in order. One kernel combines at most kTensorsAtOnce tensors.
  /// Later kernels combine the target with the remaining tensors.
  template <class Operation>
  void join(std::vector<Tensor> tensors, const Tensor& target, float slope) {
    while (tensors.size() > kTensorsAtOnce) {
      const auto behind = tensors.begin() + kTensorsAtOnce;
      join_at_once<Operation>({tensors.begin(), behind}, target, 1);
      tensors.erase(tensors.begin() + 1, behind);
      tensors[0] = target;
    }
    join_at_once<Operation>(tensors, target, slope);
  }

  template <class Operation>
  void join_at_once(const std::vector<Tensor>& tensors, const Tensor& target, float slope) {
    with_element_of(target.format.type, [&](auto element) {
      using Element = decltype(element);
      JoinInputsKernel<Element, Operation> kernel{.in = {},
                                                  .inputs = static_cast<int>(tensors.size()),
                                                  .out = target.as<Element>(),
                                                  .count = count_of(target),
                                                  .slope = slope};
      for (size_t k = 0; k < tensors.size(); ++k) kernel.in[k] = tensors[k].as<Element>();
      launch_eltwise<Element>(device_, kernel);
    });
  }

  /// All inputs have the same gradient. The gradient of the first input may share memory with the
  /// output's gradient.
  void backward_sum(const Bindings& memory) {
    std::vector<Tensor> targets = memory.input_gradients;
    std::erase_if(targets, [](const Tensor& target) { return !target; });
    const std::vector<Tensor> gradients = gradients_for_one_pass(device_, memory);
    with_element_of(memory.output.format.type, [&](auto element) {
      using Element = decltype(element);
      SumBackwardKernel<Element> kernel{
          .in = {},
          .contributions = static_cast<int>(gradients.size()),
          .output = relu_ ? memory.output.as<Element>() : nullptr,
          .targets = {},
          .wanted = static_cast<int>(std::min(targets.size(), kTensorsAtOnce)),
          .count = count_of(memory.output),
          .slope = relu_.value_or(1)};
      for (size_t k = 0; k < gradients.size(); ++k) kernel.in[k] = gradients[k].as<Element>();
      for (int k = 0; k < kernel.wanted; ++k)
        kernel.targets[k] = targets[static_cast<size_t>(k)].as<Element>();
      launch_eltwise<Element>(device_, kernel);
      for (size_t k = kTensorsAtOnce; k < targets.size(); ++k)
        device_.copy(targets[0].data, targets[k].data, bytes_of_elements<Element>(kernel.count));
    });
  }

  void multiply_others(const Bindings& memory, size_t k, const Tensor& gradient) {
    std::vector<Tensor> factors = memory.inputs;
    factors[k] = gradient;
    std::swap(factors[0], factors[k]);
    join<ProductOfTwo>(factors, memory.input_gradients[k], 1);
  }

  /// Passes the gradient to input `k` where this input is the maximum. If several inputs are equal
  /// there, the first one receives the gradient.
  void pass_to_maximum(const Bindings& memory, size_t k, const Tensor& gradient) {
    with_element_of(gradient.format.type, [&](auto element) {
      using Element = decltype(element);
      MaximumBackwardKernel<Element> kernel{.gradient = gradient.as<Element>(),
                                            .input = memory.inputs[k].as<Element>(),
                                            .rivals = {},
                                            .count_of_rivals = 0,
                                            .earlier = 0,
                                            .target = memory.input_gradients[k].as<Element>(),
                                            .count = count_of(gradient)};
      const auto launch = [&] {
        launch_eltwise<Element>(device_, kernel);
        kernel.gradient = kernel.target;
        kernel.count_of_rivals = kernel.earlier = 0;
      };
      for (size_t other = 0; other < memory.inputs.size(); ++other) {
        if (other == k) continue;
        if (kernel.count_of_rivals == static_cast<int>(kTensorsAtOnce)) launch();
        kernel.rivals[kernel.count_of_rivals++] = memory.inputs[other].as<Element>();
        if (other < k) ++kernel.earlier;
      }
      launch();
    });
  }

  EltwiseOperation operation_;
  std::optional<float> relu_;
};

}  // namespace

std::unique_ptr<Layer> make_eltwise(const LayerRequest& request, const LayerContext& context) {
  return std::make_unique<CudaEltwise>(request, context.device);
}

}  // namespace poseidon::layers::cuda
