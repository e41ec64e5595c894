#pragma once

#include <string>

namespace poseidon::cpu {

/// "oneDNN 2.6.3 with avx512_core_vnni, own kernels for AVX-512": what the low bits of this
/// process's arithmetic depend on, beside the build and the number of threads. oneDNN may use less
/// than the processor has, as its variable ONEDNN_MAX_CPU_ISA says.
std::string instruction_set();

}  // namespace poseidon::cpu
