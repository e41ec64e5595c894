#pragma once

#include <memory>
#include <string>

struct cudnnContext;
namespace cudnn_frontend {
class DeviceProperties;
}

namespace poseidon::layers::cuda {

/// A GPU as cuDNN knows it: what it plans for, and, where it is the machine's, what runs the plans.
class CudnnDevice {
 public:
  /// The GPU of this number, which must be the current one. Throws RunError.
  static CudnnDevice running(int device);
  /// A GPU that need not be here: plans for it can be made, but not run. `properties` is JSON of
  /// cuDNN's own keys, as CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION gives it. Throws ConfigError.
  static CudnnDevice described(const std::string& name, const std::string& properties);

  const std::string& name() const { return name_; }
  const std::shared_ptr<const cudnn_frontend::DeviceProperties>& properties() const {
    return properties_;
  }
  /// Null where plans cannot be run.
  const std::shared_ptr<cudnnContext>& handle() const { return handle_; }

  /// The properties as JSON, of which `described` makes the same device anywhere. Throws RunError.
  std::string properties_json() const;

 private:
  CudnnDevice(std::string name, std::shared_ptr<const cudnn_frontend::DeviceProperties> properties,
              std::shared_ptr<cudnnContext> handle)
      : name_(std::move(name)), properties_(std::move(properties)), handle_(std::move(handle)) {}

  std::string name_;
  std::shared_ptr<const cudnn_frontend::DeviceProperties> properties_;
  std::shared_ptr<cudnnContext> handle_;
};

/// "9.19.0", of the library that is loaded.
std::string cudnn_version();

}  // namespace poseidon::layers::cuda
