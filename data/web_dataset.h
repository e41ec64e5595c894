#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/sample_stream.h"
#include "data/tar.h"

namespace poseidon::data {

/// A sample of a WebDataset: the archive members whose names are equal up to the first dot after
/// the last slash.
struct WebSample {
  std::string stem;                    ///< the equal part of the names
  std::optional<size_t> image, label;  ///< indices into the archive's entries
  std::string fault;                   ///< description of the defect; "": none
};

/// Returns the samples of an archive, in the order of their first members. Ignores hidden members,
/// members in system folders, and members that are neither an image nor a ".cls" file. The member
/// "a.mask.png" is not an image.
std::vector<WebSample> list_web_samples(const std::vector<TarEntry>& entries);

/// Opens the samples of one archive, plain or gzip. Throws like TarArchive::TarArchive(). Throws
/// ConfigError also if there are no samples.
std::unique_ptr<SampleStream> open_web_dataset(const std::filesystem::path& path,
                                               const std::filesystem::path& work_folder);

}  // namespace poseidon::data
