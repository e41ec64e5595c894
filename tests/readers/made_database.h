#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "data/database.h"
#include "data/datum.h"

// A database of one format, made by the format's own library. Each format has a source with these
// functions, linked with the same tests.

namespace poseidon::readers::made {

struct Entry {
  std::string key;
  int64_t channels = 3, height = 4, width = 5;
  std::vector<std::byte> values;  ///< channels x height x width
  int64_t label = 0;
};

/// Entries with different pixels, and labels in no order.
inline std::vector<Entry> entries(int count) {
  std::vector<Entry> out(static_cast<size_t>(count));
  for (size_t i = 0; i < out.size(); ++i) {
    out[i].key = (i < 10 ? "0000" : i < 100 ? "000" : "00") + std::to_string(i) + "_cat.jpg";
    out[i].label = static_cast<int64_t>(i * 7 % 10);
    for (size_t k = 0; k < 60; ++k) out[i].values.push_back(static_cast<std::byte>(i * 31 + k * 5));
  }
  return out;
}

inline std::vector<std::byte> datum_of(const Entry& entry) {
  data::Datum datum;
  datum.channels = entry.channels;
  datum.height = entry.height;
  datum.width = entry.width;
  datum.bytes = entry.values;
  datum.label = entry.label;
  return data::encode_datum(datum);
}

extern const data::DatabaseType kType;

/// Makes the file or folder `path`. All entries must have the same shape.
void make_database(const std::filesystem::path& path, const std::vector<Entry>& entries);

}  // namespace poseidon::readers::made
