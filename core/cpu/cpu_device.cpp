#include "core/cpu/cpu_device.h"

#include <omp.h>

#include <algorithm>

#include "core/cores.h"
#include "core/cpu/instruction_set.h"
#include "core/isa.h"

namespace poseidon::cpu {

namespace {

bool has_avx512() {
#if defined(__x86_64__)
  return isa() == Isa::kX86V4 || (isa() == Isa::kNative && __builtin_cpu_supports("avx512f") != 0);
#else
  return false;
#endif
}

/// limit_onednn() must precede all other oneDNN calls.
dnnl::engine make_engine() {
  limit_onednn();
  return {dnnl::engine::kind::cpu, 0};
}

}  // namespace

CpuDevice::CpuDevice(int threads, DataType activations)
    : team_(threads > 0 ? threads : available_cores()),
      engine_(make_engine()),
      stream_(engine_),
      blocked_(has_avx512() ? Layout::kBlocked16 : Layout::kBlocked8),
      activations_(activations) {
  omp_set_num_threads(1);
}

void CpuDevice::copy(std::span<const std::byte> from, std::span<std::byte> to) {
  std::ranges::copy(from, to.begin());
}

void CpuDevice::write(std::span<const std::byte> host, std::span<std::byte> to) {
  std::ranges::copy(host, to.begin());
}

}  // namespace poseidon::cpu
