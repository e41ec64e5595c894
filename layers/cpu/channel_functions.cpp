#include "layers/channel_rules.h"
#include "layers/cpu/channel_tiles.h"
#include "layers/cpu/cpu_layer.h"

namespace poseidon::layers::cpu {

namespace {

using Source = ChannelOperand::Source;

/// Scratch has rows of floats: the factors of each matrix of ChannelTiling, one row of summands,
/// and for each tile the sums of the factors' gradients and of the summands' gradients. A row has
/// one float for each channel, including padding channels, which are 0. Factors that all samples
/// share are in the first row.
template <class Element, class Rule>
class CpuChannelFunction final : public CpuLayer {
 public:
  CpuChannelFunction(const LayerRequest& request, CpuDevice& device)
      : CpuLayer(request, device),
        definition_(static_cast<const ChannelFunction&>(request.definition)),
        factor_(definition_.factor()),
        summand_(definition_.summand()),
        tiling_(request.input_shapes[0], needs_.output_format.layout, factor_.of_each_sample()) {
    needs_.backward_reads_inputs = Rule::kReadsInput;
    needs_.forward_in_place = request.training && Rule::kReadsInput ? -1 : 0;
    needs_.backward_in_place = 0;
    const int64_t rows = tiling_.matrices() * (1 + 2 * tiling_.tiles()) + 1;
    needs_.scratch_bytes = static_cast<size_t>(rows * tiling_.channels()) * sizeof(float);
  }

  void forward(const StepContext&, const Bindings& memory) override {
    const float* factors = read_factors(memory);
    const float* summands = read_summands(memory);
    const int64_t factor_stride = matrix_stride();
    const Element* in = memory.inputs[0].as<Element>();
    Element* out = memory.output.as<Element>();
    tiling_.for_each_run(team(), [=](auto vector, const ChannelTiling::Run& run) {
      using Float = decltype(vector);
      const auto factor = of_channels<Float>(factors + run.matrix * factor_stride, run);
      const auto summand = of_channels<Float>(summands, run);
      for (int64_t k = 0; k < run.count; ++k) {
        const int64_t at = run.offset + k * run.stride;
        store(out + at, Rule::value(load<Float>(in + at), factor, summand));
      }
    });
  }

  void backward(const StepContext&, const Bindings& memory) override {
    const float* factors = read_factors(memory);
    float* factor_sums = sums(memory, 0);
    float* summand_sums = sums(memory, 1);
    std::fill(factor_sums, summand_sums + tiling_.matrices() * tiling_.tiles() * channels(), 0.0F);
    const int64_t factor_stride = matrix_stride(), row_stride = channels();
    const Element* gradient =
        combined_gradient(team(), memory, std::nullopt).template as<Element>();
    const Element* in = Rule::kReadsInput ? memory.inputs[0].as<Element>() : gradient;
    Element* target = memory.input_gradients[0].as<Element>();
    tiling_.for_each_run(team(), [=](auto vector, const ChannelTiling::Run& run) {
      using Float = decltype(vector);
      const auto factor = of_channels<Float>(factors + run.matrix * factor_stride, run);
      Float of_factor{}, of_summand{};
      for (int64_t k = 0; k < run.count; ++k) {
        const int64_t at = run.offset + k * run.stride;
        const auto g = load<Float>(gradient + at), x = load<Float>(in + at);
        of_factor += Rule::factor_gradient(g, x);
        of_summand += g;
        if (target != nullptr) store(target + at, Rule::gradient(g, x, factor));
      }
      add_lanes(of_factor, run, factor_sums + run.row * row_stride);
      add_lanes(of_summand, run, summand_sums + run.row * row_stride);
    });
    write_factor_gradients(memory, factor_sums);
    if (summand_)
      write_sums(summand_sums, tiling_.matrices() * tiling_.tiles(), summand_.channels,
                 memory.parameters[static_cast<size_t>(summand_.index)].gradient);
  }

 private:
  int64_t channels() const { return tiling_.channels(); }
  int64_t real_channels() const { return definition_.input.channels(); }
  int64_t matrix_stride() const { return factor_.of_each_sample() ? channels() : 0; }

