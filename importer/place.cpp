#include "importer/place.h"

#include "core/error.h"

namespace poseidon::importer {

std::string Place::text() const {
  return poseidon::text(file, ":", position.line, ":", position.column);
}

void fail_at(const Place& place, const std::string& message) {
  throw ConfigError(place.text() + ": " + message);
}

}  // namespace poseidon::importer
