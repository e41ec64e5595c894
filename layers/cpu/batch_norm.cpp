#include "layers/batch_norm.h"

#include <array>
#include <cmath>

#include "layers/cpu/cpu_layer.h"
#include "layers/cpu/vectors.h"

namespace poseidon::layers::cpu {

namespace {

constexpr int64_t kMaxLanes = 16;
/// Positions of a tile. 256 x 16 lanes are 16 KiB, so the second read of a tile is from the
/// first-level cache.
constexpr int64_t kTile = 256;

/// Up to 16 channels that are adjacent in memory at each position.
struct ChannelGroup {
  int64_t first;   ///< first channel
  int64_t lanes;   ///< channels in memory, padding included
  int64_t real;    ///< channels without padding
  int64_t offset;  ///< elements before the group's channels at position 0 of sample 0
};

std::vector<ChannelGroup> groups_of(const Blocking& blocking) {
  std::vector<ChannelGroup> groups;
  for (int64_t block = 0; block < blocking.blocks; ++block) {
    for (int64_t lane = 0; lane < blocking.block; lane += kMaxLanes) {
      const int64_t lanes = std::min(kMaxLanes, blocking.block - lane);
      const int64_t first = block * blocking.block + lane;
      const int64_t real = std::clamp<int64_t>(blocking.channels - first, 0, lanes);
      groups.push_back({first, lanes, real, block * blocking.area * blocking.block + lane});
    }
  }
  return groups;
}

/// One value for each lane of a group.
using Lanes = std::array<double, kMaxLanes>;
using FloatLanes = std::array<float, kMaxLanes>;

/// For each lane: sums of (value - center) and of (value - center)^2 over one tile. `center` is the
/// lane's mean in the precision of Float.
template <class Float>
struct TileSums {
  double count;
  Float center{}, distances{}, squares{};
};

/// Mean and sum of squared deviations of a stream of tiles, merged pairwise (Chan, Golub and
/// LeVeque 1979). This method reads memory once, and avoids the cancellation of E[x^2] - E[x]^2.
/// merge() corrects the rounding error of `center`. So the error of the mean is small compared with
/// the deviation, even if the mean is far from zero.
struct Moments {
  double count = 0;
  Lanes mean{}, squares{};

  template <class Float>
  void merge(const TileSums<Float>& tile) {
    const double total = count + tile.count;
    for (size_t i = 0; i < sizeof(Float) / sizeof(float); ++i) {
      const double distances = static_cast<double>(tile.distances[i]);
      const double rest = distances / tile.count;
      const double delta = static_cast<double>(tile.center[i]) + rest - mean[i];
      mean[i] += delta * tile.count / total;
      squares[i] += static_cast<double>(tile.squares[i]) - distances * rest +
                    delta * delta * count * tile.count / total;
    }
    count = total;
  }
};

/// Calls body(a vector, the distance between positions, the vector's first lane) for all lanes of a
/// group. 16 or 8 lanes are one vector; other numbers of lanes are separate vectors of one lane.
/// The vectors are explicit, because compilers do not always compute loops over lanes in registers.
/// Without explicit vectors, the sums of backward sometimes took ten times as long.
template <class Body>
void for_each_vector(int64_t lanes, int64_t stride, const Body& body) {
  if (lanes == 16 && stride == 16)
    return body(Vectors<16>::Float{}, std::integral_constant<int64_t, 16>{}, size_t{0});
  if (lanes == 16) return body(Vectors<16>::Float{}, stride, size_t{0});
  if (lanes == 8) return body(Vectors<8>::Float{}, stride, size_t{0});
  for (size_t lane = 0; lane < static_cast<size_t>(lanes); ++lane)
    body(Vectors<1>::Float{}, stride, lane);
}

/// Poseidon's own kernels. oneDNN's training pass reads the input three times forward and twice
/// backward, and cannot include the addition of a residual. Here forward reads the input twice. In
/// backward, one pass computes the sum of the consumers' gradients, the relu's mask, the residual's
/// gradient, and the sums for the gradients of scale and shift.
template <class Element>
class CpuBatchNorm final : public CpuLayer {
 public:
  CpuBatchNorm(const LayerRequest& request, CpuDevice& device)
      : CpuLayer(request, device),
        definition_(static_cast<const BatchNorm&>(request.definition)),
        relu_(request.relu),
        residual_(request.residual),
        blocking_(definition_.input, needs_.output_format.layout),
        groups_(groups_of(blocking_)) {
    for (Format& format : needs_.input_formats) format = needs_.output_format;
    needs_.backward_reads_inputs = true;
    needs_.backward_reads_output = relu_.has_value();
    needs_.backward_in_place = residual_ ? 1 : 0;
    needs_.workspace_bytes = groups_.size() * sizeof(Saved);
  }

