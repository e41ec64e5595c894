#include "layers/cuda/update.h"

#include <algorithm>
#include <initializer_list>
#include <vector>

#include "core/cuda/pack.cuh"
#include "layers/update_rules.h"

namespace poseidon::layers::cuda {

namespace {

using poseidon::cuda::blocks_for;
using poseidon::cuda::CudaDevice;
using poseidon::cuda::Grid;
using poseidon::cuda::kPackBytes;
using poseidon::cuda::load_pack;
using poseidon::cuda::MemoryVisitor;
using poseidon::cuda::store_pack;
using poseidon::cuda::Thread;

using FloatPack = poseidon::cuda::Pack<float>;
constexpr int kFloats = FloatPack::kCount;

/// The assignment of tensor elements to threads. A thread has four elements. `packed` is true if
/// all tensors begin at the same distance from a multiple of 16 bytes, which is usual. Then the
/// four elements of a thread are one aligned pack. Otherwise the four elements are kThreads
/// elements apart, so that neighboring threads access neighboring addresses. If `packed` is true,
/// elements are counted from the multiple of 16 bytes at or before the tensor's first element.
/// Kernels receive pointers to that address, because otherwise the compiler could not see that
/// packs are aligned.
struct ElementPartition {
  static constexpr uint32_t kThreads = 256;

  int64_t begin, end;
  bool packed;

  size_t bytes() const { return static_cast<size_t>(end - begin) * sizeof(float); }
  Grid grid() const { return {.blocks = blocks_for(end, int64_t{kThreads} * kFloats)}; }

  /// Calls whole(first) if this thread's four elements are one whole pack. Otherwise calls
  /// one(element) for each of the elements.
  template <class Whole, class One>
  POSEIDON_DEVICE void for_elements(const Thread& thread, const Whole& whole,
                                    const One& one) const {
    const int64_t before = int64_t{thread.block()} * kThreads * kFloats;
    if (!packed) {
      for (uint32_t k = 0; k < kFloats; ++k) {
        const int64_t i = before + k * kThreads + thread.thread();
        if (i < end) one(i);
      }
      return;
    }
    const int64_t first = before + thread.thread() * kFloats;
    if (first >= begin && first + kFloats <= end) return whole(first);
    for (int k = 0; k < kFloats; ++k)
      if (first + k >= begin && first + k < end) one(first + k);
  }
};

/// Returns the assignment for `tensors`, each of `count` elements. Tensors other than the first one
/// may be null.
ElementPartition partition_of(size_t count, std::initializer_list<const float*> tensors) {
  const auto past = [](const float* tensor) {
    return reinterpret_cast<uintptr_t>(tensor) % kPackBytes / sizeof(float);
  };
  const uintptr_t first = past(*tensors.begin());
  const bool packed = std::ranges::all_of(
      tensors, [&](const float* tensor) { return tensor == nullptr || past(tensor) == first; });
  const auto begin = static_cast<int64_t>(packed ? first : 0);
  return {.begin = begin, .end = begin + static_cast<int64_t>(count), .packed = packed};
}

/// A tensor of UpdateMemory: its old elements, and the destination of the new ones.
struct OldAndNewValues {
  const float* old;
  float* next;

  void visit(MemoryVisitor& visitor, const ElementPartition& partition) const {
    visitor.reads(old + partition.begin, partition.bytes());
    visitor.writes(next + partition.begin, partition.bytes());
  }
};

/// One update of a tensor and its optimizer states. Each thread constructs the rule from the update
/// parameters (`numbers`). The construction costs less than the update of the thread's elements.
template <class Rule, class Decay>
struct UpdateKernel {
  static constexpr const char* kName = "update";
  static constexpr uint32_t kThreads = ElementPartition::kThreads;
  static constexpr int kTensors = 1 + Rule::kStates;

  OldAndNewValues tensors[kTensors];  ///< the value, then its optimizer states
  const float* gradient;
  const UpdateParameters* numbers;
  ElementPartition partition;

  void visit(MemoryVisitor& visitor) const {
    visitor.reads(numbers, sizeof(UpdateParameters));
    visitor.reads(gradient + partition.begin, partition.bytes());
    for (const OldAndNewValues& tensor : tensors) tensor.visit(visitor, partition);
  }

  POSEIDON_DEVICE void operator()(const Thread& thread) const {
    const Update update{Rule(*numbers), Decay(*numbers)};
    partition.for_elements(
        thread, [&](int64_t first) { update_pack(update, first); },
        [&](int64_t i) { update_one(update, i); });
  }

  /// Updates the value and states of one element.
  struct Update {
    Rule rule;
    Decay decay;

    POSEIDON_DEVICE void operator()(float (&element_numbers)[kTensors], float g) const {
      UpdateElement element{.value = element_numbers[0]};
#pragma unroll
      for (int t = 1; t < kTensors; ++t) element.state[t - 1] = element_numbers[t];
      element = rule(element, decay(g, element.value));
      element_numbers[0] = element.value;
#pragma unroll
      for (int t = 1; t < kTensors; ++t) element_numbers[t] = element.state[t - 1];
    }
  };

