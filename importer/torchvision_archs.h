#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace poseidon::importer {

/// A layer that has tensors, by its name here and by that of torchvision's module.
struct LayerPair {
  std::string ours, theirs;
};

/// A network that torchvision has too.
struct TorchvisionArch {
  std::string_view name;     ///< torchvision.models.NAME
  std::string_view network;  ///< the same of configs/networks, by the name of its own
  /// Of its batch norms, which move their statistics by 0.1 (kBatchNormMomentum); 0: it has none.
  double epsilon = 0;
  int64_t resize_short = 256;  ///< what torchvision resizes a photograph to before it crops
  /// What makes of pixels from 0 to 255 what its trained weights want.
  std::array<double, 3> mean, deviation;
  /// In the order of torchvision's state dict.
  std::vector<LayerPair> (*layers)();
};

inline constexpr double kBatchNormMomentum = 0.1;

/// In alphabetical order.
const std::vector<TorchvisionArch>& torchvision_archs();
/// Throws ConfigError that names those there are.
const TorchvisionArch& torchvision_arch(const std::string& name);
/// By the name of a network of ours. Throws ConfigError that names those there are.
const TorchvisionArch& torchvision_arch_of(const std::string& network);

}  // namespace poseidon::importer
