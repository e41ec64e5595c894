#include "layers/dropout.h"

#include "layers/cpu/elementwise.h"

namespace poseidon::layers::cpu {

namespace {

/// The maximum number of elements for which one decide() computes the decisions. The elements are
/// contiguous in canonical order.
constexpr int64_t kRun = 256;
/// The maximum number of adjacent channels that one decide_tile() computes.
constexpr int64_t kLanes = 16;

/// A decision takes as long as this many elements of a simple loop.
constexpr int64_t kTimeOfDecision = 4;

/// Computes the decisions (0: drop, 1: do not drop) for canonical elements [first, first + count)
/// of a sample. Returns the address of the first decision in `keep`. The function writes whole
/// blocks of 4: up to 3 elements before the first decision, and up to 3 after the last one.
const uint8_t* decide(RandomStream random, int64_t first, int64_t count, uint32_t threshold,
                      uint8_t* keep) {
  const auto block = static_cast<uint64_t>(first / 4);
  const int64_t blocks = (first % 4 + count + 3) / 4;
#pragma omp simd
  for (int64_t b = 0; b < blocks; ++b) {
    const PhiloxBlock words = random.at(block + static_cast<uint64_t>(b));
    keep[4 * b] = words[0] >= threshold;
    keep[4 * b + 1] = words[1] >= threshold;
    keep[4 * b + 2] = words[2] >= threshold;
    keep[4 * b + 3] = words[3] >= threshold;
  }
  return keep + first % 4;
}

/// The workspace has one byte for each stored element: 0 if the element is dropped, else 1.
class CpuDropout final : public CpuLayer {
 public:
  CpuDropout(const LayerRequest& request, CpuDevice& device)
      : CpuLayer(request, device), dropout_(static_cast<const Dropout&>(request.definition)) {
    needs_.forward_in_place = needs_.backward_in_place = 0;
    const int64_t count = stored_count(request.output_shape, needs_.output_format.layout);
    if (request.training) needs_.workspace_bytes = static_cast<size_t>(count);
  }

  void forward(const StepContext& step, const Bindings& memory) override {
    if (step.phase == Phase::kTest) return copy(team(), memory.inputs[0], memory.output);
    const Blocking b = memory.output.blocking();
    if (b.block == 1 || b.area == 1)
      decide_dense(step, memory, b);
    else
      decide_tiles(step, memory, b);
  }

  void backward(const StepContext& step, const Bindings& memory) override {
    if (step.phase == Phase::kTest)
      return map_gradient(team(), memory, memory.output, [](float g, float, int64_t) { return g; });
    const auto* kept = reinterpret_cast<const uint8_t*>(memory.workspace);
    const float scale = dropout_.scale();
    map_gradient(team(), memory, memory.output,
                 [=](float g, float, int64_t i) { return kept[i] != 0 ? g * scale : 0; });
  }

 private:
  /// For layouts whose stored order is canonical order, except for padding at the end of each
  /// sample.
  void decide_dense(const StepContext& step, const Bindings& memory, const Blocking& b) const {
    const int64_t stored = b.blocks * b.block * b.area;
    const int64_t runs = (stored + kRun - 1) / kRun;
    for_each_pair(team(), b.samples, runs, kTimeOfDecision * kRun, [&](int64_t n, int64_t run) {
      uint8_t decisions[kRun + 8];
      const int64_t first = run * kRun, count = std::min(kRun, stored - first);
      const RandomStream random = dropout_.stream(*step.numbers, n);
      const uint8_t* keep = decide(random, first, count, dropout_.threshold(), decisions);
      apply(memory, n * stored + first, keep, count);
    });
  }

  /// For layouts with adjacent channels. The function computes the decisions of kLanes channels in
  /// canonical order, then transposes the decisions.
  void decide_tiles(const StepContext& step, const Bindings& memory, const Blocking& b) const {
    const int64_t groups = (b.block + kLanes - 1) / kLanes, runs = (b.area + kRun - 1) / kRun;
    for_each_pair(team(), b.samples * b.blocks, groups * runs, kTimeOfDecision * kRun * kLanes,
                  [&](int64_t plane, int64_t i) {
                    const int64_t channel = plane % b.blocks * b.block + i / runs * kLanes;
                    decide_tile(step, memory, b, plane / b.blocks, channel, i % runs * kRun);
                  });
  }

  void decide_tile(const StepContext& step, const Bindings& memory, const Blocking& b, int64_t n,
                   int64_t channel, int64_t first) const {
    uint8_t decisions[kRun + 8], across[kRun * kLanes];
    const int64_t lanes = std::min(kLanes, b.block - channel % b.block);
    const int64_t count = std::min(kRun, b.area - first);
    const RandomStream random = dropout_.stream(*step.numbers, n);
    for (int64_t lane = 0; lane < lanes; ++lane) {
      const uint8_t* keep =
          decide(random, (channel + lane) * b.area + first, count, dropout_.threshold(), decisions);
      for (int64_t i = 0; i < count; ++i) across[i * lanes + lane] = keep[i];
    }
    const int64_t start = b.offset(n, channel, first);
    if (lanes == b.block) return apply(memory, start, across, count * lanes);
    for (int64_t i = 0; i < count; ++i)
      apply(memory, start + i * b.block, across + i * lanes, lanes);
  }

  void apply(const Bindings& memory, int64_t first, const uint8_t* keep, int64_t count) const {
    const float scale = dropout_.scale();
    auto* kept = reinterpret_cast<uint8_t*>(memory.workspace) + first;
    with_element_of(memory.output.format.type, [&](auto element) {
      using Element = decltype(element);
      const auto* in = memory.inputs[0].as<Element>() + first;
      auto* out = memory.output.as<Element>() + first;
#pragma omp simd
      for (int64_t i = 0; i < count; ++i) {
        out[i] = keep[i] != 0 ? in[i] * scale : 0;
        kept[i] = keep[i];
      }
    });
  }

  const Dropout& dropout_;
};

}  // namespace

std::unique_ptr<Layer> make_dropout(const LayerRequest& request, CpuDevice& device) {
  return std::make_unique<CpuDropout>(request, device);
}

}  // namespace poseidon::layers::cpu
