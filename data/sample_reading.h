#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

#include "core/file.h"
#include "data/sample.h"

namespace poseidon::data {

/// Calls `read`, which reads the file of one sample. Converts an error of this file, such as a
/// missing or truncated file or a failed disk, to CorruptSample. `place()` returns the beginning of
/// the message. Does not convert errors of the process, such as too little memory or too many open
/// files.
template <class Place, class Read>
void read_for_sample(const Place& place, const Read& read) {
  try {
    read();
  } catch (const OutOfFiles&) {
    throw;
  } catch (const OutOfMemory&) {
    throw;
  } catch (const RunError& error) {
    throw CorruptSample(place() + error.what());
  } catch (const ConfigError& error) {
    throw CorruptSample(place() + error.what());
  }
}

/// Reads the image file of a sample into `out`, whose memory it reuses. Throws like
/// read_for_sample(). Throws CorruptSample also if the file exceeds kMaxEncodedBytes.
void read_image_file(const std::filesystem::path& path, std::vector<std::byte>& out);

}  // namespace poseidon::data
