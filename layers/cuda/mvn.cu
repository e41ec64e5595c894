#include "layers/cuda/batch_norm_backward.cuh"
#include "layers/cuda/batch_norm_forward.cuh"
#include "layers/cuda/channel_arrays.h"
#include "layers/mvn_rules.h"

namespace poseidon::layers::cuda {

namespace {

/// The layer type in the names of kernels.
struct OfMvn {
  static constexpr const char* kType = "mvn";
};

/// Groups of channels that are normalized together. One warp merges the values of a group's bands.
struct MvnGroups {
  MatrixTiling tiling;
  uint32_t width;  ///< channels of a group

  uint32_t count() const { return static_cast<uint32_t>(tiling.channels_of_all() / width); }
  POSEIDON_DEVICE uint32_t values() const { return width * tiling.of_one.bands; }
};

/// Computes the mean of each group and, if MvnRule uses it, the standard deviation. For each
/// channel of the group, writes the coefficients for BatchNormNormalizeKernel, and `saved` for the
/// backward pass.
struct MvnStatisticsKernel {
  static constexpr const char* kName = "mvn statistics";
  static constexpr uint32_t kThreads = ChannelWarp::kThreads;
  using Shared = NoSharedMemory;

  MvnGroups groups;
  uint32_t count;  ///< number of groups
  MvnRule rule;
  const BandMoments* of_bands;
  MvnForward* saved;
  float *mean, *factor, *term;

  void visit(MemoryVisitor& visitor) const {
    const int64_t channels = groups.tiling.channels_of_all();
    visitor.reads(of_bands, bytes_of_elements<BandMoments>(groups.tiling.values_of_bands()));
    visitor.writes(saved, bytes_of_elements<MvnForward>(channels));
    for (float* written : {mean, factor, term})
      visitor.writes(written, bytes_of_elements<float>(channels));
  }

  POSEIDON_DEVICE void operator()(const Thread& thread, Shared&) const {
    const uint32_t group = ChannelWarp::channel(thread);
    if (group >= count) return;  // the whole warp returns
    const RowTiling& tiling = groups.tiling.of_one;
    const BandMoments* moments = of_bands + int64_t{group} * groups.values();
    const double reference = moments[0].mean;
    double distances = 0, squares = 0;
    for (uint32_t k = thread.lane(); k < groups.values(); k += kWarp) {
      const double rows = tiling.rows_in(k % tiling.bands), distance = moments[k].mean - reference;
      distances += rows * distance;
      squares += moments[k].squares + rows * distance * distance;
    }
    distances = reduce_warp(thread, distances, Sum{});
    squares = reduce_warp(thread, squares, Sum{});
    const double rest = distances / rule.population;
    const MvnForward forward = rule.forward(reference + rest, squares - distances * rest);
    for (uint32_t c = thread.lane(); c < groups.width; c += kWarp)
      write(int64_t{group} * groups.width + c, forward);
  }

  POSEIDON_DEVICE void write(int64_t channel, const MvnForward& forward) const {
    const auto rounded = static_cast<float>(forward.mean);
    const double rest = forward.mean - static_cast<double>(rounded);
    saved[channel] = forward;
    mean[channel] = rounded;
    factor[channel] = static_cast<float>(forward.unit);
    term[channel] = static_cast<float>(-rest * forward.unit);
  }
};

/// Merges the sums of gradients of each group. Writes the coefficients of the input gradient, for
/// each channel of the group.
struct MvnGradientSumsKernel {
  static constexpr const char* kName = "mvn sums of gradients";
  static constexpr uint32_t kThreads = ChannelWarp::kThreads;
  using Shared = NoSharedMemory;

  MvnGroups groups;
  uint32_t count;  ///< number of groups
  MvnRule rule;
  const BandGradients* of_bands;
  const MvnForward* saved;
  GradientCoefficients coefficients;

  void visit(MemoryVisitor& visitor) const {
    const int64_t channels = groups.tiling.channels_of_all();
    visitor.reads(of_bands, bytes_of_elements<BandGradients>(groups.tiling.values_of_bands()));
    visitor.reads(saved, bytes_of_elements<MvnForward>(channels));
    for (float* written : {coefficients.of_gradient, coefficients.of_centered, coefficients.term})
      visitor.writes(written, bytes_of_elements<float>(channels));
  }

  POSEIDON_DEVICE void operator()(const Thread& thread, Shared&) const {
    const uint32_t group = ChannelWarp::channel(thread);
    if (group >= count) return;  // the whole warp returns
    const BandGradients* sums = of_bands + int64_t{group} * groups.values();
    double gradient = 0, product = 0;
    for (uint32_t k = thread.lane(); k < groups.values(); k += kWarp) {
      gradient += sums[k].gradient;
      product += sums[k].gradient_times_centered;
    }
    gradient = reduce_warp(thread, gradient, Sum{});
    product = reduce_warp(thread, product, Sum{});
    const MvnForward forward = saved[int64_t{group} * groups.width];
    // `product` is the sum of g * (x - rounded mean).
    const double rest = forward.mean - static_cast<double>(static_cast<float>(forward.mean));
    const MvnBackward values = rule.backward(forward, gradient, product - gradient * rest);
    for (uint32_t c = thread.lane(); c < groups.width; c += kWarp)
      write(int64_t{group} * groups.width + c, values, rest);
  }

