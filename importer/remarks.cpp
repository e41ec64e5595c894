#include "importer/remarks.h"

namespace poseidon::importer {

void Remarks::note(const Place& place, const std::string& message) {
  log_.info(place.text() + ": " + message);
}

void Remarks::warn(const Place& place, const std::string& message) {
  log_.warning(place.text() + ": " + message);
}

void Remarks::refuse(const Place& place, const std::string& message) {
  if (!skips_unknown_) fail_at(place, message + " (--skip-unknown continues without it)");
  warn(place, message);
}

}  // namespace poseidon::importer
