#include "core/cpu/instruction_set.h"

#include <array>
#include <dnnl.hpp>
#include <utility>

#include "core/error.h"
#include "core/isa.h"

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

}  // namespace

void limit_onednn() {
  if (isa() == Isa::kX86V3) dnnl::set_max_cpu_isa(cpu_isa::avx2);
  if (isa() == Isa::kX86V2) dnnl::set_max_cpu_isa(cpu_isa::sse41);
}

bool has_bf16_products() {
  limit_onednn();
  const cpu_isa isa = dnnl::get_effective_cpu_isa();
  return isa == cpu_isa::avx512_core_bf16 || isa == cpu_isa::avx512_core_amx;
}

bool has_amx_products() {
  limit_onednn();
  return dnnl::get_effective_cpu_isa() == cpu_isa::avx512_core_amx;
}

std::string instruction_set() {
  limit_onednn();
  const dnnl_version_t& version = *dnnl::version();
  return text("oneDNN ", version.major, ".", version.minor, ".", version.patch, " with ",
              name_of(dnnl::get_effective_cpu_isa()), ", own kernels for ", name_of(isa()));
}

}  // namespace poseidon::cpu
