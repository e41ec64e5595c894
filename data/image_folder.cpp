#include "data/image_folder.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <set>

#include "data/fingerprint.h"
#include "data/image.h"
#include "data/inspect.h"
#include "data/pack.h"
#include "data/sample_reading.h"

namespace poseidon::data {

namespace fs = std::filesystem;

namespace {

/// Throws ConfigError for a broken link. Without this error, an image or a class would be missing
/// without a message.
void refuse_link_to_nothing(const fs::directory_entry& entry) {
  if (entry.is_symlink() && !entry.exists())
    throw ConfigError(text(entry.path().string(), ": is a link to \"",
                           fs::read_symlink(entry.path()).string(), "\", which does not exist"));
}

/// Returns the sorted names of the class folders. Adds images next to them and system folders to
/// `ignored`.
std::vector<std::string> class_folders(const fs::path& folder, IgnoredFiles& ignored) {
  std::vector<std::string> classes;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (is_hidden(name)) continue;
    refuse_link_to_nothing(entry);
    if (!entry.is_directory()) {
      if (file_kind(name) == FileKind::kImage) ignored.add_outside_image();
    } else if (is_system_folder(name)) {
      ignored.add_system_folder(name);
    } else {
      check_class_name(name, entry.path().string());
      classes.push_back(name);
    }
  }
  std::ranges::sort(classes);
  return classes;
}

/// Lists the images in one class folder, at any depth.
class ClassListing {
 public:
  ClassListing(const fs::path& folder, const std::string& class_name, ImageListing& listing)
      : folder_(folder), class_(class_name), listing_(listing) {}

  void list(int32_t label) {
    const auto before = static_cast<ptrdiff_t>(listing_.files.size());
    for (fs::recursive_directory_iterator at(folder_ / class_), end; at != end; ++at)
      if (!is_ignored(*at))
        add(*at, label);
      else
        at.disable_recursion_pending();
    std::ranges::sort(listing_.files.begin() + before, listing_.files.end(), {},
                      &ImageListing::File::name);
  }

 private:
  std::string relative(const fs::directory_entry& entry) const {
    return entry.path().lexically_relative(folder_).generic_string();
  }

  bool is_ignored(const fs::directory_entry& entry) {
    const std::string name = entry.path().filename().string();
    if (is_hidden(name)) return true;
    if (!is_system_folder(name) || !entry.is_directory()) return false;
    listing_.ignored.add_system_folder(relative(entry));
    return true;
  }

  void add(const fs::directory_entry& entry, int32_t label) {
    refuse_link_to_nothing(entry);
    if (entry.is_symlink() && entry.is_directory())
      throw ConfigError(text(entry.path().string(),
                             ": is a link to a folder, expected files and folders; only a class "
                             "folder itself may be a link"));
    if (!entry.is_regular_file()) return;
    const std::string name = entry.path().filename().string();
    const FileKind kind = file_kind(name);
    if (kind == FileKind::kImage)
      listing_.files.push_back({relative(entry), entry.file_size(), label});
    else if (kind == FileKind::kOtherImage)
      listing_.ignored.add_other_image(class_, name);
  }

  const fs::path& folder_;
  const std::string& class_;
  ImageListing& listing_;
};

ImageListing list(const fs::path& folder) {
  ImageListing listing;
  listing.classes = class_folders(folder, listing.ignored);
  for (size_t i = 0; i < listing.classes.size(); ++i)
    ClassListing(folder, listing.classes[i], listing).list(static_cast<int32_t>(i));
  return listing;
}

std::set<std::string> filled_classes(const ImageListing& listing) {
  std::set<std::string> filled;
  for (const ImageListing::File& file : listing.files)
    filled.insert(listing.classes[static_cast<size_t>(file.label)]);
  return filled;
}

/// Returns a hint for the message that no class folder contains images: the likely type of
/// `folder`, or the ignored files.
std::string hint_for(const fs::path& folder, const IgnoredFiles& ignored) {
  const std::string type = guess_type(folder.string());
  if (type != "images") return text("; it looks like a dataset of \"type\": \"", type, "\"");
  if (guess_pack_type(folder) != PackType::kImages)
    return "; it looks like a database: convert it to a record set with poseidon-data pack";
  std::string hint;
  for (const std::string& remark : ignored.remarks()) hint += "; " + remark;
  return hint;
}

class ImageFolder final : public Dataset {
 public:
  explicit ImageFolder(const fs::path& folder) : folder_(folder) {
    ImageListing listing = list_images(folder);
    description_.source = folder.string();
    if (listing.files.empty())
      throw ConfigError(text(folder.string(),
                             ": expected a folder per class with JPEG, PNG, BMP or "
                             "PNM files, got ",
                             listing.classes.size(), " folders and no image",
                             hint_for(folder, listing.ignored)));
    description_.remarks =
        remarks_on_classes(listing.classes, filled_classes(listing), listing.ignored);
    std::ranges::move(listing.ignored.remarks(), std::back_inserter(description_.remarks));
    description_.classes = std::move(listing.classes);
    files_ = std::move(listing.files);
    description_.samples = static_cast<int64_t>(files_.size());
    description_.fingerprint = fingerprint();
  }

  const DatasetDescription& description() const override { return description_; }

  void read(int64_t index, Sample& sample) const override {
    const ImageListing::File& file = files_.at(static_cast<size_t>(index));
    sample.label = file.label;
    sample.form = SampleForm::kEncoded;
    const fs::path path = folder_ / file.name;
    if (file.bytes > kMaxEncodedBytes)
      throw CorruptSample(text(path.string(), ": expected an image of at most ", kMaxEncodedBytes,
                               " bytes, got ", file.bytes));
    read_image_file(path, sample.storage);
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

ImageListing list_images(const fs::path& folder) {
  try {
    return list(folder);
  } catch (const fs::filesystem_error& error) {
    throw ConfigError(text(error.path1().string(), ": cannot be listed: ", error.code().message()));
  }
}

std::unique_ptr<Dataset> open_image_folder(const std::string& folder) {
  std::error_code failure;
  if (fs::is_directory(folder, failure)) return std::make_unique<ImageFolder>(folder);
  if (fs::exists(folder, failure))
    throw ConfigError(
        text(folder,
             ": expected a folder with a folder per class, got a file; convert an archive or a "
             "list with poseidon-data pack, and use \"type\": \"records\""));
  throw ConfigError(text(folder, ": no such folder; expected one with a folder per class"));
}

}  // namespace poseidon::data
