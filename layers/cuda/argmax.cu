#include "layers/argmax.h"

#include <bit>

#include "layers/cuda/clear.cuh"
#include "layers/cuda/reduce.cuh"

namespace poseidon::layers::cuda {

namespace {

struct GreaterNumber {
  POSEIDON_DEVICE uint32_t operator()(uint32_t a, uint32_t b) const { return a > b ? a : b; }
};
struct LesserNumber {
  POSEIDON_DEVICE uint32_t operator()(uint32_t a, uint32_t b) const { return a < b ? a : b; }
};

/// Maps a float to an integer, so that integers have the order of the floats. NaN becomes 0, the
/// smallest value.
POSEIDON_DEVICE uint32_t rank_of(float value) {
  if (value != value) return 0;
  const auto bits = std::bit_cast<uint32_t>(value + 0.0F);  // -0 becomes +0
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000U;
}

/// Writes the indices of each row's top_k greatest elements, and then the elements if `values` is
/// true. A row is a sample. A team of threads (layers/cuda/reduce.cuh) processes a row, and scans
/// it once for each index. Each scan finds the next element in descending order. Equal elements are
/// in the order of their indices.
template <class Team>
struct ArgmaxKernel {
  static constexpr const char* kName = "argmax";
  static constexpr uint32_t kThreads = Team::kThreads;
  using Shared = typename Team::Shared;

  const float* in;
  float* out;
  int64_t rows;
  uint32_t length, top_k;
  bool values;

  uint32_t width() const { return values ? 2 * top_k : top_k; }
  void visit(MemoryVisitor& visitor) const {
    visitor.reads(in, bytes_of_elements<float>(rows * length));
    visitor.writes(out, bytes_of_elements<float>(rows * width()));
  }

  POSEIDON_DEVICE void operator()(const Thread& thread, Shared& shared) const {
    const int64_t row = Team::row(thread);
    if (row >= rows) return;  // the whole team returns
    const float* from = in + row * length;
    float* to = out + row * (values ? 2 * top_k : top_k);
    Found last{~0U, 0, true};
    for (uint32_t k = 0; k < top_k; ++k) {
      last = next(thread, shared, from, last);
      if (Team::member(thread) != 0) continue;
      to[k] = static_cast<float>(last.place);
      if (values) to[top_k + k] = from[last.place];
    }
  }

 private:
  struct Found {
    uint32_t rank, place;
    bool is_start;  ///< true before the first result

    /// True if the element at index `at`, with rank_of() `other`, comes after this result.
    POSEIDON_DEVICE bool is_before(uint32_t other, uint32_t at) const {
      return is_start || other < rank || (other == rank && at > place);
    }
  };

  /// Returns the result that follows `last`. All threads of the team receive the result.
  POSEIDON_DEVICE Found next(const Thread& thread, Shared& shared, const float* from,
                             const Found& last) const {
    uint32_t greatest = 0, place = length;
    for (uint32_t i = Team::member(thread); i < length; i += Team::kSize) {
      const uint32_t rank = rank_of(from[i]);
      if (!last.is_before(rank, i) || (place < length && rank <= greatest)) continue;
      greatest = rank;
      place = i;
    }
    const uint32_t mine = greatest;
    greatest = Team::reduce(thread, shared, greatest, GreaterNumber{});
    place = Team::reduce(thread, shared, mine == greatest ? place : length, LesserNumber{});
    return {greatest, place, false};
  }
};

class CudaArgmax final : public CudaLayer {
 public:
  CudaArgmax(const LayerRequest& request, CudaDevice& device)
      : CudaLayer(request, device), argmax_(static_cast<const Argmax&>(request.definition)) {
    needs_.input_formats = {kPlainFp32};
    needs_.output_format = kPlainFp32;
  }

  void forward(const StepContext&, const Bindings& memory) override {
    const int64_t rows = argmax_.input.samples(), length = argmax_.input.sample_count();
    with_team_for(length, [&](auto team) {
      using Team = decltype(team);
      device_.launch(ArgmaxKernel<Team>{memory.inputs[0].as<float>(), memory.output.as<float>(),
                                        rows, static_cast<uint32_t>(length),
                                        static_cast<uint32_t>(argmax_.top_k), argmax_.values},
                     {.blocks = poseidon::cuda::blocks_for(rows, Team::kRowsPerBlock)});
    });
  }

  void backward(const StepContext&, const Bindings& memory) override {
    if (memory.input_gradients[0]) clear(device_, memory.input_gradients[0]);
  }

 private:
  const Argmax& argmax_;
};

}  // namespace

std::unique_ptr<Layer> make_argmax(const LayerRequest& request, const LayerContext& context) {
  return std::make_unique<CudaArgmax>(request, context.device);
}

}  // namespace poseidon::layers::cuda
