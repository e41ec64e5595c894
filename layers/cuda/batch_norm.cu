#include "layers/batch_norm.h"

#include "layers/cuda/batch_norm_backward.cuh"
#include "layers/cuda/batch_norm_forward.cuh"
#include "layers/cuda/channel_arrays.h"

namespace poseidon::layers::cuda {

namespace {

/// Template argument of the batch norm kernels, whose names begin with this layer type.
struct OfBatchNorm {
  static constexpr const char* kType = "batch_norm";
};

/// Batch norm over a matrix of all positions x channels. In training, forward reads the input twice
/// and writes the output. With a fused relu, it also writes a bit for each output, which is set if
/// the output is above zero. Backward reads the gradient, the input and these bits twice, and
/// writes the input gradient. If there are several output gradients, or if the residual needs a
/// gradient, the first pass of backward writes g: the sum of the output gradients, times the
/// derivative of the relu. The second pass then reads g instead of these gradients and bits.
template <class Element, int kEach>
class CudaBatchNorm final : public CudaLayer {
 public:
  CudaBatchNorm(const LayerRequest& request, CudaDevice& device)
      : CudaLayer(request, device),
        definition_(static_cast<const BatchNorm&>(request.definition)),
        relu_(request.relu),
        residual_(request.residual),
        channels_(definition_.input.channels()),
        matrix_(1, definition_.input.count() / channels_, channels_, kEach),
        tiling_(matrix_.of_one) {
    needs_.backward_reads_inputs = true;
    needs_.backward_in_place = residual_ ? 1 : 0;
    needs_.workspace_bytes = ChannelArrays::bytes(channels_, 3);
    keeps_bits_ = request.training && relu_.has_value();
    if (keeps_bits_)
      needs_.workspace_bytes += static_cast<size_t>(definition_.input.count() / kEach);
    needs_.scratch_bytes = bytes_of_bands() + ChannelArrays::bytes(channels_, 3);
  }

  void forward(const StepContext& step, const Bindings& memory) override {
    const NormalizedChannels normalized = normalized_channels(memory);
    if (step.phase == Phase::kTrain)
      measure(memory, normalized);
    else
      device_.launch_for(channels_,
                         BatchNormRecallKernel{.running_mean = memory.statistics[0].value,
                                               .running_variance = memory.statistics[1].value,
                                               .normalized = normalized});
    using Kernel = BatchNormNormalizeKernel<Element, kEach, OfBatchNorm>;
    device_.launch(Kernel{.tiling = matrix_,
                          .input = memory.inputs[0].as<Element>(),
                          .residual = residual_ ? memory.inputs[1].as<Element>() : nullptr,
                          .output = memory.output.as<Element>(),
                          .above = above_zero(memory),
                          .mean = normalized.mean,
                          .factor = normalized.factor,
                          .term = normalized.term,
                          .slope = relu_.value_or(1)},
                   tiling_.grid());
  }

  void backward(const StepContext& step, const Bindings& memory) override {
    const std::vector<Tensor> summed = gradients_for_one_pass(device_, memory);
    Element* written = written_gradient(memory);
    const GradientCoefficients coefficients = sum_gradients(step, memory, summed, written);
    if (!memory.input_gradients[0]) return;
    IncomingGradient<Element, 1> gradient{.summed = {written}, .relu = {}};
    if (written == nullptr) gradient = incoming_gradient<1>(summed, memory);
    using Kernel = BatchNormInputGradientKernel<Element, kEach, OfBatchNorm>;
    device_.launch(Kernel{.tiling = matrix_,
                          .gradient = gradient,
                          .input = memory.inputs[0].as<Element>(),
                          .mean = saved(memory).mean,
                          .coefficients = coefficients,
                          .target = memory.input_gradients[0].as<Element>()},
                   tiling_.grid());
  }

 private:
  struct Saved {
    float *mean, *mean_rest, *inverse_deviation;
  };

  Saved saved(const Bindings& memory) const {
    ChannelArrays arrays(memory.workspace, channels_);
    return {.mean = arrays.allocate(),
            .mean_rest = arrays.allocate(),
            .inverse_deviation = arrays.allocate()};
  }

  /// Returns the bits of outputs above zero, one byte for each kEach outputs. The bytes are in the
  /// workspace, after the arrays of saved(). Null: no relu, or no training.
  uint8_t* above_zero(const Bindings& memory) const {
    if (!keeps_bits_) return nullptr;
    return reinterpret_cast<uint8_t*>(memory.workspace + ChannelArrays::bytes(channels_, 3));
  }

  size_t bytes_of_bands() const {
    static_assert(sizeof(BandMoments) == sizeof(BandGradients));
    const int64_t values = channels_ * tiling_.bands;
    return (bytes_of_elements<BandMoments>(values) + 63) / 64 * 64;
  }
  /// The arrays in scratch memory, after the bands' sums.
  ChannelArrays behind_bands(const Bindings& memory) const {
    return {memory.scratch + bytes_of_bands(), channels_};
  }

