#include "layers/cpu/cell_pairs.h"

#ifdef __AVX512F__

#include <algorithm>

#include "layers/cpu/portions.h"

namespace poseidon::layers::cpu::product {

namespace {

constexpr int64_t kLanesOfPair = kLanesOfBlock, kColumnsOfPatchStrip = 2 * kLanesOfPair;
constexpr int64_t kElementsOfPairs = 128 << 10, kLeastPositions = 256, kMostPositions = 2048;

}  // namespace

int64_t PatchStrip::vectors() const { return divide_up(end - begin, kLanesOfPair); }

CellPairs::CellPairs(const PaddedCells& padded) : padded_(padded) {
  for (const AdjacentColumns& run : padded_.adjacent()) {
    const int64_t shift = run.offset / padded_.cell();
    for (int64_t begin = run.begin; begin < run.end; begin += kColumnsOfPatchStrip)
      strips_.push_back({.begin = begin,
                         .end = std::min(begin + kColumnsOfPatchStrip, run.end),
                         .shift = shift,
                         .vector = (begin - run.begin) / kLanesOfPair});
    vectors_ = std::max(vectors_, divide_up(run.end - run.begin, kLanesOfPair));
    last_shift_ = std::max(last_shift_, shift);
  }
  positions_ =
      std::clamp(kElementsOfPairs / (2 * vectors_ * kLanesOfPair), kLeastPositions, kMostPositions);
}

/// Elements of one vector of columns, in one of the two alignments.
int64_t CellPairs::elements_of_vector() const {
  return divide_up(positions_ + kUnitOfBf16 + last_shift_, 2) * 2 * kLanesOfPair;
}

void CellPairs::copy(const Bf16* source, const PlaceRange& block, Bf16* memory) const {
  Bf16* window = memory + 2 * vectors_ * elements_of_vector();
  const int64_t step = padded_.cell();
  padded_.copy(source, block.place, block.places + kUnitOfBf16 + 2, window);
  const int64_t pairs = divide_up(block.places + kUnitOfBf16 + last_shift_, 2);
  for (int64_t v = 0; v < vectors_; ++v)
    for (int64_t parity = 0; parity < 2; ++parity) {
      const Bf16* cell = window + parity * step + v * kLanesOfPair;
      Bf16* to = memory + (2 * v + parity) * elements_of_vector();
      for (int64_t pair = 0; pair < pairs; ++pair, cell += 2 * step, to += 2 * kLanesOfPair)
        interleave(cell, cell + step, to);
    }
}

Bf16Panel CellPairs::panel(const Bf16* memory, int64_t position, const PatchStrip& strip) const {
  const int64_t cell = strip.shift + position;
  return {
      memory + (2 * strip.vector + cell % 2) * elements_of_vector() + cell / 2 * 2 * kLanesOfPair,
      2 * elements_of_vector()};
}

}  // namespace poseidon::layers::cpu::product

#endif
