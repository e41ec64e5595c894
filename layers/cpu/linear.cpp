#include "layers/linear.h"

#include <optional>

#include "core/cpu/onednn.h"
#include "core/error.h"
#include "layers/cpu/factors.h"
#include "layers/cpu/pass_weight.h"
#include "layers/cpu/weight_order.h"

namespace poseidon::layers::cpu {

namespace {

using namespace poseidon::cpu;

using ForwardDesc = dnnl::inner_product_forward::primitive_desc;
using BackwardDataDesc = dnnl::inner_product_backward_data::primitive_desc;
using BackwardWeightsDesc = dnnl::inner_product_backward_weights::primitive_desc;

/// The layer stores the weight in the order that oneDNN's forward pass prefers. If the layer
/// computes factors and FactorRebuild cannot use this order, the order is canonical. Both backward
/// passes use the same order, unless oneDNN then has only reference code. By default each backward
/// pass would choose another order. But reordering the weight of AlexNet's fc6 takes longer than
/// the pass itself.
class CpuLinear final : public PackedWeightLayer {
 public:
  CpuLinear(const LayerRequest& request, CpuDevice& device)
      : PackedWeightLayer(request, device),
        linear_(static_cast<const Linear&>(request.definition)),
        relu_(request.relu),
        source_({linear_.samples, linear_.inputs}, kFloat, FormatTag::nc),
        target_({linear_.samples, linear_.outputs}, kFloat, FormatTag::nc),
        bias_({linear_.outputs}, kFloat, FormatTag::x) {
    make_forward(request.training, any_weight());
    if (request.factor_rows > 0) make_rebuild(request);
    order_ = WeightOrder(device_, {linear_.outputs, linear_.inputs}, plain_weight(), weight_);
    if (request.training) make_backward(request.input_needs_gradient[0]);
    implementations_.forward = implementation_name(forward_desc_);
    warning_ = reference_code_warning(request, implementations_);
    needs_.input_formats = {kPlainFp32};
    needs_.output_format = kPlainFp32;
    needs_.backward_reads_inputs = true;
    needs_.backward_reads_output = relu_.has_value();
  }

  void forward(const StepContext&, const Bindings& memory) override {
    Scratch scratch(memory.scratch);
    Arguments arguments(device_);
    arguments.add(DNNL_ARG_SRC, source_, memory.inputs[0].as<float>());
    arguments.add(DNNL_ARG_WEIGHTS, weight_, memory.parameters[0].value);
    if (linear_.bias) arguments.add(DNNL_ARG_BIAS, bias_, memory.parameters[1].value);
    arguments.add(DNNL_ARG_DST, target_, memory.output.as<float>());
    arguments.run(forward_, forward_desc_.scratchpad_desc(), scratch);
  }

  void backward(const StepContext&, const Bindings& memory) override {
    if (!rebuild_) run_backward_weights(memory, combined_gradient(memory, relu_).as<float>());
    // output_gradients[0] now has the sum of all gradients, from the call above or from
    // write_factors().
    if (memory.input_gradients[0])
      run_backward_data(memory, memory.output_gradients[0].as<float>());
  }

  void write_factors(const Bindings& memory, const FactorMemory& factors) override {
    const auto* deltas = combined_gradient(memory, relu_).as<float>();
    if (factors.deltas == nullptr) return;
    std::copy_n(deltas, linear_.samples * linear_.outputs, factors.deltas);
    std::copy_n(memory.inputs[0].as<float>(), linear_.samples * linear_.inputs,
                factors.activations);
  }

  void rebuild(const FactorMemory& factors, const Bindings& memory,
               const GradientSink* sink) override {
    rebuild_->run(factors, memory, sink);
  }

 private:
  MemoryDesc any_weight() const {
    return {{linear_.outputs, linear_.inputs}, kFloat, FormatTag::any};
  }
  MemoryDesc plain_weight() const {
    return {{linear_.outputs, linear_.inputs}, kFloat, FormatTag::oi};
  }

  void need_scratch(size_t scratchpad, size_t extra = 0) {
    needs_.scratch_bytes =
        std::max(needs_.scratch_bytes, Scratch::rounded(scratchpad) + Scratch::rounded(extra));
  }

  void make_forward(bool training, const MemoryDesc& weight) {
    dnnl::primitive_attr attributes = user_scratchpad();
    if (relu_) attributes.set_post_ops(relu_post_op(*relu_));
    const auto kind =
        training ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
    dnnl::engine& engine = device_.engine();
    forward_desc_ = linear_.bias ? describe_forward<dnnl::inner_product_forward>(
                                       engine, attributes, kind, source_, weight, bias_, target_)
                                 : describe_forward<dnnl::inner_product_forward>(
                                       engine, attributes, kind, source_, weight, target_);
    weight_ = forward_desc_.weights_desc();
    forward_ = dnnl::inner_product_forward(forward_desc_);
    need_scratch(forward_desc_.scratchpad_desc().get_size());
  }

