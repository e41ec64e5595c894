#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/sample_stream.h"
#include "data/tar.h"

namespace poseidon::data {

/// A sample of a WebDataset: the members of an archive whose names are equal up to the first dot
/// behind the last slash.
struct WebSample {
  std::string stem;
  std::optional<size_t> image, label;  ///< indices of the archive's entries
  std::string fault;                   ///< what is wrong with it; "" when nothing is
};

/// The samples of an archive's entries, in the order of their first members. Members that are
/// neither an image nor a ".cls" are passed over, and so are samples of such members alone.
std::vector<WebSample> list_web_samples(const std::vector<TarEntry>& entries);

/// The samples of one archive, plain or compressed by gzip. Throws ConfigError when there are none.
std::unique_ptr<SampleStream> open_web_dataset(const std::filesystem::path& path,
                                               const std::filesystem::path& work_folder);

}  // namespace poseidon::data
