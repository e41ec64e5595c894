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
  /// `source` is a run directory (its newest checkpoint), one checkpoint's file, a folder that
  /// poseidon-import has made, or a weights file. `network` is "" where network.json lies in the
  /// run's or the file's folder. Throws ConfigError where there are none, or the file has not all
  /// of the network's tensors and no others.
  TrainedWeights(const std::filesystem::path& source, const std::filesystem::path& network,
                 Log& log);

  /// For batches of one sample.
  const net::Network& network() const { return *network_; }
  const trainer::SafetensorsFile& file() const { return *file_; }
  std::optional<int64_t> step() const { return step_; }  ///< of a checkpoint
  /// By the name that weights files have: "conv1.weight".
  std::vector<float> read(const std::string& tensor) const;

 private:
  std::filesystem::path weights_file(const std::filesystem::path& source, Log& log);

  std::optional<int64_t> step_;
  std::unique_ptr<trainer::SafetensorsFile> file_;
  std::unique_ptr<net::Network> network_;
};

}  // namespace poseidon::exporter
