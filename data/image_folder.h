#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/ignored_files.h"

namespace poseidon::data {

/// The classes and images of a folder that contains one folder per class.
struct ImageListing {
  struct File {
    std::string name;  ///< "<class>/<file>", always with '/'
    uint64_t bytes = 0;
    int32_t label = 0;  ///< index of the class in `classes`
  };
  std::vector<std::string> classes;  ///< sorted; includes classes without images
  std::vector<File> files;           ///< ordered by class, then by name
  IgnoredFiles ignored;
};

/// Lists the image files in each class folder, at any depth. A class folder or a file may be a
/// symbolic link. Hidden names and system folders are ignored, at any depth. Throws ConfigError
/// for:
/// - a folder that cannot be listed
/// - a broken link
/// - a link to a folder inside a class folder
/// - a class name that is not UTF-8
ImageListing list_images(const std::filesystem::path& folder);

/// Opens a folder that contains one folder per class. The classes are the sorted names of these
/// folders. The samples are the image files in them, at any depth, sorted by class and name. Throws
/// ConfigError if there is no such folder or no image, or for the reasons of list_images().
std::unique_ptr<Dataset> open_image_folder(const std::string& folder);

}  // namespace poseidon::data
