#include "layers/cpu/bf16_emulation.h"

#include <algorithm>

#include "core/bf16.h"
#include "layers/cpu/cpu_layer.h"
#include "layers/cpu/reorder.h"
#include "layers/cpu/scratch.h"

namespace poseidon::layers::cpu {

namespace {

Format as_fp32(Format format) {
  format.type = DataType::kFp32;
  return format;
}

Format as_bf16(Format format) {
  format.type = DataType::kBf16;
  return format;
}

class Bf16Emulation final : public Layer {
 public:
  Bf16Emulation(ThreadTeam& team, const LayerRequest& request, std::unique_ptr<Layer> fp32)
      : team_(team),
        fp32_(std::move(fp32)),
        input_shapes_(request.input_shapes),
        output_shape_(request.output_shape),
        writes_factors_(request.factor_rows > 0) {
    choice_ = fp32_->choice();
    warning_ = fp32_->warning();
    implementations_ = fp32_->implementations();
    for (std::string* name : {&implementations_.forward, &implementations_.backward_data,
                              &implementations_.backward_weights})
      if (!name->empty()) *name += " in fp32";
    needs_ = fp32_->needs();
    for (Format& format : needs_.input_formats) format = as_bf16(format);
    needs_.output_format = as_bf16(needs_.output_format);
    needs_.forward_in_place = needs_.backward_in_place = -1;
    needs_.scratch_bytes += copies_bytes(request.training);
  }

  std::vector<AlgorithmChoice> alternatives() const override { return fp32_->alternatives(); }

  void forward(const StepContext& step, const Bindings& memory) override {
    Scratch scratch(memory.scratch);
    Bindings copy = copied(memory, scratch);
    copy.output = room_for(memory.output, scratch);
    copy.scratch = scratch.rest();
    fp32_->forward(step, copy);
    reorder(team_, copy.output, memory.output);
  }

  void backward(const StepContext& step, const Bindings& memory) override {
    Scratch scratch(memory.scratch);
    Bindings copy = copied_for_backward(memory, scratch);
    for (Tensor& gradient : copy.input_gradients)
      if (gradient) gradient = room_for(gradient, scratch);
    copy.scratch = scratch.rest();
    fp32_->backward(step, copy);
    for (size_t i = 0; i < memory.input_gradients.size(); ++i)
      if (memory.input_gradients[i])
        reorder(team_, copy.input_gradients[i], memory.input_gradients[i]);
  }

  /// The gradient that backward() reads then is rounded to bf16, like every gradient.
  void write_factors(const Bindings& memory, const FactorMemory& factors) override {
    combined_gradient(team_, memory, std::nullopt);
    Scratch scratch(memory.scratch);
    Bindings copy = copied_for_backward(memory, scratch);
    copy.scratch = scratch.rest();
    fp32_->write_factors(copy, factors);
    reorder(team_, copy.output_gradients[0], memory.output_gradients[0]);
  }
  void rebuild(const FactorMemory& factors, const Bindings& memory,
               const GradientSink* sink) override {
    fp32_->rebuild(factors, memory, sink);
  }

  int64_t packed_count(int index) const override { return fp32_->packed_count(index); }
  void pack(int index, const float* canonical, float* packed) const override {
    fp32_->pack(index, canonical, packed);
  }
  void unpack(int index, const float* packed, float* canonical) const override {
    fp32_->unpack(index, packed, canonical);
  }
  void pack_gradient(int index, const float* canonical, const Bindings& memory,
                     const GradientSink& sink) const override {
    fp32_->pack_gradient(index, canonical, memory, sink);
  }
  bool packed_is_canonical(int index) const override { return fp32_->packed_is_canonical(index); }
  std::string packed_order(int index) const override { return fp32_->packed_order(index); }

 private:
  size_t weight_count() const { return static_cast<size_t>(fp32_->packed_count(0)); }

  size_t copies_bytes(bool training) const {
    const size_t output = bytes(output_shape_, needs_.output_format);
    size_t inputs = 0;
    for (size_t i = 0; i < input_shapes_.size(); ++i)
      inputs += bytes(input_shapes_[i], needs_.input_formats[i]);
    const size_t weight = Scratch::rounded(weight_count() * sizeof(float));
    return training ? weight + 2 * (inputs + output) : weight + inputs + output;
  }
  static size_t bytes(const Shape& shape, const Format& format) {
    return Scratch::rounded(stored_bytes(shape, as_fp32(format)));
  }

  /// The bindings with fp32 copies of the inputs, and with the weight (the first parameter) rounded
  /// to bf16.
  Bindings copied(const Bindings& memory, Scratch& scratch) const {
    Bindings copy = memory;
    for (Tensor& input : copy.inputs) input = copy_of(input, scratch);
    const size_t count = weight_count();
    float* rounded = scratch.allocate(count * sizeof(float));
    const float* weight = memory.parameters[0].value;
    for_each_element(team_, static_cast<int64_t>(count),
                     [=](int64_t i) { rounded[i] = Bf16(weight[i]); });
    copy.parameters[0].value = rounded;
    return copy;
  }

  /// Also copies the output and the sum of its gradients. If the layer writes factors,
  /// write_factors() has made this sum.
  Bindings copied_for_backward(const Bindings& memory, Scratch& scratch) const {
    Bindings copy = copied(memory, scratch);
    if (needs_.backward_reads_output) copy.output = copy_of(memory.output, scratch);
    const Tensor& gradient = writes_factors_ ? memory.output_gradients[0]
                                             : combined_gradient(team_, memory, std::nullopt);
    copy.output_gradients = {copy_of(gradient, scratch)};
    return copy;
  }

  static Tensor room_for(Tensor tensor, Scratch& scratch) {
    tensor.format = as_fp32(tensor.format);
    tensor.data = scratch.allocate(stored_bytes(tensor.shape, tensor.format));
    return tensor;
  }
  Tensor copy_of(const Tensor& tensor, Scratch& scratch) const {
    const Tensor copy = room_for(tensor, scratch);
    reorder(team_, tensor, copy);
    return copy;
  }

  ThreadTeam& team_;
  std::unique_ptr<Layer> fp32_;
  std::vector<Shape> input_shapes_;
  Shape output_shape_;
  bool writes_factors_;
};

}  // namespace

std::unique_ptr<Layer> make_bf16_emulation(ThreadTeam& team, const LayerRequest& request,
                                           std::unique_ptr<Layer> fp32) {
  return std::make_unique<Bf16Emulation>(team, request, std::move(fp32));
}

}  // namespace poseidon::layers::cpu
