#include "layers/cpu/weight_order.h"

#include <array>
#include <atomic>

#include "layers/cpu/streaming.h"
#include "layers/cpu/transpose.h"

namespace poseidon::layers::cpu {

namespace {

using poseidon::cpu::kFloat;

/// From this many elements on, the second-level cache evicts a tensor in canonical order before the
/// transport or a file writer reads the tensor.
constexpr size_t kLeavesTheCache = 1 << 18;

/// Transposes kBlock rows of kBlock floats in registers. Rows are at from(row), and `write` stores
/// columns at to(column). oneDNN 2.6's reorders take at least 1.4 times as long.
template <int kBlock, class From, class To, class Write>
[[gnu::always_inline]] inline void transpose(const From& from, const To& to, const Write& write) {
  using V = typename Vectors<kBlock>::Float;
  V rows[kBlock];
#pragma GCC unroll 16
  for (int row = 0; row < kBlock; ++row) rows[row] = load<V>(from(row));
  transpose_square(rows);
#pragma GCC unroll 16
  for (int row = 0; row < kBlock; ++row) write(to(row), rows[row]);
}

constexpr auto kIntoCaches = [](float* to, const auto& vector) { store(to, vector); };
constexpr auto kPastCaches = [](float* to, const auto& vector) { stream(to, vector); };

/// The code of kBlock outputs of a piece. In canonical order each output is a row, in which the
/// kernel positions of an input are adjacent. In packed order each kernel position of an input
/// block is a plane of [inputs][outputs]. So kBlock elements of all rows, transposed, are kBlock
/// rows of [outputs] in packed order. The rows are `strip` floats apart. kArea: number of kernel
/// positions; 0: `area` has that number.
template <int kBlock, int64_t kArea>
struct Piece {
  int64_t inputs, area, strip;

  void pack(const float* canonical, float* packed) const {
    for (int64_t first = 0; first < row(); first += kBlock)
      transpose<kBlock>([=, this](int output) { return canonical + output * row() + first; },
                        [=, this](int i) { return packed + place(first + i); }, kIntoCaches);
  }
  void unpack(const float* packed, float* canonical) const {
    unpack(packed, canonical, kIntoCaches);
  }
  void unpack_past_caches(const float* packed, float* canonical) const {
    unpack(packed, canonical, kPastCaches);
    finish_streaming();
  }