  NormalizedChannels normalized_channels(const Bindings& memory) const {
    const Saved kept = saved(memory);
    ChannelArrays arrays = behind_bands(memory);
    return {.scale = memory.parameters[0].value,
            .shift = memory.parameters[1].value,
            .mean = kept.mean,
            .mean_rest = kept.mean_rest,
            .inverse_deviation = kept.inverse_deviation,
            .factor = arrays.allocate(),
            .term = arrays.allocate(),
            .channels = tiling_.channels,
            .epsilon = definition_.epsilon};
  }

  void measure(const Bindings& memory, const NormalizedChannels& normalized) const {
    auto* of_bands = reinterpret_cast<BandMoments*>(memory.scratch);
    device_.launch(
        BatchNormMomentsKernel<Element, kEach, OfBatchNorm>{matrix_, memory.inputs[0].as<Element>(),
                                                            of_bands},
        tiling_.grid());
    device_.launch(
        BatchNormStatisticsKernel{.tiling = tiling_,
                                  .of_bands = of_bands,
                                  .normalized = normalized,
                                  .mean_contribution = memory.statistics[0].gradient,
                                  .variance_contribution = memory.statistics[1].gradient},
        ChannelWarp::grid(tiling_.channels));
  }

  template <int kSummed>
  IncomingGradient<Element, kSummed> incoming_gradient(const std::vector<Tensor>& summed,
                                                       const Bindings& memory) const {
    IncomingGradient<Element, kSummed> gradient{};
    gradient.relu = {.above = above_zero(memory), .slope = relu_.value_or(1)};
    for (size_t i = 0; i < kSummed; ++i) gradient.summed[i] = summed[i].as<Element>();
    return gradient;
  }

  /// The memory that receives g. Null: the second pass computes g again from the only output
  /// gradient, or there is no second pass.
  Element* written_gradient(const Bindings& memory) const {
    if (residual_ && memory.input_gradients[1]) return memory.input_gradients[1].as<Element>();
    const bool one = memory.output_gradients.size() == 1;
    return one || !memory.input_gradients[0] ? nullptr : memory.output_gradients[0].as<Element>();
  }

  BandGradients* gradients_of_bands(const Bindings& memory) const {
    return reinterpret_cast<BandGradients*>(memory.scratch);
  }

  template <int kSummed>
  void sum_bands(const Bindings& memory, const std::vector<Tensor>& summed,
                 Element* written) const {
    using Kernel = BatchNormGradientSumsKernel<Element, kEach, kSummed, OfBatchNorm>;
    device_.launch(Kernel{.tiling = matrix_,
                          .gradient = incoming_gradient<kSummed>(summed, memory),
                          .input = memory.inputs[0].as<Element>(),
                          .mean = saved(memory).mean,
                          .written = written,
                          .of_bands = gradients_of_bands(memory)},
                   tiling_.grid());
  }

  GradientCoefficients sum_gradients(const StepContext& step, const Bindings& memory,
                                     const std::vector<Tensor>& summed, Element* written) const {
    const Saved kept = saved(memory);
    ChannelArrays arrays = behind_bands(memory);
    const GradientCoefficients coefficients{.of_gradient = arrays.allocate(),
                                            .of_centered = arrays.allocate(),
                                            .term = arrays.allocate()};
    with_summed(summed.size(), [&](auto count) {
      this->template sum_bands<decltype(count)::value>(memory, summed, written);
    });
    device_.launch(
        BatchNormParameterGradientsKernel{.tiling = tiling_,
                                          .of_bands = gradients_of_bands(memory),
                                          .scale = memory.parameters[0].value,
                                          .mean_rest = kept.mean_rest,
                                          .inverse_deviation = kept.inverse_deviation,
                                          .scale_gradient = memory.parameters[0].gradient,
                                          .shift_gradient = memory.parameters[1].gradient,
                                          .coefficients = coefficients,
                                          .own_statistics = step.phase == Phase::kTrain},
        ChannelWarp::grid(tiling_.channels));
    return coefficients;
  }

  const BatchNorm& definition_;
  std::optional<float> relu_;
  bool residual_;
  int64_t channels_;
  MatrixTiling matrix_;
  RowTiling tiling_;         ///< of the only matrix in matrix_
  bool keeps_bits_ = false;  ///< forward stores the bits of above_zero()
};

}  // namespace

std::unique_ptr<Layer> make_batch_norm(const LayerRequest& request, const LayerContext& context) {
  return make_for_channels<CudaBatchNorm>(request, context.device);
}

}  // namespace poseidon::layers::cuda
