#include <omp.h>
#include <algorithm>

#include "layers/cpu/bias_gradient.h"
#include "layers/cpu/convolution_pass.h"
#include "layers/cpu/pass_weight.h"
#include "layers/cpu/patch_product.h"

namespace poseidon::layers::cpu {

namespace {

using namespace poseidon::cpu;

/// The number of a convolution's groups, and the channels of each group.
struct Groups {
  explicit Groups(const Convolution& c)
      : count(c.groups), inputs(c.input.channels() / c.groups), outputs(c.outputs / c.groups) {}

  int64_t all_outputs() const { return count * outputs; }
  int64_t count, inputs, outputs;
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
/// class of columns.
PatchGrid backward_grid(const Convolution& c, const InputClass& rows, const InputClass& columns) {
  PatchGrid grid{.samples = c.input.samples(),
                 .height = rows.cells,
                 .width = columns.cells,
                 .step = {1, 1},
                 .taps = {}};
  for (const auto& [y, down] : rows.taps)
    for (const auto& [x, right] : columns.taps)
      grid.taps.push_back({.index = y * c.kernel[1] + x, .offset = {down, right}});
  return grid;
}

/// Sets the padding lanes of the last block to zero. A product that writes only a part of a block
/// does not write these lanes.
void zero_padding_lanes(const Tensor& tensor) {
  const Blocking b = tensor.blocking();
  const int64_t used = b.channels - (b.blocks - 1) * b.block;
  if (used == b.block) return;
  for (int64_t n = 0; n < b.samples; ++n)
    for (int64_t position = 0; position < b.area; ++position) {
      float* cell = tensor.as<float>() + b.offset(n, (b.blocks - 1) * b.block, position);
      std::fill(cell + used, cell + b.block, 0.0F);
    }
}

/// Base class of the forward and backward data passes. The forward pass runs one product for each
/// group. The backward data pass runs one for each combination of a group, an InputClass of rows
/// and an InputClass of columns.
class PatchPass : public ConvolutionPass {
 public:
  explicit PatchPass(const ConvolutionParts& parts)
      : device_(parts.device),
        convolution_(parts.convolution),
        groups_(parts.convolution),
        weight_(parts.device, parts.onednn.weight_shape(), parts.kept_weight,
                product_weight(parts.onednn)) {}

  std::string implementation() const override { return "Poseidon product"; }
  size_t scratch_bytes() const override {
    return weight_.scratch_bytes() + Scratch::rounded(panel_bytes()) + extra_bytes() +
           static_cast<size_t>(device_.threads()) * kScratchOfThread;
  }

 protected:
  struct Part {
    product::PatchProduct product;
    int64_t group;
  };
  static constexpr size_t kScratchOfThread =
      static_cast<size_t>(product::PatchProduct::scratch_floats()) * sizeof(float);

  void add_part(product::PatchProduct product, int64_t group) {
    for (int64_t task = 0; task < product.tasks(); ++task) tasks_.emplace_back(parts_.size(), task);
    parts_.push_back({std::move(product), group});
  }
  virtual size_t extra_bytes() const { return 0; }
  virtual product::PatchWeight weight_of(const float* weight, int64_t group) const = 0;

  /// Runs all parts. memory_of(part) returns the Memory of a part, in which run_parts() then sets
  /// `panels` and `scratch`.
  template <class MemoryOf>
  void run_parts(float* kept_weight, Scratch scratch, const MemoryOf& memory_of) {
    const auto* weight = static_cast<const float*>(weight_.get(device_, kept_weight, scratch));
    float* panels = scratch.allocate(panel_bytes());
    std::byte* rest = scratch.rest();
    std::vector<float*> panels_of_part;
    for (const Part& part : parts_) {
      panels_of_part.push_back(panels);
      panels += part.product.weight_floats();
    }
#pragma omp parallel num_threads(device_.threads())
    {
      for (size_t p = 0; p < parts_.size(); ++p)
#pragma omp for schedule(static) nowait
        for (int64_t panel = 0; panel < parts_[p].product.weight_panels(); ++panel)
          parts_[p].product.pack_weight(panel, weight_of(weight, parts_[p].group),
                                        panels_of_part[p]);
#pragma omp barrier
#pragma omp for schedule(dynamic)
      for (size_t i = 0; i < tasks_.size(); ++i) {
        const auto [p, task] = tasks_[i];
        product::PatchProduct::Memory memory = memory_of(parts_[p]);
        memory.panels = panels_of_part[p];
        memory.scratch = reinterpret_cast<float*>(rest + static_cast<size_t>(omp_get_thread_num()) *
                                                             kScratchOfThread);
        parts_[p].product.run(task, memory);
      }
    }
  }