  void forward(const StepContext& step, const Bindings& memory) override {
    auto* saved = reinterpret_cast<Saved*>(memory.workspace);
    const auto count = static_cast<int64_t>(groups_.size());
    for_each_item(team(), count, elements_of_group(), [&](int64_t g) {
      const ChannelGroup& group = groups_[static_cast<size_t>(g)];
      if (step.phase == Phase::kTrain)
        measure(group, memory, saved[g]);
      else
        recall(group, memory, saved[g]);
      normalize(group, memory, saved[g]);
    });
  }

  void backward(const StepContext& step, const Bindings& memory) override {
    const auto* saved = reinterpret_cast<const Saved*>(memory.workspace);
    const auto count = static_cast<int64_t>(groups_.size());
    for_each_item(team(), count, elements_of_group(), [&](int64_t g) {
      const ChannelGroup& group = groups_[static_cast<size_t>(g)];
      const GradientSums sums = sum_gradients(group, memory, saved[g]);
      write_parameter_gradients(group, memory, saved[g], sums);
      if (!memory.input_gradients[0]) return;
      // Outside training, forward uses the running statistics, which do not depend on this input.
      const bool varies = step.phase == Phase::kTrain;
      write_input_gradient(group, memory, saved[g], varies ? sums : GradientSums{});
    });
  }

 private:
  /// The results of forward that backward needs, for one group. The mean is mean + mean_rest. If
  /// the mean is many deviations from zero, the error of a single float would be a visible part of
  /// the deviation.
  struct Saved {
    FloatLanes mean, mean_rest, inverse_deviation;
  };
  struct GradientSums {
    Lanes gradient{}, gradient_times_centered{};
  };

  int64_t elements_of_group() const { return blocking_.count() / std::ssize(groups_); }
  double population() const { return static_cast<double>(blocking_.samples * blocking_.area); }

  /// Calls tile(offset of the tile's first position, number of positions) for all tiles of all
  /// samples of a group.
  template <class Tile>
  void for_each_tile(const ChannelGroup& group, const Tile& tile) const {
    const int64_t sample_stride = blocking_.blocks * blocking_.area * blocking_.block;
    for (int64_t sample = 0; sample < blocking_.samples; ++sample)
      for (int64_t first = 0; first < blocking_.area; first += kTile)
        tile(group.offset + sample * sample_stride + first * blocking_.block,
             std::min(kTile, blocking_.area - first));
  }

  void measure(const ChannelGroup& group, const Bindings& memory, Saved& saved) const {
    const Element* source = memory.inputs[0].as<Element>();
    for_each_vector(group.lanes, blocking_.block, [&](auto vector, auto stride, size_t lane) {
      using Float = decltype(vector);
      Moments moments;
      for_each_tile(group, [&](int64_t offset, int64_t positions) {
        merge_tile<Float>(source + offset + lane, positions, stride, moments);
      });
      for (size_t i = 0; i < sizeof(Float) / sizeof(float); ++i)
        save(moments.mean[i], moments.squares[i], group, lane + i, memory, saved);
    });
  }

  template <class Float, class Stride>
  static void merge_tile(const Element* tile, int64_t positions, Stride stride, Moments& moments) {
    Float center{}, distances{}, squares{};
    for (int64_t p = 0; p < positions; ++p) center += load<Float>(tile + p * stride);
    center *= 1 / static_cast<float>(positions);
    for (int64_t p = 0; p < positions; ++p) {
      const Float distance = load<Float>(tile + p * stride) - center;
      distances += distance;
      squares += distance * distance;
    }
    moments.merge(TileSums<Float>{static_cast<double>(positions), center, distances, squares});
  }

