#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/image_source.h"

namespace poseidon::data {

struct ListedImage {
  std::string path;  ///< as the list has it
  int32_t label = 0;
  int64_t line = 0;  ///< from 1
};

/// Parses the lines "PATH LABEL" of a list of images, as Caffe's ImageData reads it: the label
/// stands behind the last blank. Empty lines are passed over. Throws RunError "FILE:LINE: ...".
std::vector<ListedImage> parse_image_list(std::string_view contents, const std::string& file);

/// The lines of a list that are not blank, without blanks at their ends.
std::vector<std::string> list_lines(std::string_view contents);

/// Reads a text file whole. Throws ConfigError or RunError.
std::string read_list_file(const std::filesystem::path& path);

/// The images of a list file in its order. Paths are relative to `root`. Throws ConfigError when
/// there is no image in it.
std::unique_ptr<ImageSource> open_image_list(const std::filesystem::path& path,
                                             const std::filesystem::path& root);

}  // namespace poseidon::data
