#include "layers/cpu/reorder.h"

#include "layers/cpu/cpu_layer.h"
#include "layers/cpu/vectors.h"

namespace poseidon::layers::cpu {

namespace {

/// Positions are copied in runs, so that the strided and the contiguous side both stay in the
/// first-level cache.
constexpr int64_t kCopied = 64;

template <class From, class To>
void copy_run(const Blocking& from, const From* source, const Blocking& to, To* target,
              int64_t sample, int64_t first, int64_t last) {
  for (int64_t channel = 0; channel < from.channels; ++channel) {
    const From* in = source + from.offset(sample, channel, first);
    To* out = target + to.offset(sample, channel, first);
    for (int64_t i = 0; i < last - first; ++i) out[i * to.block] = in[i * from.block];
  }
  for (int64_t channel = to.channels; channel < to.blocks * to.block; ++channel)
    for (int64_t position = first; position < last; ++position)
      target[to.offset(sample, channel, position)] = 0.0F;
}

template <class From, class To>
void copy_runs(ThreadTeam& team, const Blocking& from, const From* source, const Blocking& to,
               To* target) {
  const int64_t runs = (from.area + kCopied - 1) / kCopied;
  const int64_t elements = from.channels * std::min(kCopied, from.area);
  for_each_pair(team, from.samples, runs, elements, [&](int64_t sample, int64_t run) {
    copy_run(from, source, to, target, sample, run * kCopied,
             std::min(from.area, (run + 1) * kCopied));
  });
}

class Reorder final : public Layer {
 public:
  Reorder(ThreadTeam& team, const Shape& shape, Format from, Format to)
      : team_(team), shape_(shape), from_(from), to_(to) {
    needs_.input_formats = {from};
    needs_.output_format = to;
  }

  void forward(const StepContext&, const Bindings& memory) override {
    reorder(team_, {memory.inputs[0].data, shape_, from_}, {memory.output.data, shape_, to_});
  }
  void backward(const StepContext&, const Bindings& memory) override {
    if (!memory.input_gradients[0]) return;
    reorder(team_, combined_gradient(team_, memory, std::nullopt),
            {memory.input_gradients[0].data, shape_, from_});
  }
  int64_t packed_count(int) const override { return 0; }
  void pack(int, const float*, float*) const override {}
  void unpack(int, const float*, float*) const override {}
  bool packed_is_canonical(int) const override { return true; }

 private:
  ThreadTeam& team_;
  Shape shape_;
  Format from_, to_;
};

}  // namespace

void reorder(ThreadTeam& team, const Tensor& source, const Tensor& target) {
  with_element_of(source.format.type, [&](auto from) {
    with_element_of(target.format.type, [&](auto to) {
      copy_runs(team, source.blocking(), source.as<decltype(from)>(), target.blocking(),
                target.as<decltype(to)>());
    });
  });
}
std::unique_ptr<Layer> make_reorder(ThreadTeam& team, const Shape& shape, Format from, Format to) {
  return std::make_unique<Reorder>(team, shape, from, to);
}

}  // namespace poseidon::layers::cpu
