#include <algorithm>
#include <type_traits>

#include "layers/cpu/bf16_patch_gradient.h"
#include "layers/cpu/bf16_patch_product.h"
#include "layers/cpu/bias_gradient.h"
#include "layers/cpu/convolution_pass.h"
#include "layers/cpu/narrow_product.h"
#include "layers/cpu/pass_weight.h"
#include "layers/cpu/patch_gradient.h"
#include "layers/cpu/patch_product.h"
#include "layers/cpu/product.h"

namespace poseidon::layers::cpu {

namespace {

using namespace poseidon::cpu;
using product::NarrowProduct, product::PatchGradient, product::PatchProduct;
#ifdef __AVX512F__
using product::Bf16PatchGradient, product::Bf16PatchProduct;
#else
using Bf16PatchProduct = PatchProduct;  // never made: has_bf16_product() is false
#endif

/// The most groups that one bf16 product may compute as a convolution without groups, whose weight
/// has zeros between the groups. The instructions multiply 32 channels by 16 channels at a time.
int64_t groups_of_product(const Convolution& c, DataType type) {
  constexpr int64_t kMostChannels = 32;
  const int64_t most = std::max(c.input.channels(), c.outputs) / c.groups;
  if (type == DataType::kFp32) return 1;
  int64_t count = 1;
  for (int64_t i = 2; i <= c.groups && i * most <= kMostChannels; ++i)
    if (c.groups % i == 0) count = i;
  return count;
}

/// The groups of a convolution, as products compute them: `together` at a time.
struct Groups {
  Groups(const Convolution& c, DataType type)
      : together(groups_of_product(c, type)),
        count(c.groups / together),
        inputs(c.input.channels() / count),
        outputs(c.outputs / count) {}

  int64_t all_outputs() const { return count * outputs; }
  /// The order of a product_weight(), read from one channel of a patch and of a result to the next.
  product::PatchWeight weight(int64_t channel_step, int64_t result_step, int64_t channels,
                              int64_t results) const {
    product::PatchWeight order{.tap_step = inputs / together * all_outputs(),
                               .channel_step = channel_step,
                               .result_step = result_step};
    if (together == 1) return order;
    order.group_step = outputs / together;
    order.channels = channels / together;
    order.results = results / together;
    return order;
  }

