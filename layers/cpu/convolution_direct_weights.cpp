#include <cstring>

#include "core/error.h"
#include "layers/cpu/convolution_direct.h"
#include "layers/cpu/padding_taps.h"
#include "layers/cpu/team_loops.h"
#include "layers/cpu/vectors.h"

namespace poseidon::layers::cpu {

namespace {

using namespace poseidon::cpu;

/// The number of blocks into which the samples are divided. A sum over a block costs one pass over
/// the weight's gradient. Compared with the products, this cost is 2 % if a block has 3,136 output
/// cells, and 4 % if it has 1,568 (AVX-512). Up to four blocks may be smaller, because more threads
/// then compute.
int64_t blocks_of_samples(const Convolution& c) {
  constexpr int64_t kCells = 3136, kCellsOfFew = 1500, kCellsInGroups = 750, kFew = 4, kMost = 16;
  const int64_t cells = c.output.samples() * c.output.area();
  const int64_t few = std::min(kFew, cells / (c.groups > 1 ? kCellsInGroups : kCellsOfFew));
  return std::clamp<int64_t>(std::max(few, cells / kCells), 1, std::min(kMost, c.output.samples()));
}

/// The number of pieces into which the outputs are divided. A piece costs a copy of the gradients
/// of its outputs, and one pass over the inputs. If there are few output cells, this cost is below
/// that of sums over blocks of samples.
int64_t pieces_of_outputs(const Convolution& c) {
  constexpr int64_t kOutputsWanted = 128, kLeastOutputs = 32, kFew = 4, kMost = 8;
  if (c.groups > 1 || c.outputs % kLanesOfBlock != 0) return 1;
  const int64_t wanted = std::clamp(c.outputs / kOutputsWanted, kFew, kMost);
  return std::clamp<int64_t>(c.outputs / kLeastOutputs, 1, wanted);
}

/// The size of the portions of the pass. It depends on the geometry alone, because it decides the
/// order of sums. Portions differ in samples or in outputs.
Portion portion_of_geometry(const Convolution& c) {
  constexpr int64_t kManyCells = 6000;
  const int64_t samples = c.output.samples();
  const int64_t pieces = samples * c.output.area() < kManyCells ? pieces_of_outputs(c) : 1;
  const int64_t blocks = pieces > 1 ? 1 : blocks_of_samples(c);
  return {.samples = divide_up(samples, blocks),
          .channels = divide_up(divide_up(c.outputs, pieces), kLanesOfBlock) * kLanesOfBlock};
}

/// Adds the other sums to sums[0], in order.
void add_sums(CpuDevice& device, const std::vector<float*>& sums, int64_t count) {
  device.team().run_ranges(count, kElementsOfTask, [&](int64_t first, int64_t end, int) {
    for (size_t block = 1; block < sums.size(); ++block) {
      const float* more = sums[block];
      for (int64_t i = first; i < end; ++i) sums[0][i] += more[i];
    }
  });
}

/// The gradient is a sum over blocks of samples, whose sums are added in order. If the weight is
/// large, a thread computes the gradients of some outputs only. oneDNN reads only dense tensors, so
/// the thread first copies the gradients of these outputs.
///
/// oneDNN computes the gradient in the weight's order or in another order. In the latter case, the
/// pass then copies the gradient to the weight's order.
class DirectBackwardWeights final : public ConvolutionPass {
 public:
  DirectBackwardWeights(const ConvolutionParts& parts,
                        const OnednnConvolution::BackwardWeights& description)
      : device_(parts.device),
        outputs_(parts.convolution.outputs),
        bias_(parts.convolution.bias),
        description_(description),
        primitives_(make_portions<dnnl::convolution_backward_weights>(
            parts, parts.convolution.outputs, portion_of_geometry(parts.convolution), description_,
            [&](const Portion& portion) { return describe(parts, portion); })),
        in_order_(description_.diff_weights_desc() == parts.kept_weight),
        to_kept_order_(parts.device, description_.diff_weights_desc(), parts.kept_weight),
        padding_taps_(parts.device, parts.convolution, parts.onednn, parts.kept_weight) {}

  size_t scratch_bytes() const override {
    const size_t blocks = static_cast<size_t>(primitives_.blocks()) - 1;
    return (in_order_ ? 0 : Scratch::rounded(weight_bytes())) +
           blocks * (Scratch::rounded(weight_bytes()) + Scratch::rounded(bias_bytes())) +
           primitives_.scratch_bytes(bytes_of_copy());
  }
  std::string implementation() const override { return implementation_name(description_); }

