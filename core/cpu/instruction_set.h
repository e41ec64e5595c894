#pragma once

#include <string>

namespace poseidon::cpu {

/// The version of oneDNN, and the instruction sets of oneDNN and of Poseidon's kernels: "oneDNN
/// 2.6.3 with avx512_core_vnni, own kernels for x86-64-v4". Together with the build and the number
/// of threads, they determine the low bits of results. isa() and the environment variable
/// ONEDNN_MAX_CPU_ISA may limit oneDNN to less than the processor supports.
std::string instruction_set();

/// Whether oneDNN may use instructions for bf16 products (AVX512-BF16, AMX).
bool has_bf16_products();
/// Whether oneDNN may use AMX instructions for bf16 products. Then this process may use them too,
/// because oneDNN has requested the kernel's permission for their registers.
bool has_amx_products();

/// Limits oneDNN to isa(). Effective only before all other calls of oneDNN.
void limit_onednn();

}  // namespace poseidon::cpu
