#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "core/auxiliary_input.h"
#include "core/digest.h"

namespace poseidon::data {

/// Hashes the data that identify a dataset. Also hashes the length of each string, so that "ab",
/// "c" and "a", "bc" have different hashes.
class Fingerprint {
 public:
  void add(uint64_t number) {
    std::array<std::byte, 8> bytes;
    for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<std::byte>(number >> (8 * i));
    digest_.update(bytes);
  }
  void add(const std::string& part) {
    add(part.size());
    digest_.update({reinterpret_cast<const std::byte*>(part.data()), part.size()});
  }
  void add(const std::vector<std::string>& parts) {
    add(parts.size());
    for (const std::string& part : parts) add(part);
  }
  /// Adds the names and extents of the inputs. Adds nothing if the list is empty, so that datasets
  /// without auxiliary inputs keep the fingerprints that earlier versions of Poseidon computed.
  void add(const std::vector<AuxiliaryInput>& extras) {
    for (const AuxiliaryInput& extra : extras) {
      add(extra.name);
      for (const int64_t extent : extra.extents) add(static_cast<uint64_t>(extent));
      add(extra.extents.size());
    }
  }
  std::string hex() { return digest_.hex(); }

 private:
  Sha256 digest_;
};

}  // namespace poseidon::data
