#pragma once

#include <numbers>

#include "layers/layer.h"

/// Layers that apply a function of one value to each element of their one input. What they compute,
/// on any device, stands in layers/function_rules.h. Where no rule says otherwise, NaN goes in and
/// comes out.
namespace poseidon::layers {

/// Base of them all.
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

/// x held to [minimum, maximum]. The gradient passes where x lies within, the bounds included.
class Clip final : public Function {
 public:
  std::string_view type() const override { return "clip"; }
  void describe(Fields& fields) override;
  Shape infer(std::span<const Shape> inputs) override;

  double minimum = 0, maximum = 0;
};

/// x where it is above 0, else alpha (e^x - 1). An alpha of 0 or more keeps the sign, so that
/// backward needs only the output. The derivative at 0 is alpha.
class Elu final : public Function {
 public:
  std::string_view type() const override { return "elu"; }
  void describe(Fields& fields) override;

  double alpha = 1;
};

/// base^(scale x + shift). What is too large for a float is infinite.
class Exp final : public Function {
 public:
  std::string_view type() const override { return "exp"; }
  void describe(Fields& fields) override;

  double base = std::numbers::e, scale = 1, shift = 0;
};

/// The logarithm of scale x + shift to a base. That of 0 is minus infinity, that of less is not a
/// number; the derivative is scale / ((scale x + shift) ln(base)) there too, so infinite at 0.
class Log final : public Function {
 public:
  std::string_view type() const override { return "log"; }
  void describe(Fields& fields) override;
  Shape infer(std::span<const Shape> inputs) override;

  double base = std::numbers::e, scale = 1, shift = 0;
};

/// (scale x + shift)^power, as C's pow has it: of a negative number only whole powers exist, others
/// are not a number; 0 to a negative power is infinite. To the power 0 all is 1, with no gradient.
class Power final : public Function {
 public:
  std::string_view type() const override { return "power"; }
  void describe(Fields& fields) override;

  double power = 1, scale = 1, shift = 0;
};

/// max(x, 0) + slope * min(x, 0). A slope of 0 or more keeps the sign, so that backward needs only
/// the output.
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

/// x / (1 + exp(-beta x)); with a beta of 1 also called silu.
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

/// 1 where x is above the threshold, else 0: at the threshold itself, and of what is not a number,
/// too. There is no gradient.
class Threshold final : public Function {
 public:
  std::string_view type() const override { return "threshold"; }
  void describe(Fields& fields) override;

  double threshold = 0;
};

}  // namespace poseidon::layers