  int64_t together;
  int64_t count;            ///< of products
  int64_t inputs, outputs;  ///< channels of a product
};

/// The grid of the forward pass. Its places are the output's cells.
PatchGrid forward_grid(const Convolution& c) {
  PatchGrid grid{.samples = c.output.samples(),
                 .height = c.output.height(),
                 .width = c.output.width(),
                 .step = c.stride,
                 .taps = {}};
  for (int64_t y = 0; y < c.kernel[0]; ++y)
    for (int64_t x = 0; x < c.kernel[1]; ++x)
      grid.taps.push_back({.index = y * c.kernel[1] + x,
                           .offset = {y * c.dilation[0] - c.padding.before[0],
                                      x * c.dilation[1] - c.padding.before[1]}});
  return grid;
}

/// Input cells along one axis that the same taps reach. They begin at `first`, one stride apart.
/// From one input cell to the next, the output cell of each tap moves by one.
struct InputClass {
  int64_t first, cells;
  std::vector<std::pair<int64_t, int64_t>> taps;  ///< tap, and output cell of the first input cell
};

std::vector<InputClass> classes_of(const Convolution& c, size_t axis) {
  std::vector<InputClass> classes;
  const int64_t extent = c.input[static_cast<int>(axis) + 2], stride = c.stride[axis];
  for (int64_t first = 0; first < std::min(stride, extent); ++first) {
    InputClass made{.first = first, .cells = product::pieces(extent - first, stride), .taps = {}};
    for (int64_t tap = 0; tap < c.kernel[axis]; ++tap) {
      const int64_t cell = first + c.padding.before[axis] - tap * c.dilation[axis];
      if (cell % stride == 0) made.taps.emplace_back(tap, cell / stride);
    }
    classes.push_back(std::move(made));
  }
  return classes;
}

/// The grid of the backward data pass. Its places are the input cells of one class of rows and one
/// class of columns. In fp32 the taps are in the kernel's order, which defines the bits. In bf16
/// they are in the reverse order, so that neighboring taps read neighboring cells in their order.
PatchGrid backward_grid(const Convolution& c, const InputClass& rows, const InputClass& columns,
                        DataType type) {
  PatchGrid grid{.samples = c.input.samples(),
                 .height = rows.cells,
                 .width = columns.cells,
                 .step = {1, 1},
                 .taps = {}};
  for (const auto& [y, down] : rows.taps)
    for (const auto& [x, right] : columns.taps)
      grid.taps.push_back({.index = y * c.kernel[1] + x, .offset = {down, right}});
  if (type == DataType::kBf16) std::ranges::reverse(grid.taps);
  return grid;
}

/// The patches of the forward pass of one product.
Patches forward_patches(const ConvolutionParts& parts, const Groups& groups, int64_t group) {
  const Convolution& c = parts.convolution;
  return {forward_grid(c), c.input, parts.formats.in, group * groups.inputs, groups.inputs};
}

/// The patches of the backward data pass of one product.
Patches backward_patches(const ConvolutionParts& parts, const Groups& groups, int64_t group,
                         const InputClass& rows, const InputClass& columns) {
  const Convolution& c = parts.convolution;
  return {backward_grid(c, rows, columns, parts.formats.type), c.output, parts.formats.out,
          group * groups.outputs, groups.outputs};
}

/// Sets the padding lanes of the last block to zero. A product that writes only a part of a block
/// does not write these lanes.
void zero_padding_lanes(const Tensor& tensor) {
  const Blocking b = tensor.blocking();
  const int64_t used = b.channels - (b.blocks - 1) * b.block;
  if (used == b.block) return;
  with_element_of(tensor.format.type, [&](auto element) {
    for (int64_t n = 0; n < b.samples; ++n)
      for (int64_t position = 0; position < b.area; ++position) {
        auto* cell =
            tensor.as<decltype(element)>() + b.offset(n, (b.blocks - 1) * b.block, position);
        std::fill(cell + used, cell + b.block, decltype(element){});
      }
  });
}

/// Base class of the forward and backward data passes. The forward pass runs one product for each
/// group or Groups::together. The backward data pass runs one for each combination of these, an
/// InputClass of rows and an InputClass of columns. Product: PatchProduct, NarrowProduct or
/// Bf16PatchProduct.
template <class Product>
class PatchPass : public ConvolutionPass {
 public:
  explicit PatchPass(const ConvolutionParts& parts)
      : device_(parts.device),
        convolution_(parts.convolution),
        groups_(parts.convolution, parts.formats.type),
        weight_(parts.device, parts.onednn.weight_shape(), parts.kept_weight,
                product_weight(parts.onednn)) {}

  std::string implementation() const override { return "Poseidon product"; }
  size_t scratch_bytes() const override {
    return weight_.scratch_bytes() + Scratch::rounded(panel_bytes()) + extra_bytes() +
           static_cast<size_t>(device_.threads()) * scratch_of_thread();
  }

 protected:
  using Element = typename Product::Element;
  using ProductMemory = typename Product::Memory;
  struct Part {
    Product product;
    int64_t group;
  };

  void add_part(Product product, int64_t group) {
    for (int64_t task = 0; task < product.tasks(); ++task) tasks_.emplace_back(parts_.size(), task);
    for (int64_t panel = 0; panel < product.weight_panels(); ++panel)
      panels_.emplace_back(parts_.size(), panel);
    parts_.push_back({std::move(product), group});
  }
  virtual size_t extra_bytes() const { return 0; }

  /// Runs all parts. memory_of(part) returns the Memory of a part, in which run_parts() then sets
  /// `weight`, `panels` and `scratch`.
  template <class MemoryOf>
  void run_parts(float* kept_weight, Scratch scratch, const MemoryOf& memory_of) {
    const auto* weight = static_cast<const float*>(weight_.get(device_, kept_weight, scratch));
    auto* panels = reinterpret_cast<Element*>(scratch.allocate(panel_bytes()));
    std::byte* rest = scratch.rest();
    std::vector<Element*> panels_of_part;
    for (const Part& part : parts_) {
      panels_of_part.push_back(panels);
      panels += part.product.weight_elements();
    }
    device_.team().run_ranges(std::ssize(panels_), 1, [&](int64_t first, int64_t end, int) {
      for (auto i = static_cast<size_t>(first); i < static_cast<size_t>(end); ++i) {
        const auto [p, panel] = panels_[i];
        parts_[p].product.pack_weight(panel, weight + parts_[p].group * groups_.outputs,
                                      panels_of_part[p]);
      }
    });
    const size_t each = scratch_of_thread();
    device_.team().run(std::ssize(tasks_), [&](int64_t i, int thread) {
      const auto [p, task] = tasks_[static_cast<size_t>(i)];
      ProductMemory memory = memory_of(parts_[p]);
      memory.weight = weight + parts_[p].group * groups_.outputs;
      memory.panels = panels_of_part[p];
      memory.scratch = rest + static_cast<size_t>(thread) * each;
      parts_[p].product.run(task, memory);
    });
  }

