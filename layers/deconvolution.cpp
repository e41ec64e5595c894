#include "layers/deconvolution.h"

#include "core/error.h"

namespace poseidon::layers {

void Deconvolution::describe(Fields& fields) {
  describe_keys(fields, "distance between output windows",
                "output cells removed: one number, [height, width] or [top, bottom, left, right]");
}

Shape Deconvolution::infer(std::span<const Shape> inputs) {
  expect_inputs(inputs, 1);
  const Shape& input = inputs[0];
  if (const std::string wrong = fault(input); !wrong.empty()) fail(wrong);
  Shape output{input.samples(), outputs, 0, 0};
  for (int axis = 0; axis < 2; ++axis) {
    const auto i = static_cast<size_t>(axis);
    const int64_t whole = (input[2 + axis] - 1) * stride[i] + window(i);
    if (whole <= padding.sum(i))
      fail(text("the output has ", whole, axis == 0 ? " rows" : " columns",
                ", but \"padding\" removes ", padding.sum(i)));
    output[2 + axis] = whole - padding.sum(i);
  }
  static_cast<ConvolutionKeys&>(convolution) = *this;
  convolution.name = name;
  convolution.outputs = input.channels();
  convolution.bias = false;
  const Shape back = convolution.infer(std::array{output});
  check(back == input, "a deconvolution is the transpose of a convolution");
  return output;
}

std::vector<ParameterSpec> Deconvolution::parameters() const {
  return parameters_of({convolution.outputs, outputs / groups, kernel[0], kernel[1]});
}

}  // namespace poseidon::layers
