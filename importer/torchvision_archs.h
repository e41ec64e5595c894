#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace poseidon::importer {

/// A layer with tensors: its names in Poseidon and in torchvision.
struct LayerPair {
  std::string poseidon_name, torchvision_name;
};

/// A network that torchvision also provides.
struct TorchvisionArch {
  std::string_view name;     ///< torchvision.models.NAME
  std::string_view network;  ///< name of the equal network in configs/networks
  /// Epsilon of its batch norms, whose momentum is kBatchNormMomentum; 0: it has no batch norms.
  double epsilon = 0;
  /// torchvision resizes the shorter side to this length before the crop.
  int64_t resize_short = 256;
  /// Normalization of pixels of 0 to 255 that its trained weights expect.
  std::array<double, 3> mean, deviation;
  /// Returns the layers in the order of torchvision's state dict.
  std::vector<LayerPair> (*layers)();
};

inline constexpr double kBatchNormMomentum = 0.1;

/// All known networks, in alphabetical order.
const std::vector<TorchvisionArch>& torchvision_archs();
/// Throws ConfigError that lists the known names.
const TorchvisionArch& torchvision_arch(const std::string& name);
/// Finds a network by the name of the Poseidon network. Throws ConfigError that lists the known
/// names.
const TorchvisionArch& torchvision_arch_of(const std::string& network);

}  // namespace poseidon::importer
