#include "layers/pooling.h"

#include "core/error.h"
#include "layers/cuda/pooling_backward.cuh"
#include "layers/cuda/pooling_even.cuh"
#include "layers/cuda/pooling_forward.cuh"
#include "layers/cuda/pooling_stochastic.cuh"

namespace poseidon::layers::cuda {

namespace {

/// Max and average pooling: from this many cells on, the threads of a block share a window.
constexpr int64_t kLargeWindow = 32;

class CudaPooling final : public CudaLayer {
 public:
  CudaPooling(const LayerRequest& request, CudaDevice& device)
      : CudaLayer(request, device),
        pooling_(static_cast<const Pooling&>(request.definition)),
        plan_(plan_of(pooling_)),
        cells_(pooling_.kernel[0] * pooling_.kernel[1]) {
    if (!pooling_.stores_chosen_cell() || !request.training) return;
    if (cells_ > UINT16_MAX)
      throw ConfigError(text("[pooling '", name_, "'] training supports windows of at most ",
                             UINT16_MAX, " cells"));
    // Forward stores the place of each selected cell, in one or two bytes. For each cell, backward
    // then reads only the places of the windows that contain the cell. Without places it would read
    // all cells of these windows, and the net would have to keep the input.
    needs_.workspace_bytes = static_cast<size_t>(plan_.outputs()) *
                             (has_small_places() ? sizeof(uint8_t) : sizeof(uint16_t));
  }

  void forward(const StepContext& step, const Bindings& memory) override {
    with_kernels([&](auto element, auto width, auto place) {
      using Element = decltype(element);
      using Place = decltype(place);
      switch (pooling_.method) {
        case PoolingMethod::kMax:
          return launch_forward<Element, width, MaximumOfWindow<Element, width, Place>>(memory);
        case PoolingMethod::kAverage:
          return launch_forward<Element, width, MeanOfWindow<Element, width>>(memory);
        case PoolingMethod::kStochastic: break;
      }
      if (step.phase == Phase::kTrain)
        launch_for_windows<width>(StochasticPoolingKernel<Element, width, Place>{
            {forward_of<Element, width, CellOfWindow<Element, width, Place>>(memory)},
            step.numbers,
            random_key(name_)});
      else
        launch_for_windows<width>(WeightedPoolingKernel<Element, width>{
            {forward_of<Element, width, CellOfWindow<Element, width, uint8_t>>(memory)}});
    });
  }

  void backward(const StepContext& step, const Bindings& memory) override {
    check(pooling_.has_gradient(step.phase), "the pooling has a gradient in this phase");
    if (!memory.input_gradients[0]) return;
    const Tensor& gradient = combined_gradient(device_, memory, std::nullopt);
    with_kernels([&](auto element, auto width, auto place) {
      using Element = decltype(element);
      using Place = decltype(place);
      const PoolingBackward<Element, width> common{
          .plan = plan_,
          .sites = {plan_.channels / width, plan_.rows.input, plan_.columns.input},
          .gradient = gradient.as<Element>(),
          .target = memory.input_gradients[0].as<Element>()};
      const int64_t threads = plan_.inputs() / width;
      if (pooling_.stores_chosen_cell())
        device_.launch_for(threads,
                           TakenPoolingBackwardKernel<Element, width, Place>{
                               {common}, reinterpret_cast<const Place*>(memory.workspace)});
      else
        device_.launch_for(threads, MeanPoolingBackwardKernel<Element, width>{{common}});
    });
  }

 private:
  /// True if a place in a window fits into a byte.
  bool has_small_places() const { return cells_ <= UINT8_MAX + 1; }

  /// Calls use(element, width, place). `element` and `place` have the types of the elements and
  /// places. `width` is the number of channels of a thread, as a constant.
  template <class Use>
  void with_kernels(const Use& use) const {
    with_element_of(needs_.output_format.type, [&](auto element) {
      with_channels_of<decltype(element)>(plan_.channels, [&](auto width) {
        if (has_small_places())
          use(element, width, uint8_t{});
        else
          use(element, width, uint16_t{});
      });
    });
  }

  /// The tensors and sites for a kernel with one thread for each window and group of channels.
  template <class Element, int kWidth, class Method>
  PoolingForward<Element, kWidth, Method> forward_of(const Bindings& memory) const {
    const bool keeps_places = needs_.workspace_bytes > 0;
    return {.plan = plan_,
            .sites = {plan_.channels / kWidth, plan_.rows.output, plan_.columns.output},
            .in = memory.inputs[0].as<Element>(),
            .out = memory.output.as<Element>(),
            .places = keeps_places ? reinterpret_cast<typename Method::Place*>(memory.workspace)
                                   : nullptr};
  }
  template <int kWidth, class Kernel>
  void launch_for_windows(const Kernel& kernel) {
    device_.launch_for(plan_.outputs() / kWidth, kernel);
  }

  template <class Element, int kWidth, class Method>
  void launch_forward(const Bindings& memory) {
    auto common = forward_of<Element, kWidth, Method>(memory);
    if (cells_ < kLargeWindow)
      return launch_for_windows<kWidth>(PoolingKernel<Element, kWidth, Method>{{common}});
    using Large = LargePoolingKernel<Element, kWidth, Method>;
    const int64_t across = (plan_.channels / kWidth + Large::kGroups - 1) / Large::kGroups;
    common.sites = {across, plan_.rows.output, plan_.columns.output};
    const int64_t sites = plan_.outputs() / plan_.channels * across;
    device_.launch(Large{{common}}, {.blocks = static_cast<uint32_t>(sites)});
  }

  const Pooling& pooling_;
  const PoolingPlan plan_;
  const int64_t cells_;  ///< cells of a window
};

/// Adaptive average pooling, over windows that divide the input evenly.
template <class Element, int kWidth>
class CudaEvenPooling final : public CudaLayer {
 public:
  CudaEvenPooling(const LayerRequest& request, CudaDevice& device)
      : CudaLayer(request, device), plan_(static_cast<const Pooling&>(request.definition)) {}

  void forward(const StepContext&, const Bindings& memory) override {
    device_.launch_for(plan_.outputs() / kWidth,
                       EvenPoolingKernel<Element, kWidth>{
                           .plan = plan_,
                           .sites = sites_of(plan_.rows.windows, plan_.columns.windows),
                           .in = memory.inputs[0].as<Element>(),
                           .out = memory.output.as<Element>()});
  }

  void backward(const StepContext&, const Bindings& memory) override {
    if (!memory.input_gradients[0]) return;
    const Tensor& gradient = combined_gradient(device_, memory, std::nullopt);
    device_.launch_for(plan_.inputs() / kWidth,
                       EvenPoolingBackwardKernel<Element, kWidth>{
                           .plan = plan_,
                           .sites = sites_of(plan_.rows.cells, plan_.columns.cells),
                           .gradient = gradient.as<Element>(),
                           .target = memory.input_gradients[0].as<Element>()});
  }

 private:
  PoolingSites sites_of(const Divisor& rows, const Divisor& columns) const {
    return {plan_.channels / kWidth, static_cast<int32_t>(rows.value()),
            static_cast<int32_t>(columns.value())};
  }

  const EvenPlan plan_;
};

}  // namespace

std::unique_ptr<Layer> make_pooling(const LayerRequest& request, const LayerContext& context) {
  if (static_cast<const Pooling&>(request.definition).is_even())
    return make_for_channels<CudaEvenPooling>(request, context.device);
  return std::make_unique<CudaPooling>(request, context.device);
}

}  // namespace poseidon::layers::cuda
