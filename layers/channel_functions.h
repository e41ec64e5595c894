#pragma once

#include "layers/layer.h"

/// Layers that apply a function to each element. The function has a factor, a summand or both.
/// These may differ between channels, and a factor from a second input also between samples.
/// layers/channel_rules.h has the arithmetic for all devices.
namespace poseidon::layers {

/// The source of a layer's factors or summands.
struct ChannelOperand {
  enum class Source : uint8_t { kNone, kParameter, kInput };

  Source source = Source::kNone;
  int index = 0;         ///< index of the parameter or of the input
  int64_t channels = 0;  ///< number of channels; 1: all channels share one value

  explicit operator bool() const { return source != Source::kNone; }
  /// Whether each sample has separate values.
  bool of_each_sample() const { return source == Source::kInput; }
};

/// Base class of the layers in this file.
class ChannelFunction : public Definition {
 public:
  Shape infer(std::span<const Shape> inputs) override;
  virtual ChannelOperand factor() const { return {}; }
  virtual ChannelOperand summand() const { return {}; }

  Shape input;  ///< shape of the first input; set by infer

 protected:
  /// A parameter with one value for each channel.
  ParameterSpec of_channels(std::string what, const Filler& filler) const {
    return {.name = std::move(what), .shape = {input.channels()}, .filler = filler};
  }
};

/// x if it is above 0, else a learned slope times x (He et al. 2015). The derivative at 0 is the
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

/// x times a factor, plus a learned bias per channel if `bias` is set. With one input, the factors
/// are learned, one per channel. With two inputs, the second input has the factors of each sample:
/// (samples, channels or 1) or (samples, channels or 1, 1, 1).
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

  int64_t given_channels = 0;  ///< channels of the second input; 0: no such input; set by infer
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