  CpuDevice& device_;
  const Convolution& convolution_;
  Groups groups_;

 private:
  size_t panel_bytes() const {
    int64_t floats = 0;
    for (const Part& part : parts_) floats += part.product.weight_floats();
    return static_cast<size_t>(floats) * sizeof(float);
  }

  PassWeight weight_;
  std::vector<Part> parts_;
  std::vector<std::pair<size_t, int64_t>> tasks_;
};

class ProductForward final : public PatchPass {
 public:
  explicit ProductForward(const ConvolutionParts& parts) : PatchPass(parts), relu_(parts.relu) {
    const Convolution& c = convolution_;
    for (int64_t group = 0; group < groups_.count; ++group)
      add_part(product::PatchProduct(Patches(forward_grid(c), c.input, parts.formats.in,
                                             group * groups_.inputs, groups_.inputs),
                                     {.shape = c.output,
                                      .layout = parts.formats.out,
                                      .first_channel = group * groups_.outputs,
                                      .channels = groups_.outputs}),
               group);
  }

  void run(const Bindings& memory, const Tensor&) override {
    Scratch scratch(memory.scratch);
    const float* bias = nullptr;
    if (convolution_.bias) bias = copy_of_bias(memory.parameters[1].value, scratch);
    if (groups_.count > 1) zero_padding_lanes(memory.output);
    run_parts(memory.parameters[0].value, scratch, [&](const Part& part) {
      return product::PatchProduct::Memory{
          .source = memory.inputs[0].as<float>(),
          .panels = nullptr,
          .bias = bias == nullptr ? nullptr : bias + part.group * padded_outputs(),
          .relu = relu_,
          .result = memory.output.as<float>(),
          .scratch = nullptr};
    });
  }

