#include "layers/cuda/transpose.cuh"

namespace poseidon::layers::cuda {

namespace {

template <class From, class To>
void issue_reorder_of(CudaDevice& device, const Tensor& from, const Tensor& to) {
  const Shape& shape = from.shape;
  const auto* in = from.as<From>();
  auto* out = to.as<To>();
  const bool same_order =
      from.format.layout == to.format.layout || shape.channels() == 1 || shape.area() == 1;
  if (same_order)
    cast(device, in, out, shape.count());
  else if (from.format.layout == Layout::kPlain)
    transpose(device, in, out, shape.samples(), shape.channels(), shape.area());
  else
    transpose(device, in, out, shape.samples(), shape.area(), shape.channels());
}

class CudaReorder final : public Layer {
 public:
  CudaReorder(const Shape& shape, Format from, Format to, CudaDevice& device)
      : device_(device), shape_(shape), from_(from), to_(to) {
    needs_.input_formats = {from};
    needs_.output_format = to;
  }

  void forward(const StepContext&, const Bindings& memory) override {
    issue_reorder(device_, {memory.inputs[0].data, shape_, from_},
                  {memory.output.data, shape_, to_});
  }
  void backward(const StepContext&, const Bindings& memory) override {
    if (!memory.input_gradients[0]) return;
    issue_reorder(device_, combined_gradient(device_, memory, std::nullopt),
                  {memory.input_gradients[0].data, shape_, from_});
  }
  int64_t packed_count(int) const override { return 0; }
  void pack(int, const float*, float*) const override {}
  void unpack(int, const float*, float*) const override {}
  bool packed_is_canonical(int) const override { return true; }

 private:
  CudaDevice& device_;
  Shape shape_;
  Format from_, to_;
};

}  // namespace

void issue_reorder(CudaDevice& device, const Tensor& from, const Tensor& to) {
  with_element_of(from.format.type, [&](auto of_source) {
    with_element_of(to.format.type, [&](auto of_target) {
      issue_reorder_of<decltype(of_source), decltype(of_target)>(device, from, to);
    });
  });
}

std::unique_ptr<Layer> make_reorder(const Shape& shape, Format from, Format to,
                                    CudaDevice& device) {
  return std::make_unique<CudaReorder>(shape, from, to, device);
}

}  // namespace poseidon::layers::cuda
