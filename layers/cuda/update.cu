#include "layers/cuda/update.h"

#include <algorithm>
#include <initializer_list>
#include <optional>
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

/// The rounded values of a FloatPack.
struct alignas(kFloats * sizeof(Bf16)) RoundedPack {
  Bf16 values[kFloats];
};

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
  uint32_t blocks() const { return blocks_for(end, int64_t{kThreads} * kFloats); }
  Grid grid() const { return {.blocks = blocks()}; }

  /// Calls whole(first) if the four elements of a thread are one whole pack. Otherwise calls
  /// one(element) for each of the elements. `block` is the index of the thread's block within the
  /// tensor.
  template <class Whole, class One>
  POSEIDON_DEVICE void for_elements(uint32_t block, const Thread& thread, const Whole& whole,
                                    const One& one) const {
    const int64_t before = int64_t{block} * kThreads * kFloats;
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

/// Returns the assignment for `tensors` and `rounded`, each of `count` elements. Tensors other than
/// the first one may be null.
ElementPartition partition_of(size_t count, std::initializer_list<const float*> tensors,
                              const Bf16* rounded = nullptr) {
  const auto past = [](const float* tensor) {
    return reinterpret_cast<uintptr_t>(tensor) % kPackBytes / sizeof(float);
  };
  const uintptr_t first = past(*tensors.begin());
  const bool packed =
      std::ranges::all_of(
          tensors,
          [&](const float* tensor) { return tensor == nullptr || past(tensor) == first; }) &&
      (rounded == nullptr ||
       reinterpret_cast<uintptr_t>(rounded) % sizeof(RoundedPack) / sizeof(Bf16) == first);
  const auto begin = static_cast<int64_t>(packed ? first : 0);
  return {.begin = begin, .end = begin + static_cast<int64_t>(count), .packed = packed};
}

/// next[i] = rule(a[i], b[i]) for the elements of one thread.
template <class Rule>
POSEIDON_DEVICE void combine_elements(const ElementPartition& partition, uint32_t block,
                                      const Thread& thread, const Rule& rule, const float* a,
                                      const float* b, float* next) {
  partition.for_elements(
      block, thread,
      [&](int64_t first) {
        FloatPack left = load_pack(a + first);
        const FloatPack right = load_pack(b + first);
#pragma unroll
        for (int i = 0; i < kFloats; ++i) left[i] = rule(left[i], right[i]);
        store_pack(next + first, left);
      },
      [&](int64_t i) { next[i] = rule(a[i], b[i]); });
}

/// The tensors of one launch. Each block processes elements of one tensor.
template <class Tensor>
struct TensorList {
  static constexpr uint32_t kMost = 16;  ///< the arguments of a kernel have at most 4 KiB

  Tensor tensors[kMost];
  uint32_t first_blocks[kMost];
  uint32_t count, blocks;

  void add(const Tensor& tensor) {
    tensors[count] = tensor;
    first_blocks[count++] = blocks;
    blocks += tensor.partition.blocks();
  }

  void visit(MemoryVisitor& visitor) const {
    for (uint32_t i = 0; i < count; ++i) tensors[i].visit(visitor);
  }

  /// Calls use(tensor, block) with the tensor of the thread, and with the index of the thread's
  /// block within this tensor.
  template <class Use>
  POSEIDON_DEVICE void with_tensor(const Thread& thread, const Use& use) const {
    uint32_t index = 0;
    while (index + 1 < count && first_blocks[index + 1] <= thread.block()) ++index;
    use(tensors[index], thread.block() - first_blocks[index]);
  }
};

/// A tensor of UpdateMemory: its old elements, and the destination of the new ones.
struct OldAndNewValues {
  const float* old;
  float* next;

  void visit(MemoryVisitor& visitor, const ElementPartition& partition) const {
    visitor.reads(old + partition.begin, partition.bytes());
    visitor.writes(next + partition.begin, partition.bytes());
  }
};

/// A parameter with its optimizer states, or a tracked statistic.
template <int kTensors>
struct UpdatedTensor {
  OldAndNewValues values[kTensors];  ///< the value, then its optimizer states
  const float* gradient;             ///< of a statistic: the sum of its contributions
  const UpdateParameters* numbers;   ///< null: a statistic
  Tracking tracking;                 ///< of a statistic
  Bf16* rounded;                     ///< receives the new value in bf16; null: not requested
  ElementPartition partition;

  void visit(MemoryVisitor& visitor) const {
    visitor.reads(gradient + partition.begin, partition.bytes());
    if (numbers == nullptr) return values[0].visit(visitor, partition);
    visitor.reads(numbers, sizeof(UpdateParameters));
    for (const OldAndNewValues& tensor : values) tensor.visit(visitor, partition);
    if (rounded != nullptr)
      visitor.writes(rounded + partition.begin, partition.bytes() / sizeof(float) * sizeof(Bf16));
  }
};

/// One update of parameters and statistics. Each thread constructs the rule from the update
/// parameters (`numbers`). The construction costs less than the update of the thread's elements.
template <class Rule, class Decay>
struct UpdateKernel {
  static constexpr const char* kName = "update";
  static constexpr uint32_t kThreads = ElementPartition::kThreads;
  static constexpr int kTensors = 1 + Rule::kStates;
  using Tensor = UpdatedTensor<kTensors>;

  TensorList<Tensor> list;

  void visit(MemoryVisitor& visitor) const { list.visit(visitor); }

  POSEIDON_DEVICE void operator()(const Thread& thread) const {
    list.with_tensor(thread, [&](const Tensor& tensor, uint32_t block) {
      if (tensor.numbers == nullptr)
        return combine_elements(tensor.partition, block, thread, TrackRule{tensor.tracking},
                                tensor.values[0].old, tensor.gradient, tensor.values[0].next);
      const Update update{Rule(*tensor.numbers), Decay(*tensor.numbers)};
      tensor.partition.for_elements(
          block, thread, [&](int64_t first) { update_pack(tensor, update, first); },
          [&](int64_t i) { update_one(tensor, update, i); });
    });
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

  static POSEIDON_DEVICE void update_one(const Tensor& tensor, const Update& update, int64_t i) {
    float element[kTensors];
#pragma unroll
    for (int t = 0; t < kTensors; ++t) element[t] = tensor.values[t].old[i];
    update(element, tensor.gradient[i]);
#pragma unroll
    for (int t = 0; t < kTensors; ++t) tensor.values[t].next[i] = element[t];
    if (tensor.rounded != nullptr) tensor.rounded[i] = element[0];
  }

  static POSEIDON_DEVICE void update_pack(const Tensor& tensor, const Update& update,
                                          int64_t first) {
    const FloatPack g = load_pack(tensor.gradient + first);
    FloatPack packs[kTensors];
#pragma unroll
    for (int t = 0; t < kTensors; ++t) packs[t] = load_pack(tensor.values[t].old + first);
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
    for (int t = 0; t < kTensors; ++t) store_pack(tensor.values[t].next + first, packs[t]);
    if (tensor.rounded == nullptr) return;
    RoundedPack rounded;
#pragma unroll
    for (int i = 0; i < kFloats; ++i) rounded.values[i] = packs[0][i];
    *reinterpret_cast<RoundedPack*>(tensor.rounded + first) = rounded;
  }
};

/// A tensor whose EMA is updated. The rate is in device memory.
struct AveragedTensor {
  const float *average, *value, *rate;
  float* next;
  ElementPartition partition;

  void visit(MemoryVisitor& visitor) const {
    visitor.reads(rate, sizeof(float));
    visitor.reads(average + partition.begin, partition.bytes());
    visitor.reads(value + partition.begin, partition.bytes());
    visitor.writes(next + partition.begin, partition.bytes());
  }
};

/// EMA updates: next[i] = rule(average[i], value[i]).
struct AverageKernel {
  static constexpr const char* kName = "average";
  static constexpr uint32_t kThreads = ElementPartition::kThreads;
  using Tensor = AveragedTensor;

  TensorList<Tensor> list;

  void visit(MemoryVisitor& visitor) const { list.visit(visitor); }

  POSEIDON_DEVICE void operator()(const Thread& thread) const {
    list.with_tensor(thread, [&](const Tensor& tensor, uint32_t block) {
      combine_elements(tensor.partition, block, thread, EmaRule{*tensor.rate}, tensor.average,
                       tensor.value, tensor.next);
    });
  }
};

/// next[i] = a[i] + b[i]
struct AddKernel {
  static constexpr const char* kName = "sum of two";
  static constexpr uint32_t kThreads = ElementPartition::kThreads;

  const float *a, *b;
  float* next;
  ElementPartition partition;

  void visit(MemoryVisitor& visitor) const {
    visitor.reads(a + partition.begin, partition.bytes());
    visitor.reads(b + partition.begin, partition.bytes());
    visitor.writes(next + partition.begin, partition.bytes());
  }

  POSEIDON_DEVICE void operator()(const Thread& thread) const {
    combine_elements(partition, thread.block(), thread, AddRule{}, a, b, next);
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
        thread.block(), thread,
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

  void combine_updates(const std::function<void()>& work) override {
    combining_ = true;
    try {
      work();
    } catch (...) {
      updates_.clear();
      averages_.clear();
      combining_ = false;
      throw;
    }
    combining_ = false;
    issue_delayed();
  }

  void update(const UpdateForm& form, const UpdateParameters* numbers,
              const UpdateMemory& memory) override {
    const Form form_here{form, states_of(memory)};
    if (form_ && *form_ != form_here) issue_updates();
    form_ = form_here;
    delay(updates_, {memory, numbers, {}}, memory.value.size());
  }

  void track(const Tracking& numbers, std::span<const float> value, std::span<const float> sum,
             std::span<float> next) override {
    const UpdateMemory memory{
        .value = value, .gradient = sum, .state = {}, .new_value = next, .new_state = {}};
    delay(updates_, {memory, nullptr, numbers}, next.size());
  }

  void add(std::span<const float> a, std::span<const float> b, std::span<float> sum) override {
    const ElementPartition partition = partition_of(sum.size(), {a.data(), b.data(), sum.data()});
    if (sum.empty()) return;
    device_.launch(AddKernel{a.data() - partition.begin, b.data() - partition.begin,
                             sum.data() - partition.begin, partition},
                   partition.grid());
  }

  void average(const float* rate, std::span<const float> average, std::span<const float> value,
               std::span<float> next) override {
    delay(averages_, {rate, average, value, next}, next.size());
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
  struct Form {
    UpdateForm form;
    int states = 0;
    bool operator==(const Form&) const = default;
  };
  /// A delayed update() or, without `numbers`, track().
  struct DelayedUpdate {
    UpdateMemory memory;
    const UpdateParameters* numbers;
    Tracking tracking;
  };
  struct DelayedAverage {
    const float* rate;
    std::span<const float> average, value;
    std::span<float> next;
  };

  /// Within combine_updates(), delays work on `count` elements until combine_updates() ends.
  /// Otherwise issues the work at once.
  template <class Delayed>
  void delay(std::vector<Delayed>& all, const Delayed& work, size_t count) {
    if (count > 0) all.push_back(work);
    if (!combining_) issue_delayed();
  }

  /// Averages read the new values, so the device computes them after the updates.
  void issue_delayed() {
    issue_updates();
    launch_lists<AverageKernel>(averages_);
  }

  /// If `updates_` has only statistics, the kernel does not use the rule. Any form is then valid.
  void issue_updates() {
    const Form form = form_.value_or(Form{});
    with_update(form.form, form.states, [&](auto rule, auto decay) {
      launch_lists<UpdateKernel<typename decltype(rule)::type, typename decltype(decay)::type>>(
          updates_);
    });
    form_.reset();
  }

  /// Launches as few kernels as possible for the work of `all`, and clears `all`.
  template <class Kernel, class Delayed>
  void launch_lists(std::vector<Delayed>& all) {
    for (size_t first = 0; first < all.size();
         first += TensorList<typename Kernel::Tensor>::kMost) {
      Kernel kernel{};
      const size_t end = std::min(all.size(), first + TensorList<typename Kernel::Tensor>::kMost);
      for (size_t i = first; i < end; ++i)
        kernel.list.add(tensor_of<typename Kernel::Tensor>(all[i]));
      device_.launch(kernel, {.blocks = kernel.list.blocks});
    }
    all.clear();
  }

  template <class Tensor>
  static Tensor tensor_of(const DelayedUpdate& update) {
    const UpdateMemory& memory = update.memory;
    const auto& state = memory.state;
    const auto& new_state = memory.new_state;
    const ElementPartition partition =
        partition_of(memory.value.size(),
                     {memory.value.data(), memory.new_value.data(), memory.gradient.data(),
                      state[0].data(), new_state[0].data(), state[1].data(), new_state[1].data()},
                     memory.rounded.data());
    const auto values = [&](std::span<const float> old, std::span<float> next) {
      return OldAndNewValues{old.data() - partition.begin, next.data() - partition.begin};
    };
    Tensor tensor{.values = {values(memory.value, memory.new_value)},
                  .gradient = memory.gradient.data() - partition.begin,
                  .numbers = update.numbers,
                  .tracking = update.tracking,
                  .rounded = nullptr,
                  .partition = partition};
    if (!memory.rounded.empty()) tensor.rounded = memory.rounded.data() - partition.begin;
    if (update.numbers != nullptr)
      for (size_t t = 1; t < std::size(tensor.values); ++t)
        tensor.values[t] = values(state[t - 1], new_state[t - 1]);
    return tensor;
  }

  template <class Tensor>
  static Tensor tensor_of(const DelayedAverage& work) {
    const ElementPartition partition =
        partition_of(work.next.size(), {work.average.data(), work.value.data(), work.next.data()});
    return {.average = work.average.data() - partition.begin,
            .value = work.value.data() - partition.begin,
            .rate = work.rate,
            .next = work.next.data() - partition.begin,
            .partition = partition};
  }

  bool combining_ = false;    ///< within combine_updates()
  std::optional<Form> form_;  ///< of the updates in updates_
  std::vector<DelayedUpdate> updates_;
  std::vector<DelayedAverage> averages_;
  CudaDevice& device_;
  Buffer sums_;  ///< device memory for the sums of squared_norm()
};

}  // namespace

std::unique_ptr<Updater> make_cuda_updater(CudaDevice& device) {
  return std::make_unique<CudaUpdater>(device);
}

}  // namespace poseidon::layers::cuda
