#pragma once

#include "layers/layer.h"

/// Layers that apply a function of one value to each element, with a factor, a summand or both that
/// belong to its channel. What they compute, on any device, stands in layers/channel_rules.h.
namespace poseidon::layers {

/// Where the factors or the summands of a layer are.
struct ChannelOperand {
  enum class Source : uint8_t { kNone, kParameter, kInput };

  Source source = Source::kNone;
  int index = 0;         ///< of the parameter or the input
  int64_t channels = 0;  ///< as many as the first input has, or 1: one for all of them

  explicit operator bool() const { return source != Source::kNone; }
  /// Each sample has its own.
  bool of_each_sample() const { return source == Source::kInput; }
};

/// Base of them all.
class ChannelFunction : public Definition {
 public:
  Shape infer(std::span<const Shape> inputs) override;
  virtual ChannelOperand factor() const { return {}; }
  virtual ChannelOperand summand() const { return {}; }

  Shape input;  ///< set by infer: the first one

 protected:
  /// A parameter of one value for each channel.
  ParameterSpec of_channels(std::string what, const Filler& filler) const {
    return {.name = std::move(what), .shape = {input.channels()}, .filler = filler};
  }
};

/// x where it is above 0, else a learned slope times x (He et al. 2015); the derivative at 0 is the
/// slope.
class Prelu final : public ChannelFunction {
 public:
  std::string_view type() const override { return "prelu"; }
  void describe(Fields& fields) override;
  std::vector<ParameterSpec> parameters() const override;
  ChannelOperand factor() const override;

  bool shared = false;  ///< one slope for all channels
  Filler slope_filler = Filler::constant(0.25);
  Multipliers multipliers;
};

/// x times the factor of its channel, which is learned, or of each sample, and then the second
/// input: (samples, channels or 1), with a height and width of 1 where the first input has any; and
/// a learned bias where that is wanted.
class Scale final : public ChannelFunction {
 public:
  std::string_view type() const override { return "scale"; }
  void describe(Fields& fields) override;
  Shape infer(std::span<const Shape> inputs) override;
  std::vector<ParameterSpec> parameters() const override;
  ChannelOperand factor() const override;
  ChannelOperand summand() const override;

  bool bias = false;
  Filler scale_filler = Filler::constant(1), bias_filler;
  Multipliers multipliers;

  int64_t given_channels = 0;  ///< set by infer: of the second input; 0: factors are learned
};

/// x plus the learned summand of its channel.
class Bias final : public ChannelFunction {
 public:
  std::string_view type() const override { return "bias"; }
  void describe(Fields& fields) override;
  std::vector<ParameterSpec> parameters() const override;
  ChannelOperand summand() const override;

  Filler filler;
  Multipliers multipliers;
};

}  // namespace poseidon::layers
