#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/log.h"
#include "net/network.h"
#include "trainer/state/safetensors.h"

namespace poseidon::exporter {

/// A network and the file with its trained tensors.
class TrainedWeights {
 public:
  /// `source` is a run directory (its newest checkpoint is used), a checkpoint file, a folder
  /// written by poseidon-import, or a weights file. `network` is the network file; "": network.json
  /// in the run directory or the folder of the weights file. Throws ConfigError if a file is
  /// missing, or if the tensors in the weights file are not exactly those of the network.
  TrainedWeights(const std::filesystem::path& source, const std::filesystem::path& network,
                 Log& log);

  /// Returns the network, created for a batch of one sample.
  const net::Network& network() const { return *network_; }
  const trainer::SafetensorsFile& file() const { return *file_; }
  /// The number of completed steps; none: the weights are not from a checkpoint.
  std::optional<int64_t> step() const { return step_; }
  /// Reads a tensor by its name in weights files, such as "conv1.weight".
  std::vector<float> read(const std::string& tensor) const;

 private:
  std::filesystem::path weights_file(const std::filesystem::path& source, Log& log);

  std::optional<int64_t> step_;
  std::unique_ptr<trainer::SafetensorsFile> file_;
  std::unique_ptr<net::Network> network_;
};

}  // namespace poseidon::exporter
