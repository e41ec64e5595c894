#include "layers/concat.h"

#include <algorithm>
#include <bit>

#include "layers/cuda/map.cuh"

namespace poseidon::layers::cuda {

namespace {

/// What a thread copies at once.
template <size_t kBytes>
struct alignas(kBytes) CopyUnit {
  std::byte bytes[kBytes];
};

/// So many inputs are joined, or split, by one kernel.
constexpr size_t kPartsAtOnce = 8;

/// One input or its gradient, a row for each position, and where it lies in the rows of the whole.
struct ConcatPart {
  std::byte* data = nullptr;    ///< null: not wanted
  uint32_t begin = 0, end = 0;  ///< bytes of a row of the whole
};

enum class ConcatDirection : uint8_t { kJoin, kSplit };

/// Copies between some neighbouring parts and the whole; a thread has a unit of the whole.
template <size_t kBytes, ConcatDirection kDirection>
struct ConcatKernel {
  static constexpr const char* kName = kDirection == ConcatDirection::kJoin ? "join" : "split";
  static constexpr uint32_t kThreads = 256;

  std::byte* whole;
  int64_t rows;
  uint32_t row_bytes;  ///< of the whole
  uint32_t parts;
  ConcatPart part[kPartsAtOnce];

  uint32_t first() const { return part[0].begin; }
  uint32_t units() const { return (part[parts - 1].end - first()) / kBytes; }

  void visit(MemoryVisitor& visitor) const {
    const auto all = std::span(part).first(parts);
    for (const ConcatPart& p : all)
      if (p.data != nullptr)
        visit_one(visitor, p.data, static_cast<size_t>(rows) * (p.end - p.begin),
                  kDirection == ConcatDirection::kSplit);
    const bool whole_rows =
        units() * kBytes == row_bytes &&
        std::ranges::all_of(all, [](const auto& p) { return p.data != nullptr; });
    if (whole_rows) {
      visit_one(visitor, whole, static_cast<size_t>(rows) * row_bytes,
                kDirection == ConcatDirection::kJoin);
      return;
    }
    for (const ConcatPart& p : all)
      for (int64_t row = 0; row < rows && p.data != nullptr; ++row)
        visit_one(visitor, whole + row * row_bytes + p.begin, p.end - p.begin,
                  kDirection == ConcatDirection::kJoin);
  }

  POSEIDON_DEVICE void operator()(const Thread& thread) const {
    const uint32_t across = (part[parts - 1].end - part[0].begin) / kBytes;
    const int64_t index = int64_t{thread.block()} * kThreads + thread.thread();
    if (index >= rows * across) return;
    const uint32_t row = static_cast<uint32_t>(index) / across;
    const uint32_t column =
        part[0].begin + static_cast<uint32_t>(index) % across * static_cast<uint32_t>(kBytes);
    ConcatPart mine = part[0];
    for (uint32_t k = 1; k < parts; ++k)
      if (column >= part[k].begin) mine = part[k];
    if (mine.data == nullptr) return;
    auto* there = as_unit(whole + int64_t{row} * row_bytes + column);
    auto* here = as_unit(mine.data + int64_t{row} * (mine.end - mine.begin) + column - mine.begin);
    if constexpr (kDirection == ConcatDirection::kJoin)
      *there = *here;
    else
      *here = *there;
  }

 private:
  static void visit_one(MemoryVisitor& visitor, const std::byte* data, size_t bytes, bool write) {
    if (write)
      visitor.writes(data, bytes);
    else
      visitor.reads(data, bytes);
  }
  POSEIDON_DEVICE static CopyUnit<kBytes>* as_unit(std::byte* data) {
    return reinterpret_cast<CopyUnit<kBytes>*>(data);
  }
};

/// The widest unit that the row and all parts of it are made of.
size_t unit_bytes(std::span<const ConcatPart> parts, size_t row_bytes) {
  size_t all = row_bytes | poseidon::cuda::kPackBytes;
  for (const ConcatPart& part : parts) all |= part.begin | part.end;
  return size_t{1} << std::countr_zero(all);
}

template <class Use>
void with_copy_unit_of(size_t bytes, const Use& use) {
  switch (bytes) {
    case 16: return use(std::integral_constant<size_t, 16>{});
    case 8: return use(std::integral_constant<size_t, 8>{});
    case 4: return use(std::integral_constant<size_t, 4>{});
    default: return use(std::integral_constant<size_t, 2>{});
  }
}

class CudaConcat final : public CudaLayer {
 public:
  CudaConcat(const LayerRequest& request, CudaDevice& device) : CudaLayer(request, device) {}

  void forward(const StepContext&, const Bindings& memory) override {
    copy<ConcatDirection::kJoin>(memory.inputs, memory.output);
  }

  void backward(const StepContext&, const Bindings& memory) override {
    if (std::ranges::none_of(memory.input_gradients, &Tensor::operator bool)) return;
    copy<ConcatDirection::kSplit>(memory.input_gradients,
                                  combined_gradient(device_, memory, std::nullopt));
  }

 private:
  template <ConcatDirection kDirection>
  void copy(const std::vector<Tensor>& tensors, const Tensor& whole) {
    const auto bytes = [&](const Tensor& t) {
      return static_cast<uint32_t>(t.shape.channels()) *
             static_cast<uint32_t>(bytes_of(whole.format.type));
    };
    std::vector<ConcatPart> parts;
    uint32_t column = 0;
    for (const Tensor& tensor : tensors) {
      parts.push_back({tensor.as<std::byte>(), column, column + bytes(tensor)});
      column = parts.back().end;
    }
    with_copy_unit_of(unit_bytes(parts, bytes(whole)), [&](auto unit) {
      for (size_t done = 0; done < parts.size(); done += kPartsAtOnce) {
        const size_t some = std::min(kPartsAtOnce, parts.size() - done);
        ConcatKernel<unit, kDirection> kernel{.whole = whole.as<std::byte>(),
                                              .rows = whole.shape.samples() * whole.shape.area(),
                                              .row_bytes = bytes(whole),
                                              .parts = static_cast<uint32_t>(some),
                                              .part = {}};
        std::copy_n(parts.begin() + static_cast<ptrdiff_t>(done), some, kernel.part);
        device_.launch_for(kernel.rows * kernel.units(), kernel);
      }
    });
  }
};

}  // namespace

std::unique_ptr<Layer> make_concat(const LayerRequest& request, const Making& making) {
  return std::make_unique<CudaConcat>(request, making.device);
}

}  // namespace poseidon::layers::cuda
