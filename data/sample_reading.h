#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

#include "core/file.h"
#include "data/sample.h"

namespace poseidon::data {

/// Calls `read`, which reads the file of one sample. A failure of that file, such as a file that
/// was removed or cut, or a failed disk, becomes CorruptSample; `place()` is the beginning of its
/// text. Errors of the process pass unchanged: no memory, too many open files.
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

/// Reads the image file of a sample into `out`, whose memory is reused. Throws as
/// read_for_sample() does, CorruptSample also for a file of more than kMostEncodedBytes.
void read_image_file(const std::filesystem::path& path, std::vector<std::byte>& out);

}  // namespace poseidon::data
