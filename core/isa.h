#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// The instruction sets that own kernels are compiled for, and the one that this process uses.
namespace poseidon {

enum class Isa : uint8_t {
  kNative,  ///< what the compiler was told (POSEIDON_ARCH), or its baseline where that is all
  kX86V2,   ///< the levels of the x86-64 ABI: SSE4.2,
  kX86V3,   ///< AVX2 with FMA,
  kX86V4,   ///< AVX-512
};

/// "x86-64-v3".
std::string_view name_of(Isa isa);
/// Those that this build has kernels for, the least first.
const std::vector<Isa>& built_isas();

/// The one that this process uses: unless another was chosen, the best that the processor has.
/// Throws RunError where it has none of those that were built.
Isa isa();
/// Has this process use that of this name. Comes before anything is computed, and before there are
/// other threads. Throws ConfigError for one that is unknown, was not built, or that the processor
/// lacks.
void choose_isa(std::string_view name);
/// Whether isa() is the processor's best, so that nothing is withheld.
bool isa_is_best();

/// Whether carry-less products of 512 bits may be used (AVX-512 with VPCLMULQDQ, which no level
/// has).
bool has_wide_carryless();
/// For functions that only run where it says so.
#define POSEIDON_WIDE_CARRYLESS [[gnu::target("avx512f,avx512bw,vpclmulqdq")]]

}  // namespace poseidon
