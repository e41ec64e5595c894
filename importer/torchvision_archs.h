#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace poseidon::importer {

/// A layer with tensors: its name in Poseidon, and its name in torchvision.
struct LayerPair {
  std::string poseidon_name, torchvision_name;
};

/// A network that torchvision also provides.
struct TorchvisionArch {
  std::string_view name;     ///< name in torchvision.models; "-plain": no auxiliary heads
  std::string_view network;  ///< name of the equal network in configs/networks
  /// Epsilon of torchvision's batch norms; 0: the network has no batch norms. Their momentum is
  /// kBatchNormMomentum.
  double epsilon = 0;
  /// Before the crop, torchvision resizes the shorter side of an image to this length in pixels.
  int64_t resize_short = 256;
  /// Normalization that torchvision's trained weights expect, for pixels of 0 to 255, by channel.
  std::array<double, 3> mean, deviation;
  /// Returns the layers in the order of torchvision's state dict.
  std::vector<LayerPair> (*layers)();
};

inline constexpr double kBatchNormMomentum = 0.1;

/// All known networks, in alphabetical order.
const std::vector<TorchvisionArch>& torchvision_archs();
/// Finds a network by TorchvisionArch::name. Throws ConfigError that lists the known names.
const TorchvisionArch& torchvision_arch(const std::string& name);
/// Finds a network by TorchvisionArch::network. Throws ConfigError that lists every
/// TorchvisionArch::name.
const TorchvisionArch& torchvision_arch_of(const std::string& network);

}  // namespace poseidon::importer
