#include "layers/cpu/factors.h"

#include <algorithm>
#include <atomic>

#include "layers/cpu/linear_product.h"
#include "layers/cpu/product.h"
#include "layers/cpu/streaming.h"
#include "layers/cpu/strip_product.h"

namespace poseidon::layers::cpu {

namespace {

using namespace poseidon::cpu;

/// Outputs of a block. Larger blocks copy the inputs less often. With smaller blocks, more threads
/// have work.
constexpr int64_t kFewOutputs = 128, kManyOutputs = 256;
static_assert(kFewOutputs % product::kStrip == 0 && kManyOutputs % product::kStrip == 0,
              "the weights of a block are contiguous");
/// Copying the inputs of a block takes about as long as computing this many outputs.
constexpr int64_t kOutputsOfCopy = 16;

/// A gradient of this size (1 MiB) or more does not stay in the caches until the update reads it.
constexpr int64_t kStreamedElements = 256 << 10;

/// The number of tasks that compute blocks. With a sink, each task needs room for a whole block
/// in the gradient's memory.
int64_t team_of(int64_t outputs, int64_t block, int64_t threads) {
  return std::clamp<int64_t>(outputs / block, 1, threads);
}

int64_t faster_block(int64_t outputs, int64_t threads) {
  const auto time = [&](int64_t block) {
    const int64_t blocks = product::pieces(outputs, block);
    return product::pieces(blocks, team_of(outputs, block, threads)) * (block + kOutputsOfCopy);
  };
  return time(kManyOutputs) <= time(kFewOutputs) ? kManyOutputs : kFewOutputs;
}

/// Panels of inputs that are copied at a time: about 64 inputs.
constexpr int64_t kPanelsOfCopy = 64 / product::kRows;

/// Floats of the panels of a block's outputs, and of the inputs that are copied at a time.
constexpr int64_t kPanelsOfOutputs =
    product::pieces(kManyOutputs, product::kColumns) * product::kPanelOfB;
constexpr int64_t kPanelsOfInputs = kPanelsOfCopy * product::kPanelOfA;
constexpr size_t kScratchOfThread =
    static_cast<size_t>(kPanelsOfOutputs + kPanelsOfInputs) * sizeof(float);

}  // namespace

FactorRebuild::FactorRebuild(CpuDevice& device, const FactorShape& shape, int64_t samples)
    : device_(device),
      shape_(shape),
      samples_(samples),
      padded_inputs_(product::padded_weight_inputs(shape.activations)),
      outputs_of_block_(faster_block(shape.deltas, device.threads())) {}

int64_t FactorRebuild::weights_of(int64_t outputs) const {
  return product::pieces(outputs, product::kStrip) * product::kStrip * padded_inputs_;
}

bool FactorRebuild::streams() const {
  return samples_ <= product::kDepth && weights_of(shape_.deltas) >= kStreamedElements;
}

size_t FactorRebuild::scratch_bytes() const {
  return static_cast<size_t>(device_.threads()) * kScratchOfThread;
}

void FactorRebuild::run(const FactorMemory& factors, const Bindings& memory,
                        const GradientSink* sink) const {
  const int64_t blocks = product::pieces(shape_.deltas, outputs_of_block_);
  std::atomic<int64_t> next = 0;
  // A task computes blocks until no block is left. With a sink, it reuses the memory of one block,
  // so that this memory stays in the cache.
  const auto compute_blocks = [&](int64_t task, int) {
    for (int64_t b = next++; b < blocks; b = next++) compute_block(b, task, factors, memory, sink);
  };
  device_.team().run(team_of(shape_.deltas, outputs_of_block_, device_.threads()), compute_blocks);
}

void FactorRebuild::compute_block(int64_t index, int64_t task, const FactorMemory& factors,
                                  const Bindings& memory, const GradientSink* sink) const {
  const int64_t first = index * outputs_of_block_;
  const int64_t room = sink != nullptr ? task * outputs_of_block_ : first;
  auto* scratch =
      reinterpret_cast<float*>(memory.scratch + static_cast<size_t>(task) * kScratchOfThread);
  const Block block{.outputs = std::min(outputs_of_block_, shape_.deltas - first),
                    .deltas = factors.deltas + first,
                    .activations = factors.activations,
                    .weight = memory.parameters[0].gradient + room * padded_inputs_,
                    .bias = shape_.bias ? memory.parameters[1].gradient + room : nullptr,
                    .panels_of_outputs = scratch,
                    .panels_of_inputs = scratch + kPanelsOfOutputs,
                    .streams = sink == nullptr && streams()};
  run_block(block);
  if (sink == nullptr) return;
  (*sink)(0, first* padded_inputs_, {block.weight, static_cast<size_t>(weights_of(block.outputs))});
  if (shape_.bias) (*sink)(1, first, {block.bias, static_cast<size_t>(block.outputs)});
}

void FactorRebuild::run_block(const Block& block) const {
  for (int64_t first = 0; first < samples_; first += product::kDepth)
    add_samples(block, first, std::min(product::kDepth, samples_ - first));
  if (block.streams) finish_streaming();
  if (block.bias == nullptr) return;
  std::fill_n(block.bias, block.outputs, 0.0F);
  for (int64_t sample = 0; sample < samples_; ++sample)
    for (int64_t output = 0; output < block.outputs; ++output)
      block.bias[output] += block.deltas[sample * shape_.deltas + output];
}

void FactorRebuild::add_samples(const Block& block, int64_t first, int64_t depth) const {
  const float* deltas = block.deltas + first * shape_.deltas;
  const float* activations = block.activations + first * shape_.activations;
  using product::kStrip;
  const int64_t outputs = product::pieces(block.outputs, kStrip) * kStrip;
  product::copy_panels_of_b(deltas, shape_.deltas, depth, block.outputs,
                            product::pieces(outputs, product::kColumns), block.panels_of_outputs);
  for (int64_t begin = 0; begin < padded_inputs_; begin += kPanelsOfCopy * product::kRows) {
    const int64_t end = std::min(begin + kPanelsOfCopy * product::kRows, padded_inputs_);
    product::copy_panels<product::kRows>(
        activations + begin, shape_.activations, depth, shape_.activations - begin,
        product::pieces(end - begin, product::kRows), block.panels_of_inputs, product::kPanelOfA);
    for (int64_t output = 0; output < outputs; output += product::kColumns)
      for (int64_t input = begin; input < end; input += product::kRows) {
        product::Tile tile =
            product::Tile::evenly(block.weight + output / kStrip * kStrip * padded_inputs_ +
                                      input * kStrip + output % kStrip,
                                  kStrip, padded_inputs_ - input, outputs - output);
        tile.streams = block.streams;
        product::multiply_tile(
            product::OrderOfA::kByDepth,
            block.panels_of_inputs + (input - begin) / product::kRows * product::kPanelOfA,
            block.panels_of_outputs + output / product::kColumns * product::kPanelOfB, depth,
            {.memory = first > 0}, tile);
      }
  }
}

}  // namespace poseidon::layers::cpu
