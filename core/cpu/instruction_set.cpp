#include "core/cpu/instruction_set.h"

#include <array>
#include <dnnl.hpp>
#include <utility>

#include "core/error.h"

namespace poseidon::cpu {

namespace {

using dnnl::cpu_isa;

std::string name_of(cpu_isa isa) {
  constexpr std::array<std::pair<cpu_isa, const char*>, 8> kNames{
      {{cpu_isa::sse41, "sse41"},
       {cpu_isa::avx, "avx"},
       {cpu_isa::avx2, "avx2"},
       {cpu_isa::avx2_vnni, "avx2_vnni"},
       {cpu_isa::avx512_core, "avx512_core"},
       {cpu_isa::avx512_core_vnni, "avx512_core_vnni"},
       {cpu_isa::avx512_core_bf16, "avx512_core_bf16"},
       {cpu_isa::avx512_core_amx, "avx512_core_amx"}}};
  for (const auto& [known, name] : kNames)
    if (known == isa) return name;
  return text("instruction set ", static_cast<int>(isa));
}

/// Kernels of the project are for what the compiler was told.
constexpr const char* kOwnKernels =
#if defined(__AVX512F__)
    "AVX-512";
#elif defined(__AVX2__)
    "AVX2";
#else
    "any x86-64";
#endif

}  // namespace

std::string instruction_set() {
  const dnnl_version_t& version = *dnnl::version();
  return text("oneDNN ", version.major, ".", version.minor, ".", version.patch, " with ",
              name_of(dnnl::get_effective_cpu_isa()), ", own kernels for ", kOwnKernels);
}

}  // namespace poseidon::cpu