  void save(double mean, double squares, const ChannelGroup& group, size_t lane,
            const Bindings& memory, Saved& saved) const {
    saved.mean[lane] = static_cast<float>(mean);
    saved.mean_rest[lane] = static_cast<float>(mean - static_cast<double>(saved.mean[lane]));
    saved.inverse_deviation[lane] =
        static_cast<float>(1 / std::sqrt(squares / population() + definition_.epsilon));
    if (static_cast<int64_t>(lane) >= group.real) return;
    const int64_t channel = group.first + static_cast<int64_t>(lane);
    memory.statistics[0].gradient[channel] = saved.mean[lane];
    memory.statistics[1].gradient[channel] =
        static_cast<float>(squares / std::max(1.0, population() - 1));
  }

  /// For testing: fills `saved` from the running statistics.
  void recall(const ChannelGroup& group, const Bindings& memory, Saved& saved) const {
    saved = {};
    for (int64_t lane = 0; lane < group.real; ++lane) {
      const auto i = static_cast<size_t>(lane);
      saved.mean[i] = memory.statistics[0].value[group.first + lane];
      const double variance = memory.statistics[1].value[group.first + lane];
      saved.inverse_deviation[i] =
          static_cast<float>(1 / std::sqrt(variance + definition_.epsilon));
    }
  }

  /// y = (x - mean) * factor + term. Then adds the residual and applies the relu, if they are
  /// fused. factor and term are zero in padding lanes, so padding stays zero.
  void normalize(const ChannelGroup& group, const Bindings& memory, const Saved& saved) const {
    FloatLanes factor{}, term{};
    for (int64_t lane = 0; lane < group.real; ++lane) {
      const auto i = static_cast<size_t>(lane);
      factor[i] = memory.parameters[0].value[group.first + lane] * saved.inverse_deviation[i];
      term[i] = memory.parameters[1].value[group.first + lane] - saved.mean_rest[i] * factor[i];
    }
    const Element* source = memory.inputs[0].as<Element>();
    const Element* residual = residual_ ? memory.inputs[1].as<Element>() : nullptr;
    Element* target = memory.output.as<Element>();
    // Without a relu the slope is 1, so one loop computes both cases.
    const float slope = relu_.value_or(1);
    for_each_vector(group.lanes, blocking_.block, [&](auto vector, auto stride, size_t lane) {
      using Float = decltype(vector);
      const auto factors = load<Float>(&factor[lane]), terms = load<Float>(&term[lane]);
      const auto mean = load<Float>(&saved.mean[lane]);
      for_each_tile(group, [&](int64_t offset, int64_t positions) {
        for (int64_t p = 0; p < positions; ++p) {
          const int64_t at = offset + p * stride + static_cast<int64_t>(lane);
          Float y = (load<Float>(source + at) - mean) * factors + terms;
          if (residual != nullptr) y += load<Float>(residual + at);
          store(target + at, y > 0 ? y : y * slope);
        }
      });
    });
  }

  /// The destination of the sum of the output's gradients, multiplied by the derivative of a fused
  /// relu. Null: output_gradients[0] already is this sum.
  Element* masked_target(const Bindings& memory) const {
    if (residual_ && memory.input_gradients[1]) return memory.input_gradients[1].as<Element>();
    return relu_ || memory.output_gradients.size() > 1 ? memory.output_gradients[0].as<Element>()
                                                       : nullptr;
  }

  const Element* masked_gradient(const Bindings& memory) const {
    const Element* written = masked_target(memory);
    return written != nullptr ? written : memory.output_gradients[0].as<Element>();
  }