  POSEIDON_DEVICE void write(int64_t channel, const MvnBackward& values, double rest) const {
    coefficients.of_gradient[channel] = static_cast<float>(values.of_gradient);
    coefficients.of_centered[channel] = static_cast<float>(values.of_centered);
    coefficients.term[channel] = static_cast<float>(values.term - values.of_centered * rest);
  }
};

/// Mean-variance normalization. It uses the kernels of batch norm that read the input, with one
/// matrix for each sample.
template <class Element, int kEach>
class CudaMvn final : public CudaLayer {
 public:
  CudaMvn(const LayerRequest& request, CudaDevice& device)
      : CudaLayer(request, device),
        definition_(static_cast<const Mvn&>(request.definition)),
        tiling_(definition_.input.samples(), definition_.input.area(), definition_.input.channels(),
                kEach),
        groups_{tiling_, definition_.across_channels ? tiling_.of_one.channels : 1} {
    needs_.backward_reads_inputs = true;
    needs_.forward_in_place = request.training ? -1 : 0;
    needs_.backward_in_place = 0;
    needs_.workspace_bytes =
        ChannelArrays::bytes(channels(), 1) + bytes_of_elements<MvnForward>(channels());
    needs_.scratch_bytes = bytes_of_bands() + ChannelArrays::bytes(channels(), 3);
  }

  void forward(const StepContext&, const Bindings& memory) override {
    auto* of_bands = reinterpret_cast<BandMoments*>(memory.scratch);
    ChannelArrays arrays = behind_bands(memory);
    float *factor = arrays.allocate(), *term = arrays.allocate();
    device_.launch(
        BatchNormMomentsKernel<Element, kEach, OfMvn>{tiling_, memory.inputs[0].as<Element>(),
                                                      of_bands},
        tiling_.grid());
    device_.launch(MvnStatisticsKernel{.groups = groups_,
                                       .count = groups_.count(),
                                       .rule = MvnRule(definition_),
                                       .of_bands = of_bands,
                                       .saved = saved(memory),
                                       .mean = mean(memory),
                                       .factor = factor,
                                       .term = term},
                   ChannelWarp::grid(groups_.count()));
    using Kernel = BatchNormNormalizeKernel<Element, kEach, OfMvn>;
    device_.launch(Kernel{.tiling = tiling_,
                          .input = memory.inputs[0].as<Element>(),
                          .residual = nullptr,
                          .output = memory.output.as<Element>(),
                          .above = nullptr,
                          .mean = mean(memory),
                          .factor = factor,
                          .term = term,
                          .slope = 1},
                   tiling_.grid());
  }

  void backward(const StepContext&, const Bindings& memory) override {
    if (!memory.input_gradients[0]) return;
    const IncomingGradient<Element, 1> gradient{
        {combined_gradient(device_, memory, std::nullopt).template as<Element>()}, {}};
    const GradientCoefficients coefficients = sum_gradients(memory, gradient);
    using Kernel = BatchNormInputGradientKernel<Element, kEach, OfMvn>;
    device_.launch(Kernel{.tiling = tiling_,
                          .gradient = gradient,
                          .input = memory.inputs[0].as<Element>(),
                          .mean = mean(memory),
                          .coefficients = coefficients,
                          .target = memory.input_gradients[0].as<Element>()},
                   tiling_.grid());
  }

 private:
  int64_t channels() const { return tiling_.channels_of_all(); }
  float* mean(const Bindings& memory) const {
    return ChannelArrays(memory.workspace, channels()).allocate();
  }
  MvnForward* saved(const Bindings& memory) const {
    return reinterpret_cast<MvnForward*>(memory.workspace + ChannelArrays::bytes(channels(), 1));
  }
  size_t bytes_of_bands() const {
    static_assert(sizeof(BandMoments) == sizeof(BandGradients));
    return (bytes_of_elements<BandMoments>(tiling_.values_of_bands()) + 63) / 64 * 64;
  }
  ChannelArrays behind_bands(const Bindings& memory) const {
    return {memory.scratch + bytes_of_bands(), channels()};
  }

  GradientCoefficients sum_gradients(const Bindings& memory,
                                     const IncomingGradient<Element, 1>& gradient) {
    auto* of_bands = reinterpret_cast<BandGradients*>(memory.scratch);
    ChannelArrays arrays = behind_bands(memory);
    const GradientCoefficients coefficients{.of_gradient = arrays.allocate(),
                                            .of_centered = arrays.allocate(),
                                            .term = arrays.allocate()};
    using Kernel = BatchNormGradientSumsKernel<Element, kEach, 1, OfMvn>;
    device_.launch(Kernel{.tiling = tiling_,
                          .gradient = gradient,
                          .input = memory.inputs[0].as<Element>(),
                          .mean = mean(memory),
                          .written = nullptr,
                          .of_bands = of_bands},
                   tiling_.grid());
    device_.launch(MvnGradientSumsKernel{.groups = groups_,
                                         .count = groups_.count(),
                                         .rule = MvnRule(definition_),
                                         .of_bands = of_bands,
                                         .saved = saved(memory),
                                         .coefficients = coefficients},
                   ChannelWarp::grid(groups_.count()));
    return coefficients;
  }

  const Mvn& definition_;
  MatrixTiling tiling_;
  MvnGroups groups_;
};

}  // namespace

std::unique_ptr<Layer> make_mvn(const LayerRequest& request, const LayerContext& context) {
  return make_for_channels<CudaMvn>(request, context.device);
}

}  // namespace poseidon::layers::cuda
