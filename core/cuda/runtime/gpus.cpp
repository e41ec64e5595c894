#include "core/cuda/runtime/gpus.h"

#include <algorithm>
#include <map>

#include "core/counted.h"
#include "core/cuda/runtime/call.h"
#include "core/name_list.h"

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

std::string capability_text(int capability) { return text(capability / 10, ".", capability % 10); }

/// A GPU runs code of its generation (capability / 10) and of the same or a lower capability. For
/// later GPUs, the build contains PTX of the last architecture.
bool has_code_for(int capability, std::span<const int> architectures) {
  if (capability >= architectures.back()) return true;
  return std::ranges::any_of(
      architectures, [&](int code) { return code / 10 == capability / 10 && code <= capability; });
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

void expect_code_for(int index, std::span<const int> architectures) {
  const Gpu gpu = gpu_at(index);
  const int capability = 10 * gpu.major + gpu.minor;
  if (has_code_for(capability, architectures)) return;
  std::vector<std::string> codes;
  for (const int code : architectures) codes.push_back(capability_text(code));
  throw ConfigError(text("GPU ", index, ", ", gpu.name, ", has compute capability ",
                         capability_text(capability), ", but this build has code for ",
                         name_list(codes), " and later GPUs"));
}

}  // namespace poseidon::cuda