  GradientSums sum_gradients(const ChannelGroup& group, const Bindings& memory,
                             const Saved& saved) const {
    GradientSums sums;
    // More than two output gradients are rare. This loop adds the third and later gradients to the
    // first gradient.
    for (size_t i = 2; i < memory.output_gradients.size(); ++i)
      add_contribution(group, memory.output_gradients[i].as<Element>(),
                       memory.output_gradients[0].as<Element>());
    const Element* gradient = memory.output_gradients[0].as<Element>();
    const Element* other =
        memory.output_gradients.size() > 1 ? memory.output_gradients[1].as<Element>() : nullptr;
    const Element* output = relu_ ? memory.output.as<Element>() : nullptr;
    const Element* source = memory.inputs[0].as<Element>();
    Element* masked = masked_target(memory);
    const float slope = relu_.value_or(1);
    for_each_vector(group.lanes, blocking_.block, [&](auto vector, auto stride, size_t lane) {
      using Float = decltype(vector);
      const auto mean = load<Float>(&saved.mean[lane]);
      for_each_tile(group, [&](int64_t offset, int64_t positions) {
        Float sum{}, product{};
        for (int64_t p = 0; p < positions; ++p) {
          const int64_t at = offset + p * stride + static_cast<int64_t>(lane);
          auto g = load<Float>(gradient + at);
          if (other != nullptr) g += load<Float>(other + at);
          if (output != nullptr) g = load<Float>(output + at) > 0 ? g : g * slope;
          if (masked != nullptr) store(masked + at, g);
          sum += g;
          product += g * (load<Float>(source + at) - mean);
        }
        for (size_t i = 0; i < sizeof(Float) / sizeof(float); ++i) {
          sums.gradient[lane + i] += static_cast<double>(sum[i]);
          sums.gradient_times_centered[lane + i] +=
              static_cast<double>(product[i]) -
              static_cast<double>(sum[i]) * static_cast<double>(saved.mean_rest[lane + i]);
        }
      });
    });
    return sums;
  }

  void add_contribution(const ChannelGroup& group, const Element* from, Element* to) const {
    for_each_tile(group, [&](int64_t offset, int64_t positions) {
      for (int64_t p = 0; p < positions; ++p)
        for (int64_t lane = 0; lane < group.lanes; ++lane) {
          const int64_t at = offset + p * blocking_.block + lane;
          to[at] = to[at] + from[at];
        }
    });
  }

  void write_parameter_gradients(const ChannelGroup& group, const Bindings& memory,
                                 const Saved& saved, const GradientSums& sums) const {
    for (int64_t lane = 0; lane < group.real; ++lane) {
      const auto i = static_cast<size_t>(lane);
      memory.parameters[0].gradient[group.first + lane] = static_cast<float>(
          sums.gradient_times_centered[i] * static_cast<double>(saved.inverse_deviation[i]));
      memory.parameters[1].gradient[group.first + lane] = static_cast<float>(sums.gradient[i]);
    }
  }

  /// dx = a * g + b * (x - mean) + c, where g is masked_gradient(). If the batch's statistics
  /// normalized x, `sums` has the sums over the batch. If the running statistics normalized x,
  /// `sums` is zero.
  void write_input_gradient(const ChannelGroup& group, const Bindings& memory, const Saved& saved,
                            const GradientSums& sums) const {
    FloatLanes a{}, b{}, c{};
    for (int64_t lane = 0; lane < group.real; ++lane) {
      const auto i = static_cast<size_t>(lane);
      const double inverse = saved.inverse_deviation[i];
      const double factor =
          static_cast<double>(memory.parameters[0].value[group.first + lane]) * inverse;
      const double slope =
          -factor * inverse * inverse * sums.gradient_times_centered[i] / population();
      a[i] = static_cast<float>(factor);
      b[i] = static_cast<float>(slope);
      c[i] = static_cast<float>(-factor * sums.gradient[i] / population() -
                                slope * static_cast<double>(saved.mean_rest[i]));
    }
    const Element* gradient = masked_gradient(memory);
    const Element* source = memory.inputs[0].as<Element>();
    Element* target = memory.input_gradients[0].as<Element>();
    for_each_vector(group.lanes, blocking_.block, [&](auto vector, auto stride, size_t lane) {
      using Float = decltype(vector);
      const auto as = load<Float>(&a[lane]), bs = load<Float>(&b[lane]), cs = load<Float>(&c[lane]);
      const auto mean = load<Float>(&saved.mean[lane]);
      for_each_tile(group, [&](int64_t offset, int64_t positions) {
        for (int64_t p = 0; p < positions; ++p) {
          const int64_t at = offset + p * stride + static_cast<int64_t>(lane);
          const Float centered = load<Float>(source + at) - mean;
          store(target + at, as * load<Float>(gradient + at) + bs * centered + cs);
        }
      });
    });
  }

  const BatchNorm& definition_;
  std::optional<float> relu_;
  bool residual_;
  Blocking blocking_;
  std::vector<ChannelGroup> groups_;
};

}  // namespace

std::unique_ptr<Layer> make_batch_norm(const LayerRequest& request, CpuDevice& device) {
  return make_for_element_of<CpuBatchNorm>(request.input_formats[0], request, device);
}

}  // namespace poseidon::layers::cpu
