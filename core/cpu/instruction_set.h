#pragma once

#include <string>

namespace poseidon::cpu {

/// "oneDNN 2.6.3 with avx512_core_vnni, own kernels for x86-64-v4": what the low bits of this
/// process's arithmetic depend on, beside the build and the number of threads. oneDNN may use less
/// than the processor has, as isa() and its variable ONEDNN_MAX_CPU_ISA say.
std::string instruction_set();

/// Whether oneDNN may multiply bf16 by instructions for it (AVX512-BF16, AMX).
bool has_bf16_products();

/// Has oneDNN use no more than isa(). Counts when it is called before any other call of oneDNN.
void limit_onednn();

}  // namespace poseidon::cpu
