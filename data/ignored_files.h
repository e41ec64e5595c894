#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace poseidon::data {

/// The kind of a file, determined from its name.
enum class FileKind : uint8_t {
  kImage,       ///< .jpg, .jpeg, .png, .bmp, .ppm, .pgm, .pnm, in upper or lower case
  kOtherImage,  ///< image of an unsupported format, such as .webp
  kNone         ///< any other file
};

/// Returns the kind of a file. A hidden file (is_hidden()) is kNone.
FileKind file_kind(std::string_view name);

/// Returns the extension in lower case: ".webp" for "a.b.WebP"; "" without a dot.
std::string lower_ending(std::string_view name);

/// Returns true if the name begins with a dot. Datasets in folders and archives ignore such a file
/// or folder, at any depth. An image list may name it.
bool is_hidden(std::string_view name);

/// Returns true if operating systems, file servers or Python create a folder of this name, such as
/// "@eaDir". Datasets in folders and archives ignore such a folder, at any depth. An image list may
/// name files in it.
bool is_system_folder(std::string_view name);

/// The files and folders that a dataset with one folder per class ignores, and their counts:
/// - images of unsupported formats in class folders
/// - images of supported formats outside of class folders
/// - system folders
///
/// remarks() reports them, because the user may have intended the images as samples.
class IgnoredFiles {
 public:
  void add_other_image(const std::string& class_name, std::string_view file);
  /// Counts an image of a supported format that is not in a class folder.
  void add_outside_image() { ++outside_; }
  void add_system_folder(const std::string& path) { system_folders_.insert(path); }

  int64_t outside_images() const { return outside_; }
  /// Returns the counts of unsupported images of one class, such as ".webp 2, .tif 1"; "" for none.
  std::string other_images(const std::string& class_name) const;
  /// Returns one sentence for each kind of ignored files; empty if no file was ignored.
  std::vector<std::string> remarks() const;

 private:
  using Counts = std::map<std::string, int64_t>;  ///< by extension

  static std::string text_of(const Counts& counts);

  std::map<std::string, Counts> others_;  ///< by class
  std::set<std::string> system_folders_;
  int64_t outside_ = 0;
};

/// Returns a remark for each class without samples, that is, for each class that is not in
/// `filled`. A class without samples keeps its label. `ignored` provides the counts of unsupported
/// images.
std::vector<std::string> remarks_on_classes(const std::vector<std::string>& classes,
                                            const std::set<std::string>& filled,
                                            const IgnoredFiles& ignored);

/// Throws ConfigError if the name of a class folder is not UTF-8, since JSON files contain the
/// class names. `path` is the folder's path for the message.
void check_class_name(const std::string& name, const std::string& path);

}  // namespace poseidon::data
