#pragma once

#include <array>
#include <cstdint>

#include "core/bf16.h"
#include "layers/cpu/vectors.h"

/// Poseidon's own product of bf16 matrices with fp32 sums, C = A B or C += A B. It uses the
/// processor's bf16 instructions: AMX, or else AVX512-BF16. Both multiply pairs of neighbors along
/// the summed index, and round by the rules of the processor's maker. So the bits of a sum depend
/// on the instructions, but not on the number of threads or on the size of tasks.
///
/// The caller copies pieces of A and B to panels, which stay in the caches.
namespace poseidon::layers::cpu::product {

/// Rows of a block of sums, and the unit of the depth. Elements beyond the depth must be zero, up
/// to the next multiple of the unit. Rows beyond those of a product may have any value.
inline constexpr int64_t kRowsOfBf16 = 32, kUnitOfBf16 = 32;

/// Whether this code is compiled for AVX-512, and the processor has bf16 instructions. If not, the
/// other declarations of this file have no definitions.
bool has_bf16_product();

/// Rows of A, `step` elements apart. Unit u of the depth, kUnitOfBf16 elements, begins at
/// offsets[u] in each row.
struct Bf16Rows {
  const Bf16* data;
  int64_t step;
  const int64_t* offsets;
};

/// Offsets of contiguous units.
inline constexpr auto kContiguousUnits = [] {
  std::array<int64_t, 16> offsets{};
  for (size_t i = 0; i < offsets.size(); ++i) offsets[i] = static_cast<int64_t>(i) * kUnitOfBf16;
  return offsets;
}();

/// A panel of B: vectors of kLanesOfBlock columns, `step` elements apart, as [depth /
/// 2][column][2].
struct Bf16Panel {
  const Bf16* data;
  int64_t step;
};

/// Sums in memory, as [row][column] with rows `step` floats apart.
struct Bf16Sums {
  float* data;
  int64_t step;
  bool add;  ///< add to the sums in memory
};

/// Interleaves two rows of kLanesOfBlock elements, as a panel of B requires.
void interleave(const Bf16* first, const Bf16* second, Bf16* to);
/// Rounds a matrix [row][kLanesOfBlock] to bf16, and interleaves pairs of rows. A missing last row
/// is zero, as are rows up to the next multiple of kUnitOfBf16.
void interleave_rounded(const float* rows, int64_t count, Bf16* to);

/// Multiplies blocks in one thread. The processor's tile registers are in use as long as the object
/// exists.
class Bf16Multiplier {
 public:
  Bf16Multiplier();
  ~Bf16Multiplier();
  Bf16Multiplier(const Bf16Multiplier&) = delete;
  Bf16Multiplier& operator=(const Bf16Multiplier&) = delete;

  /// Computes at most kRowsOfBf16 rows and two vectors of columns. Reads and writes whole
  /// multiples of 16 rows.
  void multiply(Bf16Rows a, int64_t rows, Bf16Panel b, int64_t vectors, int64_t units,
                Bf16Sums c) const;

 private:
  bool uses_tiles_;
};

/// Copies a matrix [count][kLanesOfBlock] to its transpose, with rows `step` elements apart.
/// `count` is a multiple of kUnitOfBf16.
void transpose_bf16(const Bf16* rows, int64_t count, Bf16* to, int64_t step);

}  // namespace poseidon::layers::cpu::product
