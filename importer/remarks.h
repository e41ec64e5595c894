#pragma once

#include <string>

#include "core/log.h"
#include "importer/place.h"

namespace poseidon::importer {

/// Reports differences between a file of another program and its import, each with the position in
/// the file.
class Remarks {
 public:
  /// `skips_unknown`: refuse() logs a warning and does not throw.
  Remarks(Log& log, bool skips_unknown) : log_(log), skips_unknown_(skips_unknown) {}

  /// Logs, as information, a difference that does not change any result.
  void note(const Place& place, const std::string& message);
  /// Logs, as a warning, a difference that changes training, but not the function of the network.
  void warn(const Place& place, const std::string& message);
  /// Reports a difference that changes the function of the network. Throws ConfigError unless
  /// `skips_unknown` is set.
  void refuse(const Place& place, const std::string& message);

 private:
  Log& log_;
  bool skips_unknown_;
};

}  // namespace poseidon::importer