 private:
  template <class Write>
  void unpack(const float* packed, float* canonical, const Write& write) const {
    for (int64_t first = 0; first < row(); first += kBlock)
      transpose<kBlock>([=, this](int i) { return packed + place(first + i); },
                        [=, this](int output) { return canonical + output * row() + first; },
                        write);
  }
  int64_t positions() const { return kArea > 0 ? kArea : area; }
  int64_t row() const { return inputs * positions(); }
  /// The packed offset of the kBlock outputs of element `i` in a row.
  int64_t place(int64_t i) const {
    const int64_t input = i / positions(), position = i % positions();
    const int64_t block = input / kBlock * positions() + position;
    return (block * kBlock + input % kBlock) * strip;
  }
};

/// Calls `use` with the Piece for this area.
template <int kBlock, class Use>
void with_piece_of(int64_t inputs, int64_t area, int64_t strip, const Use& use) {
  if (area == 1) return use(Piece<kBlock, 1>{inputs, area, strip});
  if (area == 9) return use(Piece<kBlock, 9>{inputs, area, strip});
  return use(Piece<kBlock, 0>{inputs, area, strip});
}

}  // namespace

WeightOrder::WeightOrder(CpuDevice& device, const Dims& shape, const MemoryDesc& canonical,
                         const MemoryDesc& packed)
    : count_(packed.get_size() / sizeof(float)), blocked_(blocked(shape, packed)) {
  is_canonical_ = canonical == packed;
  if (!is_canonical_) name_.assign(reinterpret_cast<const char*>(&packed.data), sizeof packed.data);
  pack_ = PreparedReorder(device, canonical, packed);
  unpack_ = PreparedReorder(device, packed, canonical);
}

std::optional<WeightOrder::Blocked> WeightOrder::blocked(const Dims& shape,
                                                         const MemoryDesc& packed) {
  struct Known {
    FormatTag order;
    int64_t block, strip;
  };
  static constexpr std::array<Known, 2> kOfConvolutions{
      {{FormatTag::OIhw16i16o, 16, 16}, {FormatTag::OIhw8i8o, 8, 8}}};
  static constexpr std::array<Known, 2> kOfLinearLayers{
      {{FormatTag::AB16b16a, 16, 16}, {FormatTag::AB16b32a, 16, 32}}};
  if (shape.size() != 2 && shape.size() != 4) return std::nullopt;
  for (const auto& [order, block, strip] : shape.size() == 2 ? kOfLinearLayers : kOfConvolutions)
    if (shape[0] % strip == 0 && shape[1] % block == 0 &&
        packed == MemoryDesc(shape, kFloat, order))
      return Blocked{.outputs = shape[0],
                     .inputs = shape[1],
                     .area = shape.size() == 2 ? 1 : shape[2] * shape[3],
                     .block = block,
                     .strip = strip};
  return std::nullopt;
}

/// Calls use(piece, canonical offset, packed offset) for each block of outputs.
template <class Use>
void WeightOrder::Blocked::for_each_block(const Use& use) const {
  const auto use_all = [&](const auto& piece) {
    for (int64_t output = 0; output < strip; output += block)
      use(piece, output * inputs * area, output);
  };
  if (block == 16) return with_piece_of<16>(inputs, area, strip, use_all);
  return with_piece_of<8>(inputs, area, strip, use_all);
}

void WeightOrder::Blocked::pack(const float* canonical, float* packed) const {
  for_each_block([&](const auto& piece, int64_t from, int64_t to) {
    piece.pack(canonical + from, packed + to);
  });
}

void WeightOrder::Blocked::unpack(const float* packed, float* canonical) const {
  const bool past_caches =
      static_cast<size_t>(pieces() * elements()) >= kLeavesTheCache && can_stream_to(canonical);
  for_each_block([&](const auto& piece, int64_t to, int64_t from) {
    if (past_caches)
      piece.unpack_past_caches(packed + from, canonical + to);
    else
      piece.unpack(packed + from, canonical + to);
  });
}

template <class Body>
void WeightOrder::for_each_piece(ThreadTeam& team, const Body& body) const {
  for_each_item(team, blocked_->pieces(), blocked_->elements(),
                [&](int64_t piece) { body(piece * blocked_->elements()); });
}

void WeightOrder::pack(CpuDevice& device, const float* canonical, float* packed) const {
  if (!blocked_) return pack_.run(device, const_cast<float*>(canonical), packed);
  for_each_piece(device.team(),
                 [&](int64_t first) { blocked_->pack(canonical + first, packed + first); });
}

void WeightOrder::unpack(CpuDevice& device, const float* packed, float* canonical) const {
  if (!blocked_) return unpack_.run(device, const_cast<float*>(packed), canonical);
  for_each_piece(device.team(),
                 [&](int64_t first) { blocked_->unpack(packed + first, canonical + first); });
}

void WeightOrder::pack_pieces(CpuDevice& device, const float* canonical, float* memory,
                              const PieceSink& take) const {
  if (!blocked_) {
    pack(device, canonical, memory);
    return take(0, {memory, count_});
  }
  const int64_t elements = blocked_->elements(), pieces = blocked_->pieces();
  const int64_t tasks = std::clamp<int64_t>(count() / kElementsOfTask, 1,
                                            std::min<int64_t>(pieces, device.threads()));
  std::atomic<int64_t> next = 0;
  device.team().run(tasks, [&](int64_t task, int) {
    // A task packs pieces until no piece is left. It reuses the memory of one piece.
    float* piece = memory + task * elements;
    for (int64_t i = next++; i < pieces; i = next++) {
      blocked_->pack(canonical + i * elements, piece);
      take(i * elements, {piece, static_cast<size_t>(elements)});
    }
  });
}

void PackedWeightLayer::pack(int index, const float* canonical, float* packed) const {
  if (index != 0) return CpuLayer::pack(index, canonical, packed);
  order_.pack(device_, canonical, packed);
}

void PackedWeightLayer::unpack(int index, const float* packed, float* canonical) const {
  if (index != 0) return CpuLayer::unpack(index, packed, canonical);
  order_.unpack(device_, packed, canonical);
}

void PackedWeightLayer::pack_gradient(int index, const float* canonical, const Bindings& memory,
                                      const GradientSink& sink) const {
  if (index != 0) return CpuLayer::pack_gradient(index, canonical, memory, sink);
  order_.pack_pieces(device_, canonical, memory.parameters[0].gradient,
                     [&](int64_t first, std::span<const float> piece) { sink(0, first, piece); });
}

}  // namespace poseidon::layers::cpu
