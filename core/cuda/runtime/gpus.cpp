#include "core/cuda/runtime/gpus.h"

#include <map>

#include "core/counted.h"
#include "core/cuda/runtime/call.h"

namespace poseidon::cuda {

namespace {

/// CUDA encodes versions as 1000 * major + 10 * minor.
std::string version_text(int version) { return text(version / 1000, ".", version % 1000 / 10); }

int driver_version() {
  int version = 0;  // stays 0 if there is no driver
  check_call(cudaDriverGetVersion(&version), "cudaDriverGetVersion");
  return version;
}

std::string why_no_gpus(cudaError_t error, int driver) {
  if (driver == 0) return "this machine has no NVIDIA driver";
  if (error == cudaErrorInsufficientDriver)
    return text("this machine's NVIDIA driver is too old: expected one for CUDA ",
                version_text(CUDART_VERSION), " or newer, got one for CUDA ", version_text(driver));
  if (error == cudaErrorNoDevice) return "this machine has no visible NVIDIA GPU";
  return "this machine's GPUs cannot be used: " + text_of(error);
}

int count_of_gpus() {
  int count = 0;
  const int driver = driver_version();
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) throw ConfigError(why_no_gpus(error, driver));
  if (count == 0) throw ConfigError(why_no_gpus(cudaErrorNoDevice, driver));
  return count;
}

Gpu gpu_at(int index) {
  cudaDeviceProp properties{};
  check_call(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
  return {.name = properties.name,
          .memory_bytes = properties.totalGlobalMem,
          .major = properties.major,
          .minor = properties.minor};
}

/// The mutexes live as long as the process: memory of a GPU may be freed at the end of the process.
std::recursive_mutex& mutex_of(int gpu) {
  static auto* const mutexes_mutex = new std::mutex;
  static auto* const mutexes = new std::map<int, std::recursive_mutex>;
  const std::lock_guard lock(*mutexes_mutex);
  return (*mutexes)[gpu];
}

}  // namespace

GpuLock::GpuLock(int gpu) : lock_(mutex_of(gpu)) {}

GpuList list_gpus() {
  GpuList list{.gpus = {},
               .driver = version_text(driver_version()),
               .runtime = version_text(CUDART_VERSION),
               .libraries = {}};
  const int count = count_of_gpus();
  for (int i = 0; i < count; ++i) list.gpus.push_back(gpu_at(i));
  return list;
}

void use_gpu(int index) {
  const int count = count_of_gpus();
  if (index < 0 || index >= count)
    throw ConfigError(text("GPU ", index, ": this machine has ",
                           counted(static_cast<size_t>(count), "GPU"), ", counted from 0"));
  if (const cudaError_t error = cudaSetDevice(index); error != cudaSuccess)
    throw ConfigError(text("GPU ", index, " cannot be used: cudaSetDevice: ", text_of(error)));
}

}  // namespace poseidon::cuda
