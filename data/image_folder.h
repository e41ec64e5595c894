#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/ignored_files.h"

namespace poseidon::data {

/// The classes and images of a folder with a folder for each class.
struct ImageListing {
  struct File {
    std::string name;  ///< "<class>/<file>", with '/'
    uint64_t bytes = 0;
    int32_t label = 0;  ///< index of the class in `classes`
  };
  std::vector<std::string> classes;  ///< sorted; one without an image is a class, too
  std::vector<File> files;           ///< class by class, sorted by name
  IgnoredFiles ignored;
};

/// Lists the image files in and below each class folder. A class folder or a file may be a link;
/// hidden names and system folders do not count, at any depth. Throws ConfigError for what cannot
/// be listed, a link to nothing, a link to a folder inside a class folder, and a class that is not
/// named in UTF-8.
ImageListing list_images(const std::filesystem::path& folder);

/// Opens a folder that has a folder for each class. The classes are the sorted names of these
/// folders, the samples the image files in and below them, sorted by name.
std::unique_ptr<Dataset> open_image_folder(const std::string& folder);

}  // namespace poseidon::data
