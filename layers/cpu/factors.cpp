#include "layers/cpu/factors.h"

#include <omp.h>

#include <algorithm>
#include <array>

namespace poseidon::layers::cpu {

namespace {

using namespace poseidon::cpu;
using Primitive = dnnl::inner_product_backward_weights;

/// Outputs of one block: a multiple of the blocks of every order below. 64 to 256 are equally fast,
/// at 0.85 times the speed of one call for the whole layer; 512 reaches 0.95 and more, but leaves
/// half of 16 threads without a block of 4096 outputs.
constexpr int64_t kOutputs = 128;

/// Orders in which the outputs are outermost.
constexpr std::array kOrders{FormatTag::oi, FormatTag::AB16b16a, FormatTag::AB16b32a,
                             FormatTag::AB16b64a};

int64_t blocks_of(const FactorShape& shape) { return (shape.rows + kOutputs - 1) / kOutputs; }

/// While it lives, oneDNN makes primitives for one thread.
class ForOneThread {
 public:
  ForOneThread() : threads_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~ForOneThread() { omp_set_num_threads(threads_); }
  ForOneThread(const ForOneThread&) = delete;
  ForOneThread& operator=(const ForOneThread&) = delete;

 private:
  int threads_;
};

}  // namespace

std::optional<FormatTag> FactorRebuild::order_of(const MemoryDesc& weight,
                                                 const FactorShape& shape) {
  for (const FormatTag order : kOrders)
    if (weight == MemoryDesc({shape.rows, shape.columns}, kFloat, order)) return order;
  return std::nullopt;
}

FactorRebuild::FactorRebuild(CpuDevice& device, const FactorShape& shape, int64_t samples,
                             FormatTag weight_order)
    : device_(device), shape_(shape), samples_(samples) {
  const ForOneThread one_thread;
  const int64_t before_last = (blocks_of(shape) - 1) * kOutputs;
  last_ = make_block(shape.rows - before_last, weight_order);
  full_ = before_last > 0 ? make_block(kOutputs, weight_order) : last_;
}

FactorRebuild::Block FactorRebuild::make_block(int64_t outputs, FormatTag weight_order) const {
  Block block{.outputs = outputs,
              .activations = {{samples_, shape_.columns}, kFloat, FormatTag::nc},
              .deltas = {{samples_, outputs}, kFloat, FormatTag::nc},
              .weight = {{outputs, shape_.columns}, kFloat, weight_order},
              .bias = {{outputs}, kFloat, FormatTag::x},
              .scratchpad = {},
              .primitive = {}};
  // A backward pass is asked for with its forward pass as a hint.
  const auto forward = describe_forward<dnnl::inner_product_forward>(
      device_.engine(), user_scratchpad(), dnnl::prop_kind::forward_training, block.activations,
      block.weight, block.deltas);
  const auto description =
      shape_.bias
          ? describe_backward<Primitive>(device_.engine(), user_scratchpad(), forward,
                                         block.activations, block.weight, block.bias, block.deltas)
          : describe_backward<Primitive>(device_.engine(), user_scratchpad(), forward,
                                         block.activations, block.weight, block.deltas);
  block.scratchpad = description.scratchpad_desc();
  block.primitive = Primitive(description);
  return block;
}

size_t FactorRebuild::scratch_of_thread() const {
  const auto needed = [](const Block& block) {
    return Scratch::rounded(block.deltas.get_size()) +
           Scratch::rounded(block.scratchpad.get_size());
  };
  return std::max(needed(full_), needed(last_));
}

size_t FactorRebuild::scratch_bytes() const {
  return static_cast<size_t>(device_.threads()) * scratch_of_thread();
}

int64_t FactorRebuild::elements_before(int64_t first_output) const {
  return first_output / kOutputs * static_cast<int64_t>(full_.weight.get_size() / sizeof(float));
}

void FactorRebuild::run(const FactorMemory& factors, const Bindings& memory,
                        const GradientSink* sink) const {
  const int64_t blocks = blocks_of(shape_);
  const auto team = static_cast<int>(std::min<int64_t>(device_.threads(), blocks));
#pragma omp parallel for schedule(dynamic) num_threads(team)
  for (int64_t b = 0; b < blocks; ++b) {
    const Block& block = b + 1 < blocks ? full_ : last_;
    const int64_t first = b * kOutputs;
    // With a sink each thread has the room of one block, again and again: it stays in the cache.
    const int64_t room = sink != nullptr ? omp_get_thread_num() * kOutputs : first;
    float* weight = memory.parameters[0].gradient + elements_before(room);
    float* bias = shape_.bias ? memory.parameters[1].gradient + room : nullptr;
    run_block(block, first, factors, weight, bias,
              memory.scratch + static_cast<size_t>(omp_get_thread_num()) * scratch_of_thread());
    if (sink == nullptr) continue;
    (*sink)(0, elements_before(first), {weight, block.weight.get_size() / sizeof(float)});
    if (bias != nullptr) (*sink)(1, first, {bias, static_cast<size_t>(block.outputs)});
  }
}

void FactorRebuild::run_block(const Block& block, int64_t first_output, const FactorMemory& factors,
                              float* weight_gradient, float* bias_gradient,
                              std::byte* scratch) const {
  Scratch pieces(scratch);
  float* deltas = pieces.take(block.deltas.get_size());
  for (int64_t sample = 0; sample < samples_; ++sample)
    std::copy_n(factors.deltas + sample * shape_.rows + first_output, block.outputs,
                deltas + sample * block.outputs);
  dnnl::stream stream(device_.engine());
  Arguments arguments(device_);
  arguments.add(DNNL_ARG_SRC, block.activations, factors.activations);
  arguments.add(DNNL_ARG_DIFF_DST, block.deltas, deltas);
  arguments.add(DNNL_ARG_DIFF_WEIGHTS, block.weight, weight_gradient);
  if (shape_.bias) arguments.add(DNNL_ARG_DIFF_BIAS, block.bias, bias_gradient);
  arguments.run(block.primitive, block.scratchpad, pieces, stream);
}

}  // namespace poseidon::layers::cpu
