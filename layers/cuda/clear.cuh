#pragma once

#include "layers/cuda/map.cuh"

namespace poseidon::layers::cuda {

/// out[i] = 0.
template <class Element>
struct ClearKernel {
  static constexpr const char* kName = "zeros";
  static constexpr uint32_t kThreads = 256;

  Element* out;
  int64_t count;

  void visit(MemoryVisitor& visitor) const {
    visitor.writes(out, bytes_of_elements<Element>(count));
  }

  POSEIDON_DEVICE void operator()(const Thread& thread) const {
    const int64_t first = (int64_t{thread.block()} * kThreads + thread.thread()) * kPack<Element>;
    if (first + kPack<Element> <= count)
      store_pack(out + first, Pack<Element>{});
    else
      for (int64_t i = first; i < count; ++i) out[i] = 0.0F;
  }
};

/// Issues tensor = 0.
inline void clear(CudaDevice& device, const Tensor& tensor) {
  with_element_of(tensor.format.type, [&](auto element) {
    using Element = decltype(element);
    const int64_t count = tensor.blocking().count();
    device.launch_for(poseidon::cuda::blocks_for(count, kPack<Element>),
                      ClearKernel<Element>{tensor.as<Element>(), count});
  });
}

}  // namespace poseidon::layers::cuda
