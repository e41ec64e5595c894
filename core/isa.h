#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// The instruction sets for which this build contains kernels, and the one that this process uses.
namespace poseidon {

enum class Isa : uint8_t {
  kNative,  ///< one target for all code: POSEIDON_ARCH, or the compiler's default
  kX86V2,   ///< level x86-64-v2 of the ABI: SSE4.2
  kX86V3,   ///< level x86-64-v3: AVX2 with FMA
  kX86V4,   ///< level x86-64-v4: AVX-512
};

/// The name of an instruction set, such as "x86-64-v3".
std::string_view name_of(Isa isa);
/// The instruction sets for which this build contains kernels, lowest level first.
const std::vector<Isa>& built_isas();

/// The instruction set of this process: the one that choose_isa() selected, or the best one that
/// the processor supports. Throws RunError if the processor supports none of built_isas().
Isa isa();
/// Selects the instruction set by name. Must precede all computation and the start of other
/// threads. Throws ConfigError if the name is unknown, not in this build, or not supported by the
/// processor.
void choose_isa(std::string_view name);
/// Whether isa() is the best instruction set of this build that the processor supports.
bool isa_is_best();

/// Whether the kernels for isa() round a product and a sum only once.
bool has_fused_multiply_add();

/// Whether the processor has 512-bit carry-less multiplication, and isa() permits AVX-512. Requires
/// VPCLMULQDQ, which is in none of the x86-64 levels.
bool has_wide_carryless();
/// Marks functions that run only if has_wide_carryless() is true.
#define POSEIDON_WIDE_CARRYLESS [[gnu::target("avx512f,avx512bw,vpclmulqdq")]]

}  // namespace poseidon