  void make_rebuild(const LayerRequest& request) {
    const FactorShape shape = *linear_.factors();
    if (!FactorRebuild::order_of(weight_, shape)) make_forward(request.training, plain_weight());
    rebuild_.emplace(device_, shape, request.factor_rows, *FactorRebuild::order_of(weight_, shape));
    need_scratch(rebuild_->scratch_bytes());
  }

  void make_backward(bool data_wanted) {
    if (rebuild_)
      implementations_.backward_weights = "Poseidon product";
    else
      make_backward_weights();
    if (data_wanted) make_backward_data();
  }

  void make_backward_weights() {
    backward_weights_desc_ = ask_backward_weights(weight_);
    if (is_reference(backward_weights_desc_))
      backward_weights_desc_ = ask_backward_weights(any_weight());
    implementations_.backward_weights = implementation_name(backward_weights_desc_);
    backward_weights_ = dnnl::inner_product_backward_weights(backward_weights_desc_);
    const MemoryDesc gradient = backward_weights_desc_.diff_weights_desc();
    from_gradient_order_ = PreparedReorder(device_, gradient, weight_);
    need_scratch(backward_weights_desc_.scratchpad_desc().get_size(),
                 gradient == weight_ ? 0 : gradient.get_size());
  }

  void make_backward_data() {
    backward_data_desc_ = ask_backward_data(weight_);
    if (is_reference(backward_data_desc_)) backward_data_desc_ = ask_backward_data(any_weight());
    implementations_.backward_data = implementation_name(backward_data_desc_);
    backward_data_ = dnnl::inner_product_backward_data(backward_data_desc_);
    backward_weight_ = PassWeight(device_, {linear_.outputs, linear_.inputs}, weight_,
                                  backward_data_desc_.weights_desc());
    need_scratch(backward_data_desc_.scratchpad_desc().get_size(),
                 backward_weight_.scratch_bytes());
  }

  BackwardDataDesc ask_backward_data(const MemoryDesc& weight) {
    return describe_backward<dnnl::inner_product_backward_data>(
        device_.engine(), user_scratchpad(), forward_desc_, source_, weight, target_);
  }

  BackwardWeightsDesc ask_backward_weights(const MemoryDesc& weight) {
    if (!linear_.bias)
      return describe_backward<dnnl::inner_product_backward_weights>(
          device_.engine(), user_scratchpad(), forward_desc_, source_, weight, target_);
    return describe_backward<dnnl::inner_product_backward_weights>(
        device_.engine(), user_scratchpad(), forward_desc_, source_, weight, bias_, target_);
  }

  void run_backward_weights(const Bindings& memory, float* gradient) {
    const MemoryDesc order = backward_weights_desc_.diff_weights_desc();
    Scratch scratch(memory.scratch);
    float* weight_gradient =
        order == weight_ ? memory.parameters[0].gradient : scratch.allocate(order.get_size());
    Arguments arguments(device_);
    arguments.add(DNNL_ARG_SRC, source_, memory.inputs[0].as<float>());
    arguments.add(DNNL_ARG_DIFF_DST, target_, gradient);
    arguments.add(DNNL_ARG_DIFF_WEIGHTS, order, weight_gradient);
    if (linear_.bias) arguments.add(DNNL_ARG_DIFF_BIAS, bias_, memory.parameters[1].gradient);
    arguments.run(backward_weights_, backward_weights_desc_.scratchpad_desc(), scratch);
    if (order != weight_)
      from_gradient_order_.run(device_, weight_gradient, memory.parameters[0].gradient);
  }

  void run_backward_data(const Bindings& memory, float* gradient) {
    Scratch scratch(memory.scratch);
    void* weight = backward_weight_.get(device_, memory.parameters[0].value, scratch);
    Arguments arguments(device_);
    arguments.add(DNNL_ARG_DIFF_DST, target_, gradient);
    arguments.add(DNNL_ARG_WEIGHTS, backward_weight_.order(), weight);
    arguments.add(DNNL_ARG_DIFF_SRC, source_, memory.input_gradients[0].as<float>());
    arguments.run(backward_data_, backward_data_desc_.scratchpad_desc(), scratch);
  }

  const Linear& linear_;
  std::optional<float> relu_;
  MemoryDesc source_, target_, bias_;
  MemoryDesc weight_;  ///< the packed order

  ForwardDesc forward_desc_;
  BackwardDataDesc backward_data_desc_;
  BackwardWeightsDesc backward_weights_desc_;
  dnnl::inner_product_forward forward_;
  dnnl::inner_product_backward_data backward_data_;
  dnnl::inner_product_backward_weights backward_weights_;
  PassWeight backward_weight_;
  PreparedReorder from_gradient_order_;
  std::optional<FactorRebuild> rebuild_;  ///< set if the layer computes factors
};

}  // namespace

std::unique_ptr<Layer> make_linear(const LayerRequest& request, CpuDevice& device) {
  return std::make_unique<CpuLinear>(request, device);
}

}  // namespace poseidon::layers::cpu
