#pragma once

#include <string>
#include <vector>

#include "core/log.h"

namespace poseidon::importer::made {

/// A log that keeps each message as a line.
class RecordingLog final : public Log {
 public:
  void info(std::string_view message) override { notes.emplace_back(message); }
  void warning(std::string_view message) override { warnings.emplace_back(message); }

  std::vector<std::string> notes, warnings;
};

}  // namespace poseidon::importer::made
