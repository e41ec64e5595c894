#include "layers/mvn_rules.h"

#include "layers/cpu/channel_tiles.h"
#include "layers/cpu/cpu_layer.h"
#include "layers/cpu/moments.h"

namespace poseidon::layers::cpu {

namespace {

/// For one tile and channel: the sum of the gradients g, and the sum of g * (x - mean).
struct MvnSums {
  double gradient = 0, centered = 0;
};

/// Each pass over memory computes a value for each tile and channel. These values are reduced to
/// one for each channel of each sample, which the next pass reads. The workspace has the MvnForward
/// of each channel of each sample.
template <class Element>
class CpuMvn final : public CpuLayer {
 public:
  CpuMvn(const LayerRequest& request, CpuDevice& device)
      : CpuLayer(request, device),
        definition_(static_cast<const Mvn&>(request.definition)),
        rule_(definition_),
        tiling_(request.input_shapes[0], needs_.output_format.layout, true) {
    needs_.backward_reads_inputs = true;
    needs_.forward_in_place = request.training ? -1 : 0;
    needs_.backward_in_place = 0;
    const auto of_samples = static_cast<size_t>(tiling_.matrices() * channels());
    const auto of_tiles = of_samples * static_cast<size_t>(tiling_.tiles());
    needs_.workspace_bytes = of_samples * sizeof(MvnForward);
    needs_.scratch_bytes = of_tiles * sizeof(ValueMoments) + 4 * of_samples * sizeof(float);
  }

  void forward(const StepContext&, const Bindings& memory) override {
    auto* moments = reinterpret_cast<ValueMoments*>(memory.scratch);
    measure(memory, moments);
    for_each_group([&](int64_t sample, int64_t first, int64_t count) {
      ValueMoments all;
      for_each_tile(sample, first, count, [&](int64_t at) { all.merge(moments[at]); });
      const MvnForward forward = rule_.forward(all.mean, all.squares);
      for (int64_t c = first; c < first + count; ++c)
        saved(memory)[sample * channels() + c] = forward;
    });
    normalize(memory);
  }

  void backward(const StepContext&, const Bindings& memory) override {
    if (!memory.input_gradients[0]) return;
    const Element* gradient =
        combined_gradient(team(), memory, std::nullopt).template as<Element>();
    auto* sums = reinterpret_cast<MvnSums*>(memory.scratch);
    sum_gradients(memory, gradient, sums);
    for_each_group([&](int64_t sample, int64_t first, int64_t count) {
      MvnSums all;
      for_each_tile(sample, first, count, [&](int64_t at) {
        all.gradient += sums[at].gradient;
        all.centered += sums[at].centered;
      });
      const MvnForward& forward = saved(memory)[sample * channels() + first];
      put(memory, sample, first, count, forward.mean,
          rule_.backward(forward, all.gradient, all.centered));
    });
    write_gradient(memory, gradient);
  }

 private:
  /// For each channel of each sample: the mean and the coefficients of MvnBackward. In forward, the
  /// output is of_centered * (x - mean) + term.
  struct Arrays {
    float *mean, *of_gradient, *of_centered, *term;
  };

  int64_t channels() const { return tiling_.channels(); }
  static MvnForward* saved(const Bindings& memory) {
    return reinterpret_cast<MvnForward*>(memory.workspace);
  }
  Arrays arrays(const Bindings& memory) const {
    const int64_t count = tiling_.matrices() * channels();
    auto* first = reinterpret_cast<float*>(reinterpret_cast<ValueMoments*>(memory.scratch) +
                                           count * tiling_.tiles());
    return {first, first + count, first + 2 * count, first + 3 * count};
  }

  /// The divisions for a tile and channel of a group take as long as this many elements.
  static constexpr int64_t kElementsOfMoments = 64;

  /// Calls body(sample, first channel, channels) for each set of channels with a common mean.
  template <class Body>
  void for_each_group(const Body& body) const {
    const int64_t real = definition_.input.channels();
    const int64_t count = definition_.across_channels ? real : 1;
    for_each_pair(team(), tiling_.matrices(), real / count,
                  kElementsOfMoments * count * tiling_.tiles(),
                  [&](int64_t sample, int64_t group) { body(sample, group * count, count); });
  }
  /// Calls body(index) for each tile of a sample and each of the `count` channels from `first` on.
  /// `index` is the index of the tile and channel in `moments` and in `sums`.
  template <class Body>
  void for_each_tile(int64_t sample, int64_t first, int64_t count, const Body& body) const {
    for (int64_t tile = 0; tile < tiling_.tiles(); ++tile)
      for (int64_t c = first; c < first + count; ++c)
        body((sample * tiling_.tiles() + tile) * channels() + c);
  }

  void measure(const Bindings& memory, ValueMoments* moments) const {
    const Element* in = memory.inputs[0].as<Element>();
    std::fill_n(moments, tiling_.matrices() * tiling_.tiles() * channels(), ValueMoments{});
    tiling_.for_each_run(team(), [=, this](auto vector, const ChannelTiling::Run& run) {
      using Float = decltype(vector);
      if (run.count == 0) return;
      const auto tile = tile_moments<Float>(in + run.offset, run.count, run.stride);
      for (size_t i = 0; i < sizeof(Float) / sizeof(float); ++i)
        moments[run.row * channels() + run.channel_of(static_cast<int64_t>(i))].merge(tile.lane(i));
    });
  }

