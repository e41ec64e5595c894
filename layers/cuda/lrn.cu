#include "layers/lrn.h"

#include "core/error.h"
#include "layers/cuda/lrn_packs.cuh"
#include "layers/cuda/lrn_windows.cuh"

namespace poseidon::layers::cuda {

namespace {

/// Converts a number of threads to 32 bits, because division of 32-bit indices is fast.
uint32_t lrn_threads(int64_t threads) {
  check(threads <= UINT32_MAX, "lrn: at most 2^32 packs");
  return static_cast<uint32_t>(threads);
}

/// Normalization across channels by packs. The channels of a position must fill whole packs, and a
/// window must reach at most into the adjacent packs. Forward and backward are one kernel each.
template <class Element, class Beta>
class LrnByPacks {
 public:
  static constexpr int kEach = kPack<Element>;

  LrnByPacks(const Shape& shape, const LrnConstants& constants, const Beta& beta)
      : packs_(lrn_threads(shape.count() / kEach)),
        packs_across_(static_cast<uint32_t>(shape.channels() / kEach)),
        constants_(constants),
        beta_(beta) {}

  size_t scratch_bytes() const { return 0; }

  void forward(CudaDevice& device, const Element* x, Element* y) const {
    device.launch_for(packs_, LrnPacksForwardKernel<Element, Beta>{.input = x,
                                                                   .output = y,
                                                                   .packs = packs_,
                                                                   .packs_across = packs_across_,
                                                                   .constants = constants_,
                                                                   .beta = beta_});
  }

  void backward(CudaDevice& device, const Element* x, const Element* g, Element* dx,
                std::byte*) const {
    using Kernel = LrnPacksBackwardKernel<Element, Beta>;
    device.launch(Kernel{.input = x,
                         .gradient = g,
                         .target = dx,
                         .packs = packs_,
                         .packs_across = packs_across_,
                         .constants = constants_,
                         .beta = beta_},
                  {.blocks = poseidon::cuda::blocks_for(packs_, Kernel::kWritten)});
  }

 private:
  uint32_t packs_, packs_across_;
  LrnConstants constants_;
  Beta beta_;
};

/// The method for any window. Backward has two passes. The first one writes q (lrn_powers.cuh) to
/// scratch memory.
template <class Element, int kEach, class Window, class Beta>
class LrnByWindows {
 public:
  LrnByWindows(const Shape& shape, const Window& window, const LrnConstants& constants,
               const Beta& beta)
      : count_(shape.count()), window_(window), constants_(constants), beta_(beta) {}

  size_t scratch_bytes() const { return bytes_of_elements<float>(count_); }

  void forward(CudaDevice& device, const Element* x, Element* y) const {
    device.launch_for(count_ / kEach, LrnForwardKernel<Element, kEach, Window, Beta>{pass(x), y});
  }

  void backward(CudaDevice& device, const Element* x, const Element* g, Element* dx,
                std::byte* scratch) const {
    auto* products = reinterpret_cast<float*>(scratch);
    device.launch_for(count_ / kEach,
                      LrnProductsKernel<Element, kEach, Window, Beta>{pass(x), g, products});
    device.launch_for(count_ / kEach,
                      LrnGradientKernel<Element, kEach, Window, Beta>{pass(x), g, products, dx});
  }

 private:
  LrnPass<Element, kEach, Window, Beta> pass(const Element* x) const {
    return {x, lrn_threads(count_ / kEach), window_, constants_, beta_};
  }

  int64_t count_;
  Window window_;
  LrnConstants constants_;
  Beta beta_;
};

template <class Element, class Method>
class CudaLrn final : public CudaLayer {
 public:
  CudaLrn(const LayerRequest& request, CudaDevice& device, const Method& method)
      : CudaLayer(request, device), method_(method) {
    needs_.backward_reads_inputs = true;
    if (request.training) needs_.scratch_bytes = method_.scratch_bytes();
  }

  void forward(const StepContext&, const Bindings& memory) override {
    method_.forward(device_, memory.inputs[0].as<Element>(), memory.output.as<Element>());
  }

  void backward(const StepContext&, const Bindings& memory) override {
    if (!memory.input_gradients[0]) return;
    const Tensor& gradient = combined_gradient(device_, memory, std::nullopt);
    method_.backward(device_, memory.inputs[0].as<Element>(), gradient.as<Element>(),
                     memory.input_gradients[0].as<Element>(), memory.scratch);
  }

 private:
  Method method_;
};

/// Makes the layer with LrnByPacks if the window allows it, else with LrnByWindows.
template <class Element, int kEach, class Beta>
std::unique_ptr<Layer> make_lrn_with(const LayerRequest& request, CudaDevice& device,
                                     const Lrn& lrn, const Beta& beta) {
  const LrnConstants constants{.k = static_cast<float>(lrn.k),
                               .alpha = static_cast<float>(lrn.scaled_alpha()),
                               .gradient = static_cast<float>(2 * lrn.scaled_alpha() * lrn.beta),
                               .half = static_cast<int>(lrn.size / 2)};
  const auto make = [&](const auto& method) -> std::unique_ptr<Layer> {
    return std::make_unique<CudaLrn<Element, std::decay_t<decltype(method)>>>(request, device,
                                                                              method);
  };
  const auto channels = static_cast<uint32_t>(lrn.input.channels());
  if (lrn.region == LrnRegion::kWithinChannel) {
    const WithinWindow window{channels, static_cast<uint32_t>(lrn.input.height()),
                              static_cast<uint32_t>(lrn.input.width())};
    return make(
        LrnByWindows<Element, kEach, WithinWindow, Beta>(lrn.input, window, constants, beta));
  }
  if constexpr (kEach > 1)
    if (constants.half <= kEach) return make(LrnByPacks<Element, Beta>(lrn.input, constants, beta));
  return make(LrnByWindows<Element, 1, AcrossWindow, Beta>(lrn.input, {channels}, constants, beta));
}

}  // namespace

std::unique_ptr<Layer> make_lrn(const LayerRequest& request, const LayerContext& context) {
  const auto& lrn = static_cast<const Lrn&>(request.definition);
  std::unique_ptr<Layer> layer;
  with_channels_of(
      request.input_formats[0].type, lrn.input.channels(), [&](auto element, auto each) {
        using Element = decltype(element);
        if (lrn.beta == 0.75)
          layer = make_lrn_with<Element, each>(request, context.device, lrn, BetaThreeQuarters{});
        else
          layer = make_lrn_with<Element, each>(request, context.device, lrn,
                                               AnyBeta{static_cast<float>(lrn.beta)});
      });
  return layer;
}

}  // namespace poseidon::layers::cuda
