#include "layers/reduction.h"

#include "layers/cuda/map.cuh"
#include "layers/cuda/reduce.cuh"

namespace poseidon::layers::cuda {

namespace {

/// The terms of the sums, and their derivatives.
struct PlainTerm {
  static constexpr bool kIsLinear = true;
  static POSEIDON_DEVICE float term(float x) { return x; }
  static POSEIDON_DEVICE float derivative(float) { return 1; }
};
struct AbsoluteTerm {
  static constexpr bool kIsLinear = false;
  static POSEIDON_DEVICE float term(float x) { return ::fabsf(x); }
  static POSEIDON_DEVICE float derivative(float x) { return x > 0 ? 1.0F : x < 0 ? -1.0F : 0.0F; }
};
struct SquareTerm {
  static constexpr bool kIsLinear = false;
  static POSEIDON_DEVICE float term(float x) { return x * x; }
  static POSEIDON_DEVICE float derivative(float x) { return 2 * x; }
};

/// out[row] = factor * sum of the row's terms. A team of threads (layers/cuda/reduce.cuh) processes
/// a row, which is a sample.
template <class Element, class Operation, class Team>
struct ReductionKernel {
  static constexpr const char* kName = "reduction";
  static constexpr uint32_t kThreads = Team::kThreads;
  using Shared = typename Team::Shared;

  const Element* in;
  float* out;
  int64_t rows;
  uint32_t length;
  float factor;

  void visit(MemoryVisitor& visitor) const {
    visitor.reads(in, bytes_of_elements<Element>(rows * length));
    visitor.writes(out, bytes_of_elements<float>(rows));
  }

  POSEIDON_DEVICE void operator()(const Thread& thread, Shared& shared) const {
    const int64_t row = Team::row(thread);
    if (row >= rows) return;  // the whole team returns
    const Element* from = in + row * length;
    double sum = 0;
    for (uint32_t i = Team::member(thread); i < length; i += Team::kSize)
      sum += static_cast<double>(Operation::term(from[i]));
    sum = Team::reduce(thread, shared, sum, Sum{});
    if (Team::member(thread) == 0) out[row] = static_cast<float>(static_cast<double>(factor) * sum);
  }
};

/// target[i] = gradient[row of i] * factor * derivative(in[i]).
template <class Element, class Operation>
struct ReductionBackwardKernel {
  static constexpr const char* kName = "gradient of reduction";
  static constexpr uint32_t kThreads = 256;

  const float* gradient;
  const Element* in;  ///< null: the derivative does not depend on the input
  Element* target;
  int64_t rows;
  uint32_t length;
  float factor;

  void visit(MemoryVisitor& visitor) const {
    visitor.reads(gradient, bytes_of_elements<float>(rows));
    if (!Operation::kIsLinear) visitor.reads(in, bytes_of_elements<Element>(rows * length));
    visitor.writes(target, bytes_of_elements<Element>(rows * length));
  }

  POSEIDON_DEVICE void operator()(const Thread& thread) const {
    const int64_t count = rows * length;
    const int64_t first = (int64_t{thread.block()} * kThreads + thread.thread()) * kPack<Element>;
    if (first + kPack<Element> <= count) {
      Pack<Element> pack{};
      if constexpr (!Operation::kIsLinear) pack = load_pack(in + first);
#pragma unroll
      for (int i = 0; i < kPack<Element>; ++i) pack[i] = one(first + i, pack[i]);
      store_pack(target + first, pack);
    } else {
      for (int64_t i = first; i < count; ++i)
        target[i] = one(i, Operation::kIsLinear ? 0.0F : static_cast<float>(in[i]));
    }
  }

 private:
  POSEIDON_DEVICE float one(int64_t index, float x) const {
    const uint32_t row = static_cast<uint32_t>(index) / length;
    return gradient[row] * factor * Operation::derivative(x);
  }
};

class CudaReduction final : public CudaLayer {
 public:
  CudaReduction(const LayerRequest& request, CudaDevice& device)
      : CudaLayer(request, device), reduction_(static_cast<const Reduction&>(request.definition)) {
    needs_.output_format = kPlainFp32;
    needs_.backward_reads_inputs = !reduction_.is_linear();
  }

  void forward(const StepContext&, const Bindings& memory) override {
    with_kernels([&](auto element, auto operation) {
      using Element = decltype(element);
      with_team_for(length(), [&](auto team) {
        using Team = decltype(team);
        device_.launch(
            ReductionKernel<Element, decltype(operation), Team>{
                memory.inputs[0].as<Element>(), memory.output.as<float>(), rows(),
                static_cast<uint32_t>(length()), reduction_.factor()},
            {.blocks = poseidon::cuda::blocks_for(rows(), Team::kRowsPerBlock)});
      });
    });
  }

  void backward(const StepContext&, const Bindings& memory) override {
    if (!memory.input_gradients[0]) return;
    const auto* gradient = combined_gradient(device_, memory, std::nullopt).as<float>();
    with_kernels([&](auto element, auto operation) {
      using Element = decltype(element);
      const bool is_read = needs_.backward_reads_inputs;
      device_.launch_for(poseidon::cuda::blocks_for(rows() * length(), kPack<Element>),
                         ReductionBackwardKernel<Element, decltype(operation)>{
                             gradient, is_read ? memory.inputs[0].as<Element>() : nullptr,
                             memory.input_gradients[0].as<Element>(), rows(),
                             static_cast<uint32_t>(length()), reduction_.factor()});
    });
  }

 private:
  int64_t rows() const { return reduction_.input.samples(); }
  int64_t length() const { return reduction_.input.sample_count(); }

  template <class Use>
  void with_kernels(const Use& use) const {
    with_element_of(needs_.input_formats[0].type, [&](auto element) {
      switch (reduction_.operation) {
        case ReductionOperation::kSum:
        case ReductionOperation::kMean: return use(element, PlainTerm{});
        case ReductionOperation::kAbsoluteSum: return use(element, AbsoluteTerm{});
        case ReductionOperation::kSquares: return use(element, SquareTerm{});
      }
    });
  }

  const Reduction& reduction_;
};

}  // namespace

std::unique_ptr<Layer> make_reduction(const LayerRequest& request, const LayerContext& context) {
  return std::make_unique<CudaReduction>(request, context.device);
}

}  // namespace poseidon::layers::cuda