  void put(const Bindings& memory, int64_t sample, int64_t first, int64_t count, double mean,
           const MvnBackward& values) const {
    const Arrays to = arrays(memory);
    const auto rounded = static_cast<float>(mean);
    const double rest = mean - static_cast<double>(rounded);
    for (int64_t at = sample * channels() + first, end = at + count; at < end; ++at) {
      to.mean[at] = rounded;
      to.of_gradient[at] = static_cast<float>(values.of_gradient);
      to.of_centered[at] = static_cast<float>(values.of_centered);
      to.term[at] = static_cast<float>(values.term - values.of_centered * rest);
    }
  }
  /// Sets the coefficients to 0, so that padding is multiplied by 0.
  void clear(const Arrays& to) const {
    for (float* array : {to.mean, to.of_gradient, to.of_centered, to.term})
      std::fill_n(array, tiling_.matrices() * channels(), 0.0F);
  }

  void normalize(const Bindings& memory) const {
    const Arrays values = arrays(memory);
    clear(values);
    for_each_group([&](int64_t sample, int64_t first, int64_t count) {
      const MvnForward& f = saved(memory)[sample * channels() + first];
      put(memory, sample, first, count, f.mean,
          {.of_gradient = 0, .of_centered = f.unit, .term = 0});
    });
    const Element* in = memory.inputs[0].as<Element>();
    Element* out = memory.output.as<Element>();
    tiling_.for_each_run(team(), [=, this](auto vector, const ChannelTiling::Run& run) {
      using Float = decltype(vector);
      const int64_t first = run.matrix * channels();
      const auto mean = of_channels<Float>(values.mean + first, run);
      const auto unit = of_channels<Float>(values.of_centered + first, run);
      const auto term = of_channels<Float>(values.term + first, run);
      for (int64_t k = 0; k < run.count; ++k) {
        const int64_t at = run.offset + k * run.stride;
        store(out + at, (load<Float>(in + at) - mean) * unit + term);
      }
    });
  }

  void sum_gradients(const Bindings& memory, const Element* gradient, MvnSums* sums) const {
    const Element* in = memory.inputs[0].as<Element>();
    const MvnForward* normalized = saved(memory);
    std::fill_n(sums, tiling_.matrices() * tiling_.tiles() * channels(), MvnSums{});
    clear(arrays(memory));
    tiling_.for_each_run(team(), [=, this](auto vector, const ChannelTiling::Run& run) {
      using Float = decltype(vector);
      constexpr int64_t kLanes = sizeof(Float) / sizeof(float);
      Float mean{}, of_gradient{}, of_centered{};
      double rest[kLanes] = {};
      for (int64_t i = 0; i < kLanes; ++i) {
        const int64_t channel = run.channel_of(i);
        if (channel >= definition_.input.channels()) continue;
        const double exact = normalized[run.matrix * channels() + channel].mean;
        mean[i] = static_cast<float>(exact);
        rest[i] = exact - static_cast<double>(mean[i]);
      }
      for (int64_t k = 0; k < run.count; ++k) {
        const int64_t at = run.offset + k * run.stride;
        const auto g = load<Float>(gradient + at);
        of_gradient += g;
        of_centered += g * (load<Float>(in + at) - mean);
      }
      for (int64_t i = 0; i < kLanes; ++i) {
        MvnSums& to = sums[run.row * channels() + run.channel_of(i)];
        const double sum = static_cast<double>(of_gradient[i]);
        to.gradient += sum;
        to.centered += static_cast<double>(of_centered[i]) - sum * rest[i];
      }
    });
  }

  void write_gradient(const Bindings& memory, const Element* gradient) const {
    const Arrays values = arrays(memory);
    const Element* in = memory.inputs[0].as<Element>();
    Element* target = memory.input_gradients[0].as<Element>();
    tiling_.for_each_run(team(), [=, this](auto vector, const ChannelTiling::Run& run) {
      using Float = decltype(vector);
      const int64_t first = run.matrix * channels();
      const auto mean = of_channels<Float>(values.mean + first, run);
      const auto of_gradient = of_channels<Float>(values.of_gradient + first, run);
      const auto of_centered = of_channels<Float>(values.of_centered + first, run);
      const auto term = of_channels<Float>(values.term + first, run);
      for (int64_t k = 0; k < run.count; ++k) {
        const int64_t at = run.offset + k * run.stride;
        const Float centered = load<Float>(in + at) - mean;
        store(target + at,
              of_gradient * load<Float>(gradient + at) + of_centered * centered + term);
      }
    });
  }

  const Mvn& definition_;
  MvnRule rule_;
  ChannelTiling tiling_;
};

}  // namespace

std::unique_ptr<Layer> make_mvn(const LayerRequest& request, CpuDevice& device) {
  return make_for_element_of<CpuMvn>(request.input_formats[0], request, device);
}

}  // namespace poseidon::layers::cpu