 protected:
  size_t extra_bytes() const override {
    if (!convolution_.bias) return 0;
    return Scratch::rounded(static_cast<size_t>(groups_.count * padded_outputs()) * sizeof(float));
  }
  product::PatchWeight weight_of(const float* weight, int64_t group) const override {
    return {.data = weight + group * groups_.outputs,
            .tap_step = groups_.inputs * groups_.all_outputs(),
            .channel_step = groups_.all_outputs(),
            .result_step = 1};
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

class ProductBackwardData final : public PatchPass {
 public:
  explicit ProductBackwardData(const ConvolutionParts& parts) : PatchPass(parts) {
    const Convolution& c = convolution_;
    const std::vector<InputClass> all_rows = classes_of(c, 0), all_columns = classes_of(c, 1);
    for (int64_t group = 0; group < groups_.count; ++group)
      for (const InputClass& rows : all_rows)
        for (const InputClass& columns : all_columns)
          add_part(product::PatchProduct(
                       Patches(backward_grid(c, rows, columns), c.output, parts.formats.out,
                               group * groups_.outputs, groups_.outputs),
                       {.shape = c.input,
                        .layout = parts.formats.in,
                        .first = {rows.first, columns.first},
                        .step = c.stride,
                        .first_channel = group * groups_.inputs,
                        .channels = groups_.inputs}),
                   group);
  }

  void run(const Bindings& memory, const Tensor& gradient) override {
    if (groups_.count > 1) zero_padding_lanes(memory.input_gradients[0]);
    run_parts(memory.parameters[0].value, Scratch(memory.scratch), [&](const Part&) {
      return product::PatchProduct::Memory{.source = gradient.as<float>(),
                                           .panels = nullptr,
                                           .bias = nullptr,
                                           .relu = std::nullopt,
                                           .result = memory.input_gradients[0].as<float>(),
                                           .scratch = nullptr};
    });
  }

 protected:
  product::PatchWeight weight_of(const float* weight, int64_t group) const override {
    return {.data = weight + group * groups_.outputs,
            .tap_step = groups_.inputs * groups_.all_outputs(),
            .channel_step = 1,
            .result_step = groups_.all_outputs()};
  }
};

/// The gradient of a weight is patches^T times the output's gradient. The tasks divide the elements
/// of this gradient. If there are few elements, tasks also divide the places into ranges, called
/// slices here, which depend only on the geometry. The sums of the slices are added in order.
class ProductBackwardWeights final : public ConvolutionPass {
 public:
  explicit ProductBackwardWeights(const ConvolutionParts& parts)
      : device_(parts.device),
        convolution_(parts.convolution),
        groups_(parts.convolution),
        in_order_(parts.kept_weight == product_weight(parts.onednn)),
        to_kept_order_(parts.device, product_weight(parts.onednn), parts.kept_weight) {
    const Convolution& c = convolution_;
    PatchGrid cells = forward_grid(c);
    cells.step = {1, 1};
    cells.taps = {{.index = 0, .offset = {0, 0}}};
    for (int64_t group = 0; group < groups_.count; ++group) {
      inputs_.emplace_back(forward_grid(c), c.input, parts.formats.in, group * groups_.inputs,
                           groups_.inputs);
      gradients_.emplace_back(cells, c.output, parts.formats.out, group * groups_.outputs,
                              groups_.outputs);
    }
    divide();
  }

  std::string implementation() const override { return "Poseidon product"; }
  size_t scratch_bytes() const override {
    return gradient_bytes() * static_cast<size_t>(slices_ + 1) +
           static_cast<size_t>(device_.threads()) * kScratchOfThread;
  }

  void run(const Bindings& memory, const Tensor& gradient) override {
    Scratch scratch(memory.scratch);
    float* kept = memory.parameters[0].gradient;
    float* weight = in_order_ ? kept : scratch.allocate(gradient_bytes());
    std::vector<float*> slices(static_cast<size_t>(slices_), weight);
    if (slices_ > 1)
      for (float*& slice : slices) slice = scratch.allocate(gradient_bytes());
    std::byte* rest = scratch.rest();
#pragma omp parallel for schedule(dynamic) num_threads(device_.threads())
    for (size_t i = 0; i < tasks_.size(); ++i) {
      const Task& task = tasks_[i];
      run_task(task, memory.inputs[0].as<float>(), gradient.as<float>(),
               slices[static_cast<size_t>(task.slice)],
               reinterpret_cast<float*>(rest + static_cast<size_t>(omp_get_thread_num()) *
                                                   kScratchOfThread));
    }
    if (slices_ > 1) add_slices(slices, weight);
    if (!in_order_) to_kept_order_.run(device_, weight, kept);
    if (convolution_.bias) sum_bias_gradient(gradient, memory.parameters[1].gradient);
  }

 private:
  /// Rows and columns of the weight's gradient that a task computes.
  static constexpr int64_t kRowsOfTask = 4 * product::kRows, kColumnsOfTask = 4 * product::kColumns;
  static constexpr int64_t kFloatsOfTask =
      kColumnsOfTask / product::kColumns * product::kPanelOfB + product::kPanelOfA;
  static constexpr size_t kScratchOfThread = static_cast<size_t>(kFloatsOfTask) * sizeof(float);
  /// Enough tasks for a few dozen threads. Only more than kPlacesOfSlice places are divided.
  static constexpr int64_t kTasksWanted = 64, kPlacesOfSlice = 1024;

  struct Task {
    size_t group;
    int64_t row, column, slice;
  };

  void divide() {
    const int64_t rows = inputs_[0].columns();
    const int64_t whole = groups_.count * product::pieces(rows, kRowsOfTask) *
                          product::pieces(groups_.outputs, kColumnsOfTask);
    slices_ = std::clamp<int64_t>(product::pieces(kTasksWanted, whole), 1,
                                  product::pieces(inputs_[0].places(), kPlacesOfSlice));
    for (int64_t slice = 0; slice < slices_; ++slice)
      for (size_t group = 0; group < inputs_.size(); ++group)
        for (int64_t column = 0; column < groups_.outputs; column += kColumnsOfTask)
          for (int64_t row = 0; row < rows; row += kRowsOfTask)
            tasks_.push_back({group, row, column, slice});
  }

  size_t gradient_bytes() const {
    return Scratch::rounded(static_cast<size_t>(elements()) * sizeof(float));
  }
  int64_t elements() const { return inputs_[0].columns() * groups_.all_outputs(); }

  void run_task(const Task& task, const float* input, const float* gradient, float* weight,
                float* scratch) const {
    const Patches& inputs = inputs_[task.group];
    const int64_t begin = inputs.places() * task.slice / slices_;
    const int64_t end = inputs.places() * (task.slice + 1) / slices_;
    const int64_t last_row = std::min(task.row + kRowsOfTask, inputs.columns());
    const int64_t last_column = std::min(task.column + kColumnsOfTask, groups_.outputs);
    float* panel_of_a = scratch + kColumnsOfTask / product::kColumns * product::kPanelOfB;
    for (int64_t place = begin; place < end; place += product::kDepth) {
      const int64_t depth = std::min(product::kDepth, end - place);
      for (int64_t column = task.column; column < last_column; column += product::kColumns)
        copy_gradients(gradients_[task.group], gradient, place, depth, column,
                       scratch + (column - task.column) / product::kColumns * product::kPanelOfB);
      for (int64_t row = task.row; row < last_row; row += product::kRows) {
        copy_inputs(inputs, input, place, depth, row, panel_of_a);
        for (int64_t column = task.column; column < last_column; column += product::kColumns)
          product::multiply_tile(
              inputs.by_channels() ? product::OrderOfA::kByDepth : product::OrderOfA::kByRows,
              panel_of_a, scratch + (column - task.column) / product::kColumns * product::kPanelOfB,
              depth, {.memory = place > begin},
              product::Tile::evenly(weight + row * groups_.all_outputs() +
                                        static_cast<int64_t>(task.group) * groups_.outputs + column,
                                    groups_.all_outputs(), inputs.columns() - row,
                                    groups_.outputs - column));
      }
    }
  }

  static void copy_inputs(const Patches& inputs, const float* input, int64_t place, int64_t depth,
                          int64_t row, float* panel) {
    const Patches::Piece piece{.place = place,
                               .places = depth,
                               .column = row,
                               .columns = std::min(product::kRows, inputs.columns() - row)};
    if (inputs.by_channels())
      inputs.copy_rows(input, piece, panel, product::kRows);
    else
      inputs.copy_columns(input, piece, panel, product::kRowStep);
  }

  /// Copies gradients to a panel of B, for product::kColumns outputs from `column` on.
  static void copy_gradients(const Patches& gradients, const float* gradient, int64_t place,
                             int64_t depth, int64_t column, float* panel) {
    for (int64_t v = 0; v < product::kVectors;
         ++v, column += product::kLanes, panel += product::kDepth * product::kLanes) {
      const int64_t lanes = std::min(product::kLanes, gradients.columns() - column);
      if (lanes <= 0) return;
      const Patches::Piece piece{
          .place = place, .places = depth, .column = column, .columns = lanes};
      if (gradients.by_channels()) {
        gradients.copy_rows(gradient, piece, panel, product::kLanes);
        continue;
      }
      alignas(64) std::array<float, static_cast<size_t>(product::kLanes * product::kDepth)>
          by_lanes;
      gradients.copy_columns(gradient, piece, by_lanes.data(), product::kDepth);
      for (int64_t k = 0; k < depth; ++k)
        for (int64_t lane = 0; lane < lanes; ++lane)
          panel[k * product::kLanes + lane] =
              by_lanes[static_cast<size_t>(lane * product::kDepth + k)];
    }
  }

  void add_slices(const std::vector<float*>& slices, float* weight) const {
#pragma omp parallel for schedule(static) num_threads(device_.threads())
    for (int64_t i = 0; i < elements(); ++i) {
      float sum = slices[0][i];
      for (size_t slice = 1; slice < slices.size(); ++slice) sum += slices[slice][i];
      weight[i] = sum;
    }
  }

  CpuDevice& device_;
  const Convolution& convolution_;
  Groups groups_;
  bool in_order_;
  PreparedReorder to_kept_order_;
  std::vector<Patches> inputs_, gradients_;  ///< the patches of each group
  int64_t slices_ = 1;
  std::vector<Task> tasks_;
};

}  // namespace

MemoryDesc product_weight(const OnednnConvolution& onednn) {
  const FormatTag order = onednn.weight_shape().size() == 5 ? FormatTag::hwigo : FormatTag::hwio;
  return {onednn.weight_shape(), kFloat, order};
}

bool product_is_legal(const ConvolutionParts& parts) {
  return parts.formats.type == DataType::kFp32;
}

std::unique_ptr<ConvolutionPass> make_product_forward(const ConvolutionParts& parts) {
  return std::make_unique<ProductForward>(parts);
}

std::unique_ptr<ConvolutionPass> make_product_backward_data(const ConvolutionParts& parts) {
  return std::make_unique<ProductBackwardData>(parts);
}

std::unique_ptr<ConvolutionPass> make_product_backward_weights(const ConvolutionParts& parts) {
  return std::make_unique<ProductBackwardWeights>(parts);
}

}  // namespace poseidon::layers::cpu