  CpuDevice& device_;
  const Convolution& convolution_;
  Groups groups_;

 private:
  size_t panel_bytes() const {
    int64_t elements = 0;
    for (const Part& part : parts_) elements += part.product.weight_elements();
    return static_cast<size_t>(elements) * sizeof(Element);
  }
  size_t scratch_of_thread() const {
    int64_t bytes = 0;
    for (const Part& part : parts_) bytes = std::max(bytes, part.product.scratch_bytes());
    return Scratch::rounded(static_cast<size_t>(bytes));
  }

  PassWeight weight_;
  std::vector<Part> parts_;
  std::vector<std::pair<size_t, int64_t>> tasks_, panels_;  ///< part, and its task or panel
};

template <class Product>
class ProductForward final : public PatchPass<Product> {
  using Pass = PatchPass<Product>;
  using Pass::add_part, Pass::convolution_, Pass::device_, Pass::groups_;
  using typename Pass::Element, typename Pass::Part, typename Pass::ProductMemory;

 public:
  explicit ProductForward(const ConvolutionParts& parts) : Pass(parts), relu_(parts.relu) {
    const Convolution& c = convolution_;
    const int64_t threads = product::pieces(device_.threads(), groups_.count);
    for (int64_t group = 0; group < groups_.count; ++group)
      add_part(Product(forward_patches(parts, groups_, group),
                       groups_.weight(groups_.all_outputs(), 1, groups_.inputs, groups_.outputs),
                       {.shape = c.output,
                        .layout = parts.formats.out,
                        .first_channel = group * groups_.outputs,
                        .channels = groups_.outputs},
                       threads),
               group);
  }

  void run(const Bindings& memory, const Tensor&) override {
    Scratch scratch(memory.scratch);
    const float* bias = nullptr;
    if (convolution_.bias) bias = copy_of_bias(memory.parameters[1].value, scratch);
    if (groups_.count > 1) zero_padding_lanes(memory.output);
    this->run_parts(memory.parameters[0].value, scratch, [&](const Part& part) {
      return ProductMemory{.source = memory.inputs[0].template as<Element>(),
                           .weight = nullptr,
                           .panels = nullptr,
                           .bias = bias == nullptr ? nullptr : bias + part.group * padded_outputs(),
                           .relu = relu_,
                           .result = memory.output.as<Element>(),
                           .scratch = nullptr};
    });
  }

 protected:
  size_t extra_bytes() const override {
    if (!convolution_.bias) return 0;
    return Scratch::rounded(static_cast<size_t>(groups_.count * padded_outputs()) * sizeof(float));
  }

 private:
  int64_t padded_outputs() const {
    return product::pieces(groups_.outputs, product::kColumns) * product::kColumns;
  }

  /// A copy with padding, because a tile reads the bias of all its columns.
  const float* copy_of_bias(const float* bias, Scratch& scratch) const {
    float* copy = scratch.allocate(extra_bytes());
    for (int64_t group = 0; group < groups_.count; ++group) {
      float* to = copy + group * padded_outputs();
      std::copy_n(bias + group * groups_.outputs, groups_.outputs, to);
      std::fill(to + groups_.outputs, to + padded_outputs(), 0.0F);
    }
    return copy;
  }

  std::optional<float> relu_;
};

template <class Product>
class ProductBackwardData final : public PatchPass<Product> {
  using Pass = PatchPass<Product>;
  using Pass::add_part, Pass::convolution_, Pass::device_, Pass::groups_;
  using typename Pass::Element, typename Pass::Part, typename Pass::ProductMemory;

