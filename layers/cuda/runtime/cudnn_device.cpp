#include "layers/cuda/runtime/cudnn_device.h"

#include <cuda_runtime_api.h>
#include <cudnn_frontend.h>

#include "core/cuda/runtime/gpus.h"
#include "core/error.h"

namespace poseidon::layers::cuda {

namespace {

std::shared_ptr<cudnnContext> make_handle(int device, const std::string& name) {
  cudnnHandle_t handle = nullptr;
  const cudnnStatus_t status = cudnnCreate(&handle);
  if (status != CUDNN_STATUS_SUCCESS)
    throw RunError(
        text("cuDNN ", cudnn_version(), " cannot use ", name, ": ", cudnnGetErrorString(status)));
  return poseidon::cuda::library_object(device, handle, cudnnDestroy);
}

}  // namespace

CudnnDevice CudnnDevice::running(int device) {
  cudaDeviceProp found{};
  if (const cudaError_t status = cudaGetDeviceProperties(&found, device); status != cudaSuccess)
    throw RunError(text("GPU ", device, " cannot be used: ", cudaGetErrorString(status)));
  auto properties = std::make_shared<cudnn_frontend::DeviceProperties>();
  if (auto status = properties->set_device_id(device).build(); status.is_bad())
    throw RunError(text("cuDNN ", cudnn_version(), " cannot describe GPU ", device, ", ",
                        found.name, ": ", status.get_message()));
  return {found.name, std::move(properties), make_handle(device, found.name)};
}

CudnnDevice CudnnDevice::described(const std::string& name, const std::string& properties) {
  auto described = std::make_shared<cudnn_frontend::DeviceProperties>();
  auto status = described->deserialize({properties.begin(), properties.end()});
  if (status.is_bad())
    throw ConfigError(text("cuDNN ", cudnn_version(), " rejects these properties of ", name, ": ",
                           properties, ": ", status.get_message()));
  return {name, std::move(described), nullptr};
}

std::string CudnnDevice::properties_json() const {
  std::vector<uint8_t> json;
  if (auto status = properties_->serialize(json); status.is_bad())
    throw RunError(text("cuDNN ", cudnn_version(), " cannot report the properties of ", name_, ": ",
                        status.get_message()));
  return {json.begin(), json.end()};
}

std::string cudnn_version() {
  const size_t version = cudnnGetVersion();
  return text(version / 10000, ".", version / 100 % 100, ".", version % 100);
}

}  // namespace poseidon::layers::cuda
