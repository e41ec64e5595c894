#include "tests/cuda_plans/gpus.h"

#include "core/json.h"

namespace poseidon::test {

namespace {

struct Gpu {
  const char* name;
  int version;  ///< 100 major + 10 minor
  int multiprocessors;
  int64_t shared_memory;  ///< limit per block, bytes
  int64_t memory, l2_cache;
  int64_t clock_khz, memory_clock_khz;
};

constexpr Gpu kGpus[] = {
    {"H200", 900, 132, 232448, 150754820096, 62914560, 1980000, 3201000},
    {"A100", 800, 108, 166912, 85097971712, 41943040, 1410000, 1593000},
    {"B200", 1000, 148, 232448, 191514705920, 132644864, 1965000, 3996000},
};

Json properties_of(const Gpu& gpu) {
  return {{"deviceVer", gpu.version},
          {"deviceName", std::string("NVIDIA ") + gpu.name},
          {"multiProcessorCount", gpu.multiprocessors},
          {"warpSize", 32},
          {"maxSharedMemoryPerBlock", 49152},
          {"maxSharedMemoryPerBlockOptin", gpu.shared_memory},
          {"reservedSharedMemoryPerBlock", 1024},
          {"maxRegistersPerSM", 65536},
          {"regsPerBlock", 65536},
          {"maxCtasPerSM", 32},
          {"maxThreadsPerBlock", 1024},
          {"maxThreadsPerSM", 2048},
          {"maxBlockSize", {1024, 1024, 64}},
          {"maxGridSize", {2147483647, 65535, 65535}},
          {"totalGlobalMem", gpu.memory},
          {"l2CacheSize", gpu.l2_cache},
          {"smClockRateKHz", gpu.clock_khz},
          {"memClockRateKHz", gpu.memory_clock_khz},
          {"supportCoopLaunch", 1},
          {"pciDeviceId", 0},
          {"isTccDriver", 0},
          {"cudaDeviceId", 0},
          {"driverVer", 13000}};
}

}  // namespace

std::vector<layers::cuda::CudnnDevice> described_gpus() {
  std::vector<layers::cuda::CudnnDevice> devices;
  for (const Gpu& gpu : kGpus)
    devices.push_back(layers::cuda::CudnnDevice::described(gpu.name, properties_of(gpu).dump()));
  return devices;
}

}  // namespace poseidon::test