 public:
  explicit ProductBackwardData(const ConvolutionParts& parts) : Pass(parts) {
    const Convolution& c = convolution_;
    const std::vector<InputClass> all_rows = classes_of(c, 0), all_columns = classes_of(c, 1);
    const auto classes = static_cast<int64_t>(all_rows.size() * all_columns.size());
    const int64_t threads = product::pieces(device_.threads(), groups_.count * classes);
    for (int64_t group = 0; group < groups_.count; ++group)
      for (const InputClass& rows : all_rows)
        for (const InputClass& columns : all_columns)
          add_part(
              Product(backward_patches(parts, groups_, group, rows, columns),
                      groups_.weight(1, groups_.all_outputs(), groups_.outputs, groups_.inputs),
                      {.shape = c.input,
                       .layout = parts.formats.in,
                       .first = {rows.first, columns.first},
                       .step = c.stride,
                       .first_channel = group * groups_.inputs,
                       .channels = groups_.inputs},
                      threads),
              group);
  }

  void run(const Bindings& memory, const Tensor& gradient) override {
    if (groups_.count > 1) zero_padding_lanes(memory.input_gradients[0]);
    this->run_parts(memory.parameters[0].value, Scratch(memory.scratch), [&](const Part&) {
      return ProductMemory{.source = gradient.as<Element>(),
                           .weight = nullptr,
                           .panels = nullptr,
                           .bias = nullptr,
                           .relu = std::nullopt,
                           .result = memory.input_gradients[0].template as<Element>(),
                           .scratch = nullptr};
    });
  }
};

/// The gradient of a weight, and of a bias. Product: PatchGradient or Bf16PatchGradient.
template <class Product>
class ProductBackwardWeights final : public ConvolutionPass {
 public:
  explicit ProductBackwardWeights(const ConvolutionParts& parts, Product product)
      : device_(parts.device),
        convolution_(parts.convolution),
        groups_(parts.convolution, parts.formats.type),
        in_order_(parts.kept_weight == product_weight(parts.onednn)),
        to_kept_order_(parts.device, product_weight(parts.onednn), parts.kept_weight),
        product_(std::move(product)) {}

  std::string implementation() const override { return "Poseidon product"; }
  size_t scratch_bytes() const override {
    return gradient_bytes() * static_cast<size_t>(product_.slices() + 1) +
           static_cast<size_t>(device_.threads()) * scratch_of_thread();
  }

  void run(const Bindings& memory, const Tensor& gradient) override {
    Scratch scratch(memory.scratch);
    float* kept = memory.parameters[0].gradient;
    const bool in_place = in_order_ && !product_has_bias();
    float* weight = in_place ? kept : scratch.allocate(gradient_bytes());
    std::vector<float*> slices(static_cast<size_t>(product_.slices()), weight);
    if (slices.size() > 1)
      for (float*& slice : slices) slice = scratch.allocate(gradient_bytes());
    std::byte* rest = scratch.rest();
    const size_t each = scratch_of_thread();
    device_.team().run(product_.tasks(), [&](int64_t task, int thread) {
      product_.run(task, {.input = memory.inputs[0].template as<Element>(),
                          .gradient = gradient.as<Element>(),
                          .slices = slices.data(),
                          .scratch = rest + static_cast<size_t>(thread) * each});
    });
    if (slices.size() > 1) add_slices(slices, weight);
    float* bias = weight + product_.elements() - groups_.all_outputs();  // the last row, if any
    if (!in_order_)
      to_kept_order_.run(device_, weight, kept);
    else if (!in_place)
      std::copy(weight, bias, kept);
    if (product_has_bias())
      std::copy_n(bias, groups_.all_outputs(), memory.parameters[1].gradient);
    else if (convolution_.bias)
      sum_bias_gradient(device_.team(), gradient, memory.parameters[1].gradient);
  }

 private:
  using Element = typename Product::Element;

  /// Whether the product also computes the gradient of the bias.
  bool product_has_bias() const { return !std::is_same_v<Element, float> && convolution_.bias; }
  size_t gradient_bytes() const {
    return Scratch::rounded(static_cast<size_t>(product_.elements()) * sizeof(float));
  }
  size_t scratch_of_thread() const {
    return Scratch::rounded(static_cast<size_t>(product_.scratch_bytes()));
  }

  void add_slices(const std::vector<float*>& slices, float* weight) const {
    float* const* slice = slices.data();
    const size_t count = slices.size();
    for_each_element(device_.team(), product_.elements(), [=](int64_t i) {
      float sum = slice[0][i];
      for (size_t k = 1; k < count; ++k) sum += slice[k][i];
      weight[i] = sum;
    });
  }

