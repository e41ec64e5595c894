#pragma once

#include <string>

#include "core/log.h"
#include "importer/place.h"

namespace poseidon::importer {

/// What is said of things that have no equal here, each with its place.
class Remarks {
 public:
  /// `skips_unknown`: what could not mean the same is a warning, not an error.
  Remarks(Log& log, bool skips_unknown) : log_(log), skips_unknown_(skips_unknown) {}

  /// Of what changes nothing that is computed.
  void note(const Place& place, const std::string& message);
  /// Of what changes how training goes, and not what the network computes.
  void warn(const Place& place, const std::string& message);
  /// Of what changes what the network computes. Throws ConfigError, unless unknown things are
  /// skipped.
  void refuse(const Place& place, const std::string& message);

 private:
  Log& log_;
  bool skips_unknown_;
};

}  // namespace poseidon::importer
