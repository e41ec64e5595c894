#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace poseidon::data {

/// The kind of a file, by its name.
enum class FileKind : uint8_t {
  kImage,       ///< .jpg, .jpeg, .png, .bmp, .ppm, .pgm, .pnm, in upper or lower case
  kOtherImage,  ///< an image of a format that is not read, such as .webp
  kNone
};

/// Of a hidden file, which begins with a dot: kNone.
FileKind file_kind(std::string_view name);

/// "a.b.WebP" as ".webp"; "" without a dot.
std::string lower_ending(std::string_view name);

/// Whether a file or folder of this name is never part of a dataset, at any depth: its name begins
/// with a dot.
bool is_hidden(std::string_view name);

/// Whether a folder of this name is made by systems and file servers, such as "@eaDir", and is
/// never part of a dataset, at any depth.
bool is_system_folder(std::string_view name);

/// Files and folders that are not samples, of a folder of classes or an archive of one. They are
/// counted, since a person may have meant them as samples.
class IgnoredFiles {
 public:
  void add_other_image(const std::string& class_name, std::string_view file);
  void add_outside_image() { ++outside_; }
  void add_system_folder(const std::string& path) { system_folders_.insert(path); }

  int64_t outside_images() const { return outside_; }
  /// The images of other formats of one class, as ".webp 2, .tif 1"; "" for none.
  std::string other_images(const std::string& class_name) const;
  /// One sentence for each sort of ignored files.
  std::vector<std::string> remarks() const;

 private:
  using Counts = std::map<std::string, int64_t>;  ///< by ending

  static std::string text_of(const Counts& counts);

  std::map<std::string, Counts> others_;  ///< by class
  std::set<std::string> system_folders_;
  int64_t outside_ = 0;
};

/// Makes a remark for each class that is not among the filled ones. Such a class keeps its label.
std::vector<std::string> remarks_on_classes(const std::vector<std::string>& classes,
                                            const std::set<std::string>& filled,
                                            const IgnoredFiles& ignored);

/// Throws ConfigError for a class folder whose name is not UTF-8: classes stand in JSON files.
/// `path` is the folder's, for the message.
void check_class_name(const std::string& name, const std::string& path);

}  // namespace poseidon::data