  CpuDevice& device_;
  const Convolution& convolution_;
  Groups groups_;
  bool in_order_;
  PreparedReorder to_kept_order_;
  Product product_;
};

/// The operands of a gradient of a weight: for each product, the patches of the input, and the
/// cells of the output's gradient.
struct GradientOperands {
  explicit GradientOperands(const ConvolutionParts& parts)
      : groups(parts.convolution, parts.formats.type) {
    const Convolution& c = parts.convolution;
    PatchGrid cells = forward_grid(c);
    cells.step = {1, 1};
    cells.taps = {{.index = 0, .offset = {0, 0}}};
    for (int64_t group = 0; group < groups.count; ++group) {
      inputs.push_back(forward_patches(parts, groups, group));
      gradients.emplace_back(cells, c.output, parts.formats.out, group * groups.outputs,
                             groups.outputs);
    }
  }

  Groups groups;
  std::vector<Patches> inputs, gradients;
};

std::unique_ptr<ConvolutionPass> make_fp32_gradient(const ConvolutionParts& parts,
                                                    PatchGradient::Sums sums) {
  GradientOperands of(parts);
  return std::make_unique<ProductBackwardWeights<PatchGradient>>(
      parts,
      PatchGradient(std::move(of.inputs), std::move(of.gradients), sums, parts.device.threads()));
}

/// Whether NarrowProduct computes the backward data pass. The input cells that no tap reaches do
/// not count.
bool backward_data_is_narrow(const ConvolutionParts& parts) {
  const Groups groups(parts.convolution, parts.formats.type);
  for (const InputClass& rows : classes_of(parts.convolution, 0))
    for (const InputClass& columns : classes_of(parts.convolution, 1))
      if (!rows.taps.empty() && !columns.taps.empty())
        return NarrowProduct::is_faster(backward_patches(parts, groups, 0, rows, columns),
                                        groups.inputs);
  return false;
}

/// Creates a forward or backward data pass for the type of the activations.
template <template <class> class Pass>
std::unique_ptr<ConvolutionPass> make_data_pass(const ConvolutionParts& parts,
                                                bool (*is_narrow)(const ConvolutionParts&)) {
  if (parts.formats.type == DataType::kBf16) return std::make_unique<Pass<Bf16PatchProduct>>(parts);
  if (is_narrow(parts)) return std::make_unique<Pass<NarrowProduct>>(parts);
  return std::make_unique<Pass<PatchProduct>>(parts);
}

}  // namespace

MemoryDesc product_weight(const OnednnConvolution& onednn) {
  const FormatTag order = onednn.weight_shape().size() == 5 ? FormatTag::hwigo : FormatTag::hwio;
  return {onednn.weight_shape(), kFloat, order};
}

bool product_forward_is_narrow(const ConvolutionParts& parts) {
  const Groups groups(parts.convolution, parts.formats.type);
  return NarrowProduct::is_faster(forward_patches(parts, groups, 0), groups.outputs);
}

std::unique_ptr<ConvolutionPass> make_product_forward(const ConvolutionParts& parts) {
  return make_data_pass<ProductForward>(parts, product_forward_is_narrow);
}

std::unique_ptr<ConvolutionPass> make_product_backward_data(const ConvolutionParts& parts) {
  return make_data_pass<ProductBackwardData>(parts, backward_data_is_narrow);
}

std::unique_ptr<ConvolutionPass> make_product_backward_weights(const ConvolutionParts& parts) {
  if (parts.formats.type == DataType::kFp32)
    return make_fp32_gradient(parts, PatchGradient::Sums::kOfSlices);
#ifdef __AVX512F__
  GradientOperands of(parts);
  return std::make_unique<ProductBackwardWeights<Bf16PatchGradient>>(
      parts, Bf16PatchGradient(std::move(of.inputs), std::move(of.gradients), of.groups.together,
                               parts.convolution.bias, parts.device.threads()));
#else
  return nullptr;                       // not called: has_bf16_product() is false
#endif
}

std::unique_ptr<ConvolutionPass> make_gradient_in_order(const ConvolutionParts& parts) {
  return make_fp32_gradient(parts, PatchGradient::Sums::kInOrder);
}

}  // namespace poseidon::layers::cpu
