#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/ignored_files.h"

namespace poseidon::data {

/// Labelled image files, from a folder of classes, an archive of one, or a list.
class ImageSource {
 public:
  struct Entry {
    std::string name;  ///< "<class>/<file>", relative to the prefix; of a list its path
    int32_t label = 0;
    uint64_t place = 0;  ///< where the source finds it, in terms of its own
  };

  virtual ~ImageSource() = default;
  /// Those of class folders sorted by name, so that a folder and an archive of it give the same
  /// list.
  virtual const std::vector<Entry>& entries() const = 0;
  /// The class folders, sorted; one without an image is a class, too. Empty where labels are
  /// numbers and no more.
  virtual const std::vector<std::string>& classes() const = 0;
  /// Files of the source that are not samples.
  virtual const IgnoredFiles& ignored() const = 0;
  virtual void read(const Entry& entry, std::vector<std::byte>& out) const = 0;
};

/// Opens a folder, a .tar or a .tar.gz. Only what lies in `prefix` (a path inside, "" for all)
/// counts, and nothing below that is hidden or in a system folder. A compressed archive is unpacked
/// to a temporary file without a name in `work_folder`. Throws ConfigError when there is nothing,
/// RunError when it is damaged.
std::unique_ptr<ImageSource> open_image_source(const std::filesystem::path& path,
                                               const std::string& prefix,
                                               const std::filesystem::path& work_folder);

}  // namespace poseidon::data
