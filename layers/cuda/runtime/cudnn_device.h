#pragma once

#include <memory>
#include <string>

struct cudnnContext;
namespace cudnn_frontend {
class DeviceProperties;
}

namespace poseidon::layers::cuda {

/// A GPU, described by the properties from which cuDNN makes plans. A device from running()
/// also has a cuDNN handle, which runs the plans.
class CudnnDevice {
 public:
  /// The GPU with this index, which must be the current one. Throws RunError if it cannot be used.
  static CudnnDevice running(int device);
  /// A GPU that the machine may lack. cuDNN can make plans for it, but cannot run them.
  /// `properties` is JSON with cuDNN's keys (CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION). Throws
  /// ConfigError if cuDNN rejects the properties.
  static CudnnDevice described(const std::string& name, const std::string& properties);

  const std::string& name() const { return name_; }
  const std::shared_ptr<const cudnn_frontend::DeviceProperties>& properties() const {
    return properties_;
  }
  /// Null for a device from described().
  const std::shared_ptr<cudnnContext>& handle() const { return handle_; }

  /// The properties as JSON, the second argument of described(). Throws RunError if cuDNN cannot
  /// report them.
  std::string properties_json() const;

 private:
  CudnnDevice(std::string name, std::shared_ptr<const cudnn_frontend::DeviceProperties> properties,
              std::shared_ptr<cudnnContext> handle)
      : name_(std::move(name)), properties_(std::move(properties)), handle_(std::move(handle)) {}

  std::string name_;
  std::shared_ptr<const cudnn_frontend::DeviceProperties> properties_;
  std::shared_ptr<cudnnContext> handle_;
};

/// The version of the loaded library: "9.19.0".
std::string cudnn_version();

}  // namespace poseidon::layers::cuda
