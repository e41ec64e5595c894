#include "data/image_folder.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "core/file.h"
#include "data/fingerprint.h"
#include "data/image.h"

namespace poseidon::data {

namespace fs = std::filesystem;

namespace {

/// Its image would be missing without a word.
void refuse_link_to_nothing(const fs::directory_entry& entry) {
  if (entry.is_symlink() && !entry.exists())
    throw ConfigError(text(entry.path().string(), ": is a link to \"",
                           fs::read_symlink(entry.path()).string(), "\", which is not there"));
}

/// The folders that are classes, sorted.
std::vector<std::string> class_folders(const fs::path& folder) {
  std::vector<std::string> classes;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(".")) continue;
    refuse_link_to_nothing(entry);
    if (entry.is_directory()) classes.push_back(name);
  }
  std::ranges::sort(classes);
  return classes;
}

/// Adds the images in and below one class folder.
void append_images(const fs::path& folder, const std::string& class_name, int32_t label,
                   std::vector<ImageListing::File>& files) {
  const auto before = static_cast<ptrdiff_t>(files.size());
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder / class_name)) {
    refuse_link_to_nothing(entry);
    if (entry.is_symlink() && entry.is_directory())
      throw ConfigError(text(entry.path().string(),
                             ": is a link to a folder, expected files and folders; only a class "
                             "folder itself may be a link"));
    if (entry.is_regular_file() && is_image_name(entry.path().filename().string()))
      files.push_back(
          {entry.path().lexically_relative(folder).generic_string(), entry.file_size(), label});
  }
  std::ranges::sort(files.begin() + before, files.end(), {}, &ImageListing::File::name);
}

ImageListing list(const fs::path& folder) {
  ImageListing listing{.classes = class_folders(folder), .files = {}};
  for (size_t i = 0; i < listing.classes.size(); ++i)
    append_images(folder, listing.classes[i], static_cast<int32_t>(i), listing.files);
  return listing;
}

std::set<std::string> filled_classes(const ImageListing& listing) {
  std::set<std::string> filled;
  for (const ImageListing::File& file : listing.files)
    filled.insert(listing.classes[static_cast<size_t>(file.label)]);
  return filled;
}

class ImageFolder final : public Dataset {
 public:
  explicit ImageFolder(const fs::path& folder) : folder_(folder) {
    ImageListing listing = list_images(folder);
    description_.source = folder.string();
    description_.remarks = remarks_on_classes(listing.classes, filled_classes(listing));
    description_.classes = std::move(listing.classes);
    files_ = std::move(listing.files);
    description_.samples = static_cast<int64_t>(files_.size());
    if (files_.empty())
      throw ConfigError(text(folder.string(),
                             ": expected a folder per class with JPEG, PNG, BMP or "
                             "PNM files, got ",
                             description_.classes.size(), " folders and no image"));
    description_.fingerprint = fingerprint();
  }

  const DatasetDescription& description() const override { return description_; }

  void read(int64_t index, Sample& sample) const override {
    const ImageListing::File& file = files_.at(static_cast<size_t>(index));
    sample.label = file.label;
    sample.form = SampleForm::kEncoded;
    const fs::path path = folder_ / file.name;
    if (file.bytes > kMostEncodedBytes)
      throw CorruptSample(text(path.string(), ": expected an image of at most ", kMostEncodedBytes,
                               " bytes, got ", file.bytes));
    read_file(path, kMostEncodedBytes, sample.storage);
    sample.bytes = sample.storage;
  }

  std::string name(int64_t index) const override {
    return (folder_ / files_.at(static_cast<size_t>(index)).name).string();
  }

 private:
  std::string fingerprint() const {
    Fingerprint fingerprint;
    fingerprint.add(static_cast<uint64_t>(files_.size()));
    fingerprint.add(description_.classes);
    for (const ImageListing::File& file : files_) {
      fingerprint.add(file.name);
      fingerprint.add(file.bytes);
      fingerprint.add(static_cast<uint64_t>(file.label));
    }
    return fingerprint.hex();
  }

  fs::path folder_;
  DatasetDescription description_;
  std::vector<ImageListing::File> files_;
};

}  // namespace

bool is_image_name(std::string_view name) {
  const size_t dot = name.rfind('.');
  if (name.starts_with(".") || dot == std::string_view::npos) return false;
  std::string ending(name.substr(dot));
  for (char& c : ending)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  constexpr std::string_view kEndings[] = {".jpg", ".jpeg", ".png", ".bmp", ".ppm", ".pgm", ".pnm"};
  return std::find(std::begin(kEndings), std::end(kEndings), ending) != std::end(kEndings);
}

ImageListing list_images(const fs::path& folder) {
  try {
    return list(folder);
  } catch (const fs::filesystem_error& error) {
    throw ConfigError(text(error.path1().string(), ": cannot be listed: ", error.code().message()));
  }
}

std::vector<std::string> remarks_on_classes(const std::vector<std::string>& classes,
                                            const std::set<std::string>& filled) {
  std::vector<std::string> remarks;
  for (const std::string& name : classes)
    if (!filled.contains(name))
      remarks.push_back(text("the class folder \"", name,
                             "\" holds no image; it counts as a class without samples"));
  return remarks;
}

std::unique_ptr<Dataset> open_image_folder(const std::string& folder) {
  std::error_code failure;
  if (!fs::is_directory(folder, failure))
    throw ConfigError(text(folder, ": no such folder; expected one with a folder per class"));
  return std::make_unique<ImageFolder>(folder);
}

}  // namespace poseidon::data