  void run(const Bindings& memory, const Tensor& gradient) override {
    Scratch scratch(memory.scratch);
    float* kept = memory.parameters[0].gradient;
    std::vector<float*> weights{in_order_ ? kept : scratch.allocate(weight_bytes())};
    std::vector<float*> biases{bias_ ? memory.parameters[1].gradient : nullptr};
    for (int64_t block = 1; block < primitives_.blocks(); ++block) {
      weights.push_back(scratch.allocate(weight_bytes()));
      biases.push_back(scratch.allocate(bias_bytes()));
    }
    primitives_.run(
        scratch, bytes_of_copy(),
        [&](const Portion& portion, const auto& description, Arguments& arguments, std::byte* own) {
          const auto block = static_cast<size_t>(portion.sample / primitives_.each().samples);
          const MemoryDesc source = description.src_desc();
          arguments.add(DNNL_ARG_SRC, source, first_of(portion, source, memory.inputs[0].data));
          arguments.add(DNNL_ARG_DIFF_DST, description.diff_dst_desc(),
                        dense(portion, gradient, own));
          arguments.add(DNNL_ARG_DIFF_WEIGHTS, description.diff_weights_desc(),
                        weights[block] + portion.channel * floats_of_output());
          if (bias_)
            arguments.add(DNNL_ARG_DIFF_BIAS, description.diff_bias_desc(),
                          biases[block] + portion.channel);
        });
    if (weights.size() > 1) {
      add_sums(device_, weights, static_cast<int64_t>(weight_bytes() / sizeof(float)));
      if (bias_) add_sums(device_, biases, outputs_);
    }
    if (!in_order_) to_kept_order_.run(device_, weights[0], kept);
    padding_taps_.zero(kept);
  }

 private:
  std::optional<OnednnConvolution::BackwardWeights> describe(const ConvolutionParts& parts,
                                                             const Portion& portion) const {
    const OnednnConvolution onednn =
        parts.onednn.of(portion.samples, parts.convolution.input.channels(), portion.channels);
    const auto order = order_of_outputs(description_.diff_weights_desc(), portion.channels);
    const auto hint =
        onednn.forward(parts.formats, onednn.any_weight_of(parts.formats.type), parts.training);
    if (!order || !hint) return std::nullopt;
    return onednn.backward_weights(parts.formats, *order, *hint);
  }

  size_t weight_bytes() const { return description_.diff_weights_desc().get_size(); }
  size_t bias_bytes() const { return bias_ ? static_cast<size_t>(outputs_) * sizeof(float) : 0; }
  int64_t floats_of_output() const {
    return static_cast<int64_t>(weight_bytes() / sizeof(float)) / outputs_;
  }

  /// Bytes of a copy of some outputs' gradients; 0 if portions have all outputs.
  size_t bytes_of_copy() const {
    const Portion& each = primitives_.each();
    if (each.channels == outputs_) return 0;
    const size_t bytes = description_.diff_dst_desc().get_size();
    const int64_t samples = description_.diff_dst_desc().dims()[0];
    return Scratch::rounded(bytes / static_cast<size_t>(samples * outputs_) *
                            static_cast<size_t>(each.samples * each.channels));
  }

  /// The gradients of a portion's outputs, as a dense tensor. Uses `copy` unless they are one.
  void* dense(const Portion& portion, const Tensor& gradient, std::byte* copy) const {
    const Blocking b = gradient.blocking();
    const size_t size = bytes_of(gradient.format.type);
    const auto* from = static_cast<const std::byte*>(gradient.data);
    const auto at = [&](int64_t sample, int64_t position) {
      return from + static_cast<size_t>(b.offset(sample, portion.channel, position)) * size;
    };
    if (portion.channels == outputs_) return const_cast<std::byte*>(at(portion.sample, 0));
    // Channels last: a run is the channels of one cell. Other layouts: the blocks of one sample.
    const bool by_cell = b.block > portion.channels;
    const int64_t cells = by_cell ? b.area : 1;
    const size_t run = static_cast<size_t>(portion.channels * (by_cell ? 1 : b.area)) * size;
    std::byte* to = copy;
    for (int64_t sample = portion.sample; sample < portion.sample + portion.samples; ++sample)
      for (int64_t cell = 0; cell < cells; ++cell, to += run)
        std::memcpy(to, at(sample, cell), run);
    return copy;
  }

  CpuDevice& device_;
  int64_t outputs_;
  bool bias_;
  OnednnConvolution::BackwardWeights description_;
  PortionPrimitives<dnnl::convolution_backward_weights> primitives_;
  bool in_order_;
  PreparedReorder to_kept_order_;
  PaddingTaps padding_taps_;
};

}  // namespace

std::unique_ptr<ConvolutionPass> make_direct_backward_weights(const ConvolutionParts& parts) {
  if (pointwise_is_legal(parts)) return make_pointwise_backward_weights(parts);
  auto description = parts.onednn.backward_weights(parts.formats, parts.kept_weight, parts.forward);
  if (!is_real(description))
    description = parts.onednn.backward_weights(
        parts.formats, parts.onednn.any_weight_of(DataType::kFp32), parts.forward);
  if (is_own_depthwise(parts, description)) return make_depthwise_backward_weights(parts);
  if (product_is_better(parts, description)) return nullptr;
  if (is_gemm(description) && product_is_faster_than_gemm_weights(parts)) return nullptr;
  return std::make_unique<DirectBackwardWeights>(parts, *description);
}

}  // namespace poseidon::layers::cpu
