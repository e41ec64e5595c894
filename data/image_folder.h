#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "data/dataset.h"

namespace poseidon::data {

/// Whether a file of this name is taken for an image: .jpg, .jpeg, .png, .bmp, .ppm, .pgm, .pnm, in
/// upper or lower case, and not hidden.
bool is_image_name(std::string_view name);

/// A folder per class; the classes are the sorted names of the folders, the samples the image files
/// in and below them, sorted by name.
std::unique_ptr<Dataset> open_image_folder(const std::string& folder);

}  // namespace poseidon::data
