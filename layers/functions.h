#pragma once

#include <numbers>

#include "layers/layer.h"

/// Layers that apply a function of one variable to each element. Each layer has one input.
/// layers/function_rules.h has the arithmetic for all devices. The result of NaN is NaN, unless a
/// layer states otherwise.
namespace poseidon::layers {

/// Base class of the layers in this file.
class Function : public Definition {
 public:
  void describe(Fields&) override {}
  Shape infer(std::span<const Shape> inputs) override;
};

/// |x|. Its derivative at 0 is 0.
class Absval final : public Function {
 public:
  std::string_view type() const override { return "absval"; }
};

/// ln(1 + e^x), the binomial normal log likelihood; also called softplus.
class Bnll final : public Function {
 public:
  std::string_view type() const override { return "bnll"; }
};

/// x limited to [minimum, maximum]. The gradient passes if x is in this range, bounds included.
class Clip final : public Function {
 public:
  std::string_view type() const override { return "clip"; }
  void describe(Fields& fields) override;
  Shape infer(std::span<const Shape> inputs) override;

  double minimum = 0, maximum = 0;
};

/// x if it is above 0, else alpha (e^x - 1). alpha is 0 or more, so the output is above 0 only if x
/// is above 0. So backward needs only the output. The derivative at 0 is alpha.
class Elu final : public Function {
 public:
  std::string_view type() const override { return "elu"; }
  void describe(Fields& fields) override;

  double alpha = 1;
};

/// base^(scale x + shift). The result is infinite if it is too large for a float.
class Exp final : public Function {
 public:
  std::string_view type() const override { return "exp"; }
  void describe(Fields& fields) override;

  double base = std::numbers::e, scale = 1, shift = 0;
};

/// ln(z) / ln(base) with z = scale x + shift. At z = 0 the result is minus infinity, or plus
/// infinity if the base is below 1. For z below 0 the result is NaN. The derivative is scale / (z
/// ln(base)) for every z, so it is infinite at 0.
class Log final : public Function {
 public:
  std::string_view type() const override { return "log"; }
  void describe(Fields& fields) override;
  Shape infer(std::span<const Shape> inputs) override;

  double base = std::numbers::e, scale = 1, shift = 0;
};

/// z^power with z = scale x + shift. For a negative z and a power that is not an integer, the
/// result is NaN. 0 to a negative power is infinite. With the power 0, the result is 1 for every
/// x, also infinity and NaN, and the gradient is 0.
class Power final : public Function {
 public:
  std::string_view type() const override { return "power"; }
  void describe(Fields& fields) override;

  double power = 1, scale = 1, shift = 0;
};

/// max(x, 0) + slope * min(x, 0). slope is 0 or more, so the output is above 0 only if x is above
/// 0. So backward needs only the output. The derivative at 0 is the slope.
class Relu final : public Function {
 public:
  std::string_view type() const override { return "relu"; }
  void describe(Fields& fields) override;

  double slope = 0;  ///< factor on negative values
};

/// 1 / (1 + exp(-x)).
class Sigmoid final : public Function {
 public:
  std::string_view type() const override { return "sigmoid"; }
};

/// x / (1 + exp(-beta x)). With beta = 1 it is also called SiLU.
class Swish final : public Function {
 public:
  std::string_view type() const override { return "swish"; }
  void describe(Fields& fields) override;

  double beta = 1;
};

/// Hyperbolic tangent.
class Tanh final : public Function {
 public:
  std::string_view type() const override { return "tanh"; }
};

/// 1 if x is above the threshold, else 0. The result is 0 at the threshold itself and for NaN.
/// The gradient is 0.
class Threshold final : public Function {
 public:
  std::string_view type() const override { return "threshold"; }
  void describe(Fields& fields) override;

  double threshold = 0;
};

}  // namespace poseidon::layers
