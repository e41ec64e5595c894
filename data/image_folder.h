#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "data/dataset.h"

namespace poseidon::data {

/// Whether a file of this name is taken for an image: .jpg, .jpeg, .png, .bmp, .ppm, .pgm, .pnm, in
/// upper or lower case, and not hidden.
bool is_image_name(std::string_view name);

/// The classes and images of a folder with a folder for each class.
struct ImageListing {
  struct File {
    std::string name;  ///< "<class>/<file>", with '/'
    uint64_t bytes = 0;
    int32_t label = 0;  ///< index of the class in `classes`
  };
  std::vector<std::string> classes;  ///< sorted; one without an image is a class, too
  std::vector<File> files;           ///< class by class, sorted by name
};

/// Lists the image files in and below each class folder. A class folder or a file may be a link;
/// folders whose name begins with a dot do not count. Throws ConfigError for what cannot be listed,
/// a link to nothing, and a link to a folder inside a class folder.
ImageListing list_images(const std::filesystem::path& folder);

/// Makes a remark for each class that is not among the filled ones. Such a class keeps its label.
std::vector<std::string> remarks_on_classes(const std::vector<std::string>& classes,
                                            const std::set<std::string>& filled);

/// Opens a folder that has a folder for each class. The classes are the sorted names of these
/// folders, the samples the image files in and below them, sorted by name.
std::unique_ptr<Dataset> open_image_folder(const std::string& folder);

}  // namespace poseidon::data
