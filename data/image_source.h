#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/ignored_files.h"

namespace poseidon::data {

/// Labeled image files from a folder of classes, an archive of such a folder, or a list.
class ImageSource {
 public:
  struct Entry {
    std::string name;  ///< "<class>/<file>"; for a list: the path as written there
    int32_t label = 0;
    uint64_t place = 0;  ///< archive: index of the entry; list: line number; folder: unused
  };

  virtual ~ImageSource() = default;
  /// The image files. Sorted by name if the source has class folders, so a folder and its archive
  /// have equal lists.
  virtual const std::vector<Entry>& entries() const = 0;
  /// The class folders, sorted, including classes without images. Empty if labels are plain
  /// numbers.
  virtual const std::vector<std::string>& classes() const = 0;
  /// Files of the source that are not samples.
  virtual const IgnoredFiles& ignored() const = 0;
  /// Reads the file of an entry into `out`. Throws CorruptSample if this file cannot be used,
  /// RunError if the archive cannot be read.
  virtual void read(const Entry& entry, std::vector<std::byte>& out) const = 0;
};

/// Opens a folder, a .tar or a .tar.gz. Uses only the files in the folder `prefix` inside the
/// source ("" for all), except hidden files and files in system folders. Decompresses a compressed
/// archive into an unnamed temporary file in `work_folder`. Throws ConfigError if the source cannot
/// be used, the prefix does not exist, or there are no images. Throws RunError if the archive is
/// damaged.
std::unique_ptr<ImageSource> open_image_source(const std::filesystem::path& path,
                                               const std::string& prefix,
                                               const std::filesystem::path& work_folder);

}  // namespace poseidon::data
