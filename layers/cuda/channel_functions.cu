#include "layers/channel_rules.h"
#include "layers/cuda/channel_passes.cuh"
#include "layers/cuda/widen.h"

namespace poseidon::layers::cuda {

namespace {

using Source = ChannelOperand::Source;

/// A layer with factors, summands or both (layers/channel_functions.h). The layer processes a
/// matrix of positions x channels. If each sample has separate factors, each sample is a separate
/// matrix. Scratch memory holds first the factors, if they must be converted from bf16 to fp32, and
/// then the sums of bands.
template <class Element, int kEach, class Rule>
class CudaChannelFunction final : public CudaLayer {
 public:
  CudaChannelFunction(const LayerRequest& request, CudaDevice& device)
      : CudaLayer(request, device),
        definition_(static_cast<const ChannelFunction&>(request.definition)),
        factor_(definition_.factor()),
        summand_(definition_.summand()),
        tiling_(tiling_of(definition_.input, factor_.of_each_sample())) {
    needs_.backward_reads_inputs = Rule::kReadsInput;
    needs_.forward_in_place = request.training && Rule::kReadsInput ? -1 : 0;
    needs_.backward_in_place = 0;
    needs_.scratch_bytes =
        factor_bytes() + bytes_of_elements<ChannelSums>(tiling_.values_of_bands());
  }

  void forward(const StepContext&, const Bindings& memory) override {
    using Kernel = ChannelForwardKernel<Element, kEach, Rule>;
    device_.launch(Kernel{.tiling = tiling_,
                          .in = memory.inputs[0].as<Element>(),
                          .out = memory.output.as<Element>(),
                          .factors = factors(memory),
                          .summands = values_of(memory, summand_)},
                   tiling_.grid());
  }

  void backward(const StepContext&, const Bindings& memory) override {
    using Kernel = ChannelBackwardKernel<Element, kEach, Rule>;
    const std::vector<Tensor> some = gradients_for_one_pass(device_, memory);
    auto* of_bands = reinterpret_cast<ChannelSums*>(memory.scratch + factor_bytes());
    Kernel kernel{.tiling = tiling_,
                  .in = {},
                  .contributions = static_cast<int>(some.size()),
                  .input = Rule::kReadsInput ? memory.inputs[0].as<Element>() : nullptr,
                  .target = memory.input_gradients[0].as<Element>(),
                  .factors = factors(memory),
                  .of_bands = of_bands};
    for (size_t k = 0; k < some.size(); ++k) kernel.in[k] = some[k].as<Element>();
    device_.launch(kernel, tiling_.grid());
    const auto rows = static_cast<uint32_t>(tiling_.matrices);
    if (summand_) write_sums<float>(of_bands, false, rows, summand_, gradient(memory, summand_));
    if (factor_.source == Source::kParameter)
      write_sums<float>(of_bands, true, rows, factor_, gradient(memory, factor_));
    if (factor_.source == Source::kInput)
      if (const Tensor& target = memory.input_gradients[at(factor_)]; target)
        write_sums<Element>(of_bands, true, 1, factor_, target.as<Element>());
  }

 private:
  static MatrixTiling tiling_of(const Shape& shape, bool each_sample) {
    const int64_t matrices = each_sample ? shape.samples() : 1;
    return {matrices, shape.samples() * shape.area() / matrices, shape.channels(), kEach};
  }
  static size_t at(const ChannelOperand& operand) { return static_cast<size_t>(operand.index); }
  static float* gradient(const Bindings& memory, const ChannelOperand& operand) {
    return memory.parameters[at(operand)].gradient;
  }

  bool widens() const { return factor_.source == Source::kInput && sizeof(Element) == 2; }
  uint32_t factor_count() const {
    return static_cast<uint32_t>(factor_.channels) *
           (factor_.of_each_sample() ? tiling_.matrices : 1);
  }
  size_t factor_bytes() const {
    return widens() ? (bytes_of_elements<float>(factor_count()) + 63) / 64 * 64 : 0;
  }

  ChannelValues values_of(const Bindings& memory, const ChannelOperand& operand) const {
    if (operand.source != Source::kParameter) return {};
    return {.values = memory.parameters[at(operand)].value,
            .one = operand.channels != definition_.input.channels(),
            .count = static_cast<uint32_t>(operand.channels)};
  }

  ChannelValues factors(const Bindings& memory) const {
    if (factor_.source != Source::kInput) return values_of(memory, factor_);
    const Tensor& given = memory.inputs[at(factor_)];
    const float* values = given.as<float>();
    if (widens()) {
      auto* wide = reinterpret_cast<float*>(memory.scratch);
      device_.issue(widening(given.as<Bf16>(), wide, factor_count()));
      values = wide;
    }
    return {.values = values,
            .one = factor_.channels != definition_.input.channels(),
            .of_matrix = static_cast<uint32_t>(factor_.channels),
            .count = factor_count()};
  }

  /// Issues the gradient of the factors (`of_factor`) or of the summands: the sums over the bands.
  /// If there is one value for all channels, also sums over the channels. `parts`: number of
  /// matrices that one result sums over, 1 or all.
  template <class Value>
  void write_sums(const ChannelSums* of_bands, bool of_factor, uint32_t parts,
                  const ChannelOperand& operand, Value* to) {
    const auto values = static_cast<uint32_t>(operand.channels);
    const uint32_t outputs = values * (tiling_.matrices / parts);
    const ChannelSumsKernel<Value> kernel{
        .in = of_bands,
        .of_factor = of_factor,
        .parts = parts,
        .outputs = outputs,
        .run = tiling_.of_one.bands * (tiling_.of_one.channels / values),
        .out = to};
    device_.launch(kernel, ChannelWarp::grid(outputs));
  }

  const ChannelFunction& definition_;
  ChannelOperand factor_, summand_;
  MatrixTiling tiling_;
};

}  // namespace

std::unique_ptr<Layer> make_channel_function(const LayerRequest& request,
                                             const LayerContext& context) {
  std::unique_ptr<Layer> layer;
  const auto& definition = static_cast<const ChannelFunction&>(request.definition);
  with_channel_rule_of(definition, [&](auto rule) {
    with_channels_of(request.input_formats[0].type, definition.input.channels(),
                     [&](auto element, auto each) {
                       using Made = CudaChannelFunction<decltype(element), each, decltype(rule)>;
                       layer = std::make_unique<Made>(request, context.device);
                     });
  });
  return layer;
}

}  // namespace poseidon::layers::cuda
