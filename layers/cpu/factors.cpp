#include "layers/cpu/factors.h"

#include <omp.h>

#include <algorithm>
#include <array>
#include <utility>

#include "layers/cpu/product.h"

namespace poseidon::layers::cpu {

namespace {

using namespace poseidon::cpu;

/// Outputs of a block: a multiple of every strip. Twice as many would leave half of 16 threads
/// without a block of 4096 outputs.
constexpr int64_t kOutputs = 128;

constexpr std::array<std::pair<FormatTag, int64_t>, 4> kOrders{{{FormatTag::oi, 0},
                                                                {FormatTag::AB16b16a, 16},
                                                                {FormatTag::AB16b32a, 32},
                                                                {FormatTag::AB16b64a, 64}}};

/// Floats of the panels of a block's outputs, as columns or as rows of tiles.
constexpr int64_t kPanelsOfOutputs =
    std::max(product::pieces(kOutputs, product::kColumns) * product::kPanelOfB,
             product::pieces(kOutputs, product::kRows) * product::kPanelOfA);
constexpr int64_t kPanelOfInputs = std::max(product::kPanelOfA, product::kPanelOfB);
constexpr size_t kScratchOfThread =
    static_cast<size_t>(kPanelsOfOutputs + kPanelOfInputs) * sizeof(float);

}  // namespace

std::optional<FactorOrder> FactorRebuild::order_of(const MemoryDesc& weight,
                                                   const FactorShape& shape) {
  for (const auto& [tag, strip] : kOrders)
    if (weight == MemoryDesc({shape.rows, shape.columns}, kFloat, tag)) return FactorOrder{strip};
  return std::nullopt;
}

FactorRebuild::FactorRebuild(CpuDevice& device, const FactorShape& shape, int64_t samples,
                             FactorOrder order)
    : device_(device),
      shape_(shape),
      samples_(samples),
      order_(order),
      padded_inputs_(order.strip == 0 ? shape.columns : product::pieces(shape.columns, 16) * 16) {}

int64_t FactorRebuild::padded_outputs(int64_t outputs) const {
  return order_.strip == 0 ? outputs : product::pieces(outputs, order_.strip) * order_.strip;
}

size_t FactorRebuild::scratch_bytes() const {
  return static_cast<size_t>(device_.threads()) * kScratchOfThread;
}

void FactorRebuild::run(const FactorMemory& factors, const Bindings& memory,
                        const GradientSink* sink) const {
  const int64_t blocks = product::pieces(shape_.rows, kOutputs);
  const auto team = static_cast<int>(std::min<int64_t>(device_.threads(), blocks));
#pragma omp parallel for schedule(dynamic) num_threads(team)
  for (int64_t b = 0; b < blocks; ++b) {
    const int64_t thread = omp_get_thread_num(), first = b * kOutputs;
    // With a sink each thread has the room of one block, again and again: it stays in the cache.
    const int64_t room = sink != nullptr ? thread * kOutputs : first;
    auto* scratch =
        reinterpret_cast<float*>(memory.scratch + static_cast<size_t>(thread) * kScratchOfThread);
    const Block block{.outputs = std::min(kOutputs, shape_.rows - first),
                      .deltas = factors.deltas + first,
                      .activations = factors.activations,
                      .weight = memory.parameters[0].gradient + room * padded_inputs_,
                      .bias = shape_.bias ? memory.parameters[1].gradient + room : nullptr,
                      .panels_of_outputs = scratch,
                      .panel_of_inputs = scratch + kPanelsOfOutputs};
    run_block(block);
    if (sink == nullptr) continue;
    (*sink)(0, first* padded_inputs_,
            {block.weight, static_cast<size_t>(weights_of(block.outputs))});
    if (shape_.bias) (*sink)(1, first, {block.bias, static_cast<size_t>(block.outputs)});
  }
}

void FactorRebuild::run_block(const Block& block) const {
  for (int64_t first = 0; first < samples_; first += product::kDepth) {
    const int64_t depth = std::min(product::kDepth, samples_ - first);
    if (order_.strip > 0)
      add_over_outputs(block, first, depth);
    else
      add_over_inputs(block, first, depth);
  }
  if (block.bias == nullptr) return;
  std::fill_n(block.bias, block.outputs, 0.0F);
  for (int64_t sample = 0; sample < samples_; ++sample)
    for (int64_t output = 0; output < block.outputs; ++output)
      block.bias[output] += block.deltas[sample * shape_.rows + output];
}

void FactorRebuild::add_over_outputs(const Block& block, int64_t first, int64_t depth) const {
  const float* deltas = block.deltas + first * shape_.rows;
  const float* activations = block.activations + first * shape_.columns;
  const int64_t outputs = padded_outputs(block.outputs), strip = order_.strip;
  const auto panel_of = [&](int64_t output) {
    return block.panels_of_outputs + output / product::kColumns * product::kPanelOfB;
  };
  for (int64_t output = 0; output < outputs; output += product::kColumns)
    product::copy_panel_of_b(deltas + output, shape_.rows, depth, block.outputs - output,
                             panel_of(output));
  for (int64_t input = 0; input < padded_inputs_; input += product::kRows) {
    product::copy_panel<product::kRows>(activations + input, shape_.columns, depth,
                                        shape_.columns - input, block.panel_of_inputs);
    for (int64_t output = 0; output < outputs; output += product::kColumns) {
      product::Tile tile = product::Tile::evenly(
          block.weight + output / strip * strip * padded_inputs_ + input * strip + output % strip,
          strip, padded_inputs_ - input, outputs - output);
      if (strip == product::kLanes) tile.vector_step = strip * padded_inputs_;
      product::multiply_tile(product::OrderOfA::kByDepth, block.panel_of_inputs, panel_of(output),
                             depth, {.memory = first > 0}, tile);
    }
  }
}

void FactorRebuild::add_over_inputs(const Block& block, int64_t first, int64_t depth) const {
  const float* deltas = block.deltas + first * shape_.rows;
  const float* activations = block.activations + first * shape_.columns;
  const auto panel_of = [&](int64_t output) {
    return block.panels_of_outputs + output / product::kRows * product::kPanelOfA;
  };
  for (int64_t output = 0; output < block.outputs; output += product::kRows)
    product::copy_panel<product::kRows>(deltas + output, shape_.rows, depth, block.outputs - output,
                                        panel_of(output));
  for (int64_t input = 0; input < shape_.columns; input += product::kColumns) {
    product::copy_panel_of_b(activations + input, shape_.columns, depth, shape_.columns - input,
                             block.panel_of_inputs);
    for (int64_t output = 0; output < block.outputs; output += product::kRows)
      product::multiply_tile(
          product::OrderOfA::kByDepth, panel_of(output), block.panel_of_inputs, depth,
          {.memory = first > 0},
          product::Tile::evenly(block.weight + output * shape_.columns + input, shape_.columns,
                                block.outputs - output, shape_.columns - input));
  }
}

}  // namespace poseidon::layers::cpu