  POSEIDON_DEVICE void update_one(const Update& update, int64_t i) const {
    float element[kTensors];
#pragma unroll
    for (int t = 0; t < kTensors; ++t) element[t] = tensors[t].old[i];
    update(element, gradient[i]);
#pragma unroll
    for (int t = 0; t < kTensors; ++t) tensors[t].next[i] = element[t];
  }

  POSEIDON_DEVICE void update_pack(const Update& update, int64_t first) const {
    const FloatPack g = load_pack(gradient + first);
    FloatPack packs[kTensors];
#pragma unroll
    for (int t = 0; t < kTensors; ++t) packs[t] = load_pack(tensors[t].old + first);
#pragma unroll
    for (int i = 0; i < kFloats; ++i) {
      float element[kTensors];
#pragma unroll
      for (int t = 0; t < kTensors; ++t) element[t] = packs[t][i];
      update(element, g[i]);
#pragma unroll
      for (int t = 0; t < kTensors; ++t) packs[t][i] = element[t];
    }
#pragma unroll
    for (int t = 0; t < kTensors; ++t) store_pack(tensors[t].next + first, packs[t]);
  }
};

/// next[i] = rule(a[i], b[i])
template <class Rule>
struct CombineKernel {
  static constexpr const char* kName = Rule::kName;
  static constexpr uint32_t kThreads = ElementPartition::kThreads;

  const float *a, *b;
  float* next;
  ElementPartition partition;
  Rule rule;

  void visit(MemoryVisitor& visitor) const {
    visitor.reads(a + partition.begin, partition.bytes());
    visitor.reads(b + partition.begin, partition.bytes());
    visitor.writes(next + partition.begin, partition.bytes());
  }

  POSEIDON_DEVICE void operator()(const Thread& thread) const {
    partition.for_elements(
        thread,
        [this](int64_t first) {
          FloatPack left = load_pack(a + first);
          const FloatPack right = load_pack(b + first);
#pragma unroll
          for (int i = 0; i < kFloats; ++i) left[i] = rule(left[i], right[i]);
          store_pack(next + first, left);
        },
        [this](int64_t i) { next[i] = rule(a[i], b[i]); });
  }
};

/// An EMA update: next[i] = rule(average[i], value[i]). The rate is in device memory.
struct AverageKernel {
  static constexpr const char* kName = "average";
  static constexpr uint32_t kThreads = ElementPartition::kThreads;

  const float *average, *value, *rate;
  float* next;
  ElementPartition partition;

  void visit(MemoryVisitor& visitor) const {
    visitor.reads(rate, sizeof(float));
    visitor.reads(average + partition.begin, partition.bytes());
    visitor.reads(value + partition.begin, partition.bytes());
    visitor.writes(next + partition.begin, partition.bytes());
  }

  POSEIDON_DEVICE void operator()(const Thread& thread) const {
    const EmaRule rule{*rate};
    partition.for_elements(
        thread,
        [&](int64_t first) {
          FloatPack averages = load_pack(average + first);
          const FloatPack values = load_pack(value + first);
#pragma unroll
          for (int i = 0; i < kFloats; ++i) averages[i] = rule(averages[i], values[i]);
          store_pack(next + first, averages);
        },
        [&](int64_t i) { next[i] = rule(average[i], value[i]); });
  }
};

/// Exchanges the values of two tensors.
struct SwapKernel {
  static constexpr const char* kName = "swap";
  static constexpr uint32_t kThreads = ElementPartition::kThreads;

  float *a, *b;
  ElementPartition partition;

  void visit(MemoryVisitor& visitor) const {
    for (float* tensor : {a, b}) {
      visitor.reads(tensor + partition.begin, partition.bytes());
      visitor.writes(tensor + partition.begin, partition.bytes());
    }
  }

  POSEIDON_DEVICE void operator()(const Thread& thread) const {
    partition.for_elements(
        thread,
        [this](int64_t first) {
          const FloatPack left = load_pack(a + first), right = load_pack(b + first);
          store_pack(a + first, right);
          store_pack(b + first, left);
        },
        [this](int64_t i) {
          const float left = a[i];
          a[i] = b[i];
          b[i] = left;
        });
  }
};

/// Computes the sum of squares of each norm block, which has kNormBlock values. A thread computes
/// one of the kNormLanes running sums of a norm block (layers/update_rules.h). Products of floats
/// are exact in double precision, so fused multiply-adds do not change the sums.
struct SquaredNormKernel {
  static constexpr const char* kName = "squared norm";
  static constexpr uint32_t kThreads = 128;
  static constexpr uint32_t kEach = kThreads / kNormLanes;  ///< norm blocks per thread block
  struct Shared {
    double lanes[kThreads];
  };

  const float* in;
  double* sums;
  int64_t count;

  uint32_t size() const { return blocks_for(count, kNormBlock); }

  void visit(MemoryVisitor& visitor) const {
    visitor.reads(in, static_cast<size_t>(count) * sizeof(float));
    visitor.writes(sums, size() * sizeof(double));
  }

