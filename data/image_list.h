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
  std::string path;  ///< as written in the list
  int32_t label = 0;
  int64_t line = 0;  ///< counted from 1
};

/// Parses the lines "PATH LABEL" of an image list in the format of Caffe's ImageData. The label
/// follows the last blank. Skips blank lines. Throws RunError "FILE:LINE: ..." if a line has
/// another form or its label is invalid.
std::vector<ListedImage> parse_image_list(std::string_view contents, const std::string& file);

/// Returns the lines that are not blank, without leading and trailing blanks.
std::vector<std::string> list_lines(std::string_view contents);

/// Reads the whole text file. Throws ConfigError if it cannot be opened, RunError if it has more
/// than 4 GiB or cannot be read.
std::string read_list_file(const std::filesystem::path& path);

/// Opens the images of a list file, in list order. Paths are relative to `root`. Throws like
/// read_list_file() and parse_image_list(). Throws ConfigError also if the list names no image.
std::unique_ptr<ImageSource> open_image_list(const std::filesystem::path& path,
                                             const std::filesystem::path& root);

}  // namespace poseidon::data