  float* summands(const Bindings& memory) const {
    return reinterpret_cast<float*>(memory.scratch) + tiling_.matrices() * channels();
  }
  float* sums(const Bindings& memory, int64_t which) const {
    const int64_t before = 1 + which * tiling_.matrices() * tiling_.tiles();
    return summands(memory) + before * channels();
  }

  const float* read_factors(const Bindings& memory) const {
    auto* factors = reinterpret_cast<float*>(memory.scratch);
    if (factor_.source == Source::kInput)
      read_input(memory.inputs[static_cast<size_t>(factor_.index)], factors);
    else
      read_parameter(memory, factor_, factors);
    return factors;
  }
  const float* read_summands(const Bindings& memory) const {
    read_parameter(memory, summand_, summands(memory));
    return summands(memory);
  }

  void read_parameter(const Bindings& memory, const ChannelOperand& operand, float* to) const {
    std::fill_n(to, channels(), 0.0F);
    if (!operand) return;
    const float* values = memory.parameters[static_cast<size_t>(operand.index)].value;
    for (int64_t c = 0; c < real_channels(); ++c) to[c] = values[operand.channels == 1 ? 0 : c];
  }

  void read_input(const Tensor& input, float* to) const {
    const Blocking b = input.blocking();
    std::fill_n(to, tiling_.matrices() * channels(), 0.0F);
    with_element_of(input.format.type, [&](auto element) {
      const auto* values = input.as<decltype(element)>();
      for (int64_t n = 0; n < b.samples; ++n)
        for (int64_t c = 0; c < real_channels(); ++c)
          to[n * channels() + c] = values[b.offset(n, factor_.channels == 1 ? 0 : c, 0)];
    });
  }

  void write_factor_gradients(const Bindings& memory, const float* of_tiles) const {
    if (factor_.source == Source::kParameter)
      write_sums(of_tiles, tiling_.matrices() * tiling_.tiles(), factor_.channels,
                 memory.parameters[static_cast<size_t>(factor_.index)].gradient);
    if (factor_.source != Source::kInput) return;
    const Tensor& target = memory.input_gradients[static_cast<size_t>(factor_.index)];
    if (!target) return;
    const Blocking b = target.blocking();
    with_element_of(target.format.type, [&](auto element) {
      auto* values = target.as<decltype(element)>();
      std::fill_n(values, b.count(), 0.0F);
      std::vector<float> of_sample(static_cast<size_t>(factor_.channels));
      for (int64_t n = 0; n < b.samples; ++n) {
        write_sums(of_tiles + n * tiling_.tiles() * channels(), tiling_.tiles(), factor_.channels,
                   of_sample.data());
        for (int64_t c = 0; c < factor_.channels; ++c)
          values[b.offset(n, c, 0)] = of_sample[static_cast<size_t>(c)];
      }
    });
  }

  /// Adds the sums of `rows` tiles for each channel, and writes the totals to `to`. If all channels
  /// share one value, writes one total over all channels.
  void write_sums(const float* of_tiles, int64_t rows, int64_t values, float* to) const {
    const int64_t each = values == 1 ? real_channels() : 1;
    for_each_item(team(), values, rows * each, [&](int64_t value) {
      double sum = 0;
      for (int64_t row = 0; row < rows; ++row)
        for (int64_t c = value * each; c < (value + 1) * each; ++c)
          sum += static_cast<double>(of_tiles[row * channels() + c]);
      to[value] = static_cast<float>(sum);
    });
  }

  const ChannelFunction& definition_;
  ChannelOperand factor_, summand_;
  ChannelTiling tiling_;
};

}  // namespace

std::unique_ptr<Layer> make_channel_function(const LayerRequest& request, CpuDevice& device) {
  const auto& definition = static_cast<const ChannelFunction&>(request.definition);
  return with_channel_rule_of(definition, [&](auto rule) {
    return with_element_of(request.input_formats[0].type, [&](auto element) {
      using Made = CpuChannelFunction<decltype(element), decltype(rule)>;
      return std::unique_ptr<Layer>(std::make_unique<Made>(request, device));
    });
  });
}

}  // namespace poseidon::layers::cpu
