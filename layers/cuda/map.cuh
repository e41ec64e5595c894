#pragma once

#include "core/cuda/cuda_device.h"
#include "core/cuda/pack.cuh"
#include "core/tensor.h"
#include "layers/cuda/cuda_layer.h"

/// Elementwise kernels. GPU activations have no padding, so the layout does not matter. A thread
/// processes 16 bytes; the last thread processes the remaining elements.
namespace poseidon::layers::cuda {

using poseidon::cuda::kPack;
using poseidon::cuda::load_pack;
using poseidon::cuda::MemoryVisitor;
using poseidon::cuda::Pack;
using poseidon::cuda::store_pack;
using poseidon::cuda::Thread;

inline int64_t count_of(const Tensor& tensor) { return tensor.shape.count(); }

template <class Element>
size_t bytes_of_elements(int64_t count) {
  return static_cast<size_t>(count) * sizeof(Element);
}

/// out[i] = function(in[i]). `out` may be `in`.
template <class Element, class Function>
struct MapKernel {
  static constexpr const char* kName = Function::kName;
  static constexpr uint32_t kThreads = 256;

  const Element* in;
  Element* out;
  int64_t count;
  Function function;

  void visit(MemoryVisitor& visitor) const {
    visitor.reads(in, bytes_of_elements<Element>(count));
    visitor.writes(out, bytes_of_elements<Element>(count));
  }

  POSEIDON_DEVICE void operator()(const Thread& thread) const {
    const int64_t first = (int64_t{thread.block()} * kThreads + thread.thread()) * kPack<Element>;
    if (first + kPack<Element> <= count) {
      Pack<Element> pack = load_pack(in + first);
#pragma unroll
      for (int i = 0; i < kPack<Element>; ++i) pack[i] = function(pack[i]);
      store_pack(out + first, pack);
    } else {
      for (int64_t i = first; i < count; ++i) out[i] = function(static_cast<float>(in[i]));
    }
  }
};

/// Issues output = function(input), element by element. `Function` maps a float to a float and
/// defines the kernel's name, kName.
template <class Function>
void map(CudaDevice& device, const Tensor& input, const Tensor& output, const Function& function) {
  with_element_of(input.format.type, [&](auto element) {
    using Element = decltype(element);
    const int64_t count = count_of(input);
    device.launch_for(
        poseidon::cuda::blocks_for(count, kPack<Element>),
        MapKernel<Element, Function>{input.as<Element>(), output.as<Element>(), count, function});
  });
}

/// Limit on the number of output gradients that one pass sums. Each consumer of the output adds one
/// (Bindings::output_gradients).
inline constexpr int kContributions = 4;

/// out[i] = function(sum of in[k][i] in order of k, output[i]). `out` may be in[k] or `output`.
template <class Element, class Function>
struct MapGradientKernel {
  static constexpr const char* kName = Function::kName;
  static constexpr uint32_t kThreads = 256;

  const Element* in[kContributions];
  int contributions;
  const Element* output;  ///< null: the function receives zeros
  Element* out;
  int64_t count;
  Function function;

  void visit(MemoryVisitor& visitor) const {
    for (int k = 0; k < contributions; ++k) visitor.reads(in[k], bytes_of_elements<Element>(count));
    if (output != nullptr) visitor.reads(output, bytes_of_elements<Element>(count));
    visitor.writes(out, bytes_of_elements<Element>(count));
  }

  POSEIDON_DEVICE void operator()(const Thread& thread) const {
    const int64_t first = (int64_t{thread.block()} * kThreads + thread.thread()) * kPack<Element>;
    if (first + kPack<Element> <= count)
      whole_pack(first);
    else
      for (int64_t i = first; i < count; ++i) one(i);
  }

  POSEIDON_DEVICE void whole_pack(int64_t first) const {
    Pack<Element> sum = load_pack(in[0] + first);
    for (int k = 1; k < contributions; ++k) {
      const Pack<Element> other = load_pack(in[k] + first);
#pragma unroll
      for (int i = 0; i < kPack<Element>; ++i) sum[i] += other[i];
    }
    Pack<Element> y{};
    if (output != nullptr) y = load_pack(output + first);
#pragma unroll
    for (int i = 0; i < kPack<Element>; ++i) sum[i] = function(sum[i], y[i]);
    store_pack(out + first, sum);
  }

  POSEIDON_DEVICE void one(int64_t i) const {
    float sum = in[0][i];
    for (int k = 1; k < contributions; ++k) sum += in[k][i];
    out[i] = function(sum, output == nullptr ? 0.0F : static_cast<float>(output[i]));
  }
};

struct Same {
  static constexpr const char* kName = "sum of gradients";
  POSEIDON_DEVICE float operator()(float sum, float) const { return sum; }
};

/// Issues target = function(sum of `gradients`, output), element by element. There are at most
/// kContributions gradients. `output` may be a null tensor.
template <class Function>
void map_gradients(CudaDevice& device, const std::vector<Tensor>& gradients, const Tensor& output,
                   const Tensor& target, const Function& function) {
  with_element_of(target.format.type, [&](auto element) {
    using Element = decltype(element);
    MapGradientKernel<Element, Function> kernel{.in = {},
                                                .contributions = static_cast<int>(gradients.size()),
                                                .output = output.as<Element>(),
                                                .out = target.as<Element>(),
                                                .count = count_of(target),
                                                .function = function};
    for (size_t k = 0; k < gradients.size(); ++k) kernel.in[k] = gradients[k].as<Element>();
    device.launch_for(poseidon::cuda::blocks_for(kernel.count, kPack<Element>), kernel);
  });
}

/// Returns at most kContributions tensors whose sum is the gradient of the output. If there are
/// more output gradients, first issues additions that store partial sums in output_gradients[0].
inline std::vector<Tensor> gradients_for_one_pass(CudaDevice& device, const Bindings& memory) {
  std::vector<Tensor> gradients = memory.output_gradients;
  while (gradients.size() > kContributions) {
    const std::vector<Tensor> some(gradients.begin(), gradients.begin() + kContributions);
    map_gradients(device, some, {}, gradients[0], Same{});
    gradients.erase(gradients.begin() + 1, gradients.begin() + kContributions);
  }
  return gradients;
}

/// Issues target = function(sum of memory.output_gradients, output), element by element. `output`
/// may be a null tensor.
template <class Function>
void map_gradient(CudaDevice& device, const Bindings& memory, const Tensor& output,
                  const Tensor& target, const Function& function) {
  map_gradients(device, gradients_for_one_pass(device, memory), output, target, function);
}

}  // namespace poseidon::layers::cuda