  POSEIDON_DEVICE void operator()(const Thread& thread, Shared& shared) const {
    const int64_t before = int64_t{thread.block()} * kEach;
    const int64_t first = (before + thread.thread() / kNormLanes) * kNormBlock;
    const int64_t end = first + kNormBlock < count ? first + kNormBlock : count;
    double lane = 0;
#pragma unroll 8
    for (int64_t i = first + thread.thread() % kNormLanes; i < end; i += kNormLanes) {
      const double value = in[i];
      lane += value * value;
    }
    shared.lanes[thread.thread()] = lane;
    thread.synchronize();
    const int64_t mine = before + thread.thread();
    if (thread.thread() >= kEach || mine * kNormBlock >= count) return;
    double sum = 0;
#pragma unroll
    for (uint32_t i = 0; i < kNormLanes; ++i) sum += shared.lanes[thread.thread() * kNormLanes + i];
    sums[mine] = sum;
  }
};

class CudaUpdater final : public Updater {
 public:
  explicit CudaUpdater(CudaDevice& device) : device_(device) {}

  void update(const UpdateForm& form, const UpdateParameters* numbers,
              const UpdateMemory& memory) override {
    with_update(form, memory, [&](auto rule, auto decay) {
      launch_update<typename decltype(rule)::type, typename decltype(decay)::type>(numbers, memory);
    });
  }

  void track(const Tracking& numbers, std::span<const float> value, std::span<const float> sum,
             std::span<float> next) override {
    combine(TrackRule{numbers}, value, sum, next);
  }

  void add(std::span<const float> a, std::span<const float> b, std::span<float> sum) override {
    combine(AddRule{}, a, b, sum);
  }

  void average(const float* rate, std::span<const float> average, std::span<const float> value,
               std::span<float> next) override {
    const ElementPartition partition =
        partition_of(next.size(), {average.data(), value.data(), next.data()});
    if (next.empty()) return;
    device_.launch(AverageKernel{.average = average.data() - partition.begin,
                                 .value = value.data() - partition.begin,
                                 .rate = rate,
                                 .next = next.data() - partition.begin,
                                 .partition = partition},
                   partition.grid());
  }

  void swap(std::span<float> a, std::span<float> b) override {
    const ElementPartition partition = partition_of(a.size(), {a.data(), b.data()});
    if (a.empty()) return;
    device_.launch(SwapKernel{a.data() - partition.begin, b.data() - partition.begin, partition},
                   partition.grid());
  }

  /// The host adds the sums of the norm blocks, in order, because the host needs the result, and
  /// there are few sums.
  double squared_norm(std::span<const float> values) override {
    SquaredNormKernel kernel{values.data(), nullptr, static_cast<int64_t>(values.size())};
    std::vector<double> sums(kernel.size());
    const auto host = std::as_writable_bytes(std::span(sums));
    if (sums_.bytes() < host.size())
      sums_ = device_.allocate(host.size(), MemoryKind::kDevice, "sums of squares");
    kernel.sums = static_cast<double*>(sums_.data());
    device_.launch(kernel, {.blocks = blocks_for(kernel.size(), SquaredNormKernel::kEach)});
    device_.read({static_cast<const std::byte*>(sums_.data()), host.size()}, host);
    double sum = 0;
    for (const double block : sums) sum += block;
    return sum;
  }

 private:
  template <class Rule, class Decay>
  void launch_update(const UpdateParameters* numbers, const UpdateMemory& memory) {
    const auto& state = memory.state;
    const auto& new_state = memory.new_state;
    const ElementPartition partition =
        partition_of(memory.value.size(),
                     {memory.value.data(), memory.new_value.data(), memory.gradient.data(),
                      state[0].data(), new_state[0].data(), state[1].data(), new_state[1].data()});
    if (memory.value.empty()) return;
    const auto tensor = [&](std::span<const float> old, std::span<float> next) {
      return OldAndNewValues{old.data() - partition.begin, next.data() - partition.begin};
    };
    UpdateKernel<Rule, Decay> kernel{.tensors = {tensor(memory.value, memory.new_value)},
                                     .gradient = memory.gradient.data() - partition.begin,
                                     .numbers = numbers,
                                     .partition = partition};
    for (size_t t = 1; t < std::size(kernel.tensors); ++t)
      kernel.tensors[t] = tensor(state[t - 1], new_state[t - 1]);
    device_.launch(kernel, partition.grid());
  }

  template <class Rule>
  void combine(const Rule& rule, std::span<const float> a, std::span<const float> b,
               std::span<float> next) {
    const ElementPartition partition = partition_of(next.size(), {a.data(), b.data(), next.data()});
    if (next.empty()) return;
    device_.launch(CombineKernel<Rule>{a.data() - partition.begin, b.data() - partition.begin,
                                       next.data() - partition.begin, partition, rule},
                   partition.grid());
  }

  CudaDevice& device_;
  Buffer sums_;  ///< device memory for the sums of squared_norm()
};

}  // namespace

std::unique_ptr<Updater> make_cuda_updater(CudaDevice& device) {
  return std::make_unique<CudaUpdater>(device);
}

}  // namespace poseidon::layers::cuda
