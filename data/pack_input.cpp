#include "data/pack_input.h"

#include <algorithm>
#include <set>

#include "core/as_config_error.h"
#include "core/file.h"
#include "data/database.h"
#include "data/image_folder.h"
#include "data/image_list.h"
#include "data/image_source.h"
#include "data/order.h"
#include "data/web_dataset.h"

namespace poseidon::data {

namespace fs = std::filesystem;

namespace {

/// Warns about classes without images, since they shift the labels of the classes after them.
void warn_of_empty_classes(const ImageSource& source, Log& log) {
  if (source.classes().empty()) return;
  std::set<std::string> filled;
  for (const ImageSource::Entry& entry : source.entries())
    filled.insert(source.classes()[static_cast<size_t>(entry.label)]);
  for (const std::string& remark : remarks_on_classes(source.classes(), filled, source.ignored()))
    log.warning(remark);
}

/// Warns if one of at most three classes has the name of a split, such as "train".
void warn_of_splits(const std::vector<std::string>& classes, Log& log) {
  for (const char* split : {"train", "test", "val", "validation"})
    if (std::find(classes.begin(), classes.end(), split) != classes.end() && classes.size() <= 3) {
      log.warning(text("found ", classes.size(), " classes, one of them \"", split,
                       "\"; if this is a split of the dataset, choose it with --prefix ", split));
      return;
    }
}

/// The images of a source, in the source's order or, with a seed, in random order.
class ImageStream final : public SampleStream {
 public:
  ImageStream(const fs::path& path, std::unique_ptr<ImageSource> source,
              std::optional<uint64_t> seed)
      : path_(path.string()),
        source_(std::move(source)),
        order_(size(), seed.value_or(0), seed.has_value()) {}

  bool next(std::string& name, Sample& sample) override {
    if (done_ == size()) return false;
    const auto& entry = source_->entries()[static_cast<size_t>(order_.at(done_++).index)];
    name = entry.name;
    source_->read(entry, sample.storage);
    sample.label = entry.label;
    sample.form = SampleForm::kEncoded;
    sample.bytes = sample.storage;
    return true;
  }
  std::string source() const override { return path_; }
  int64_t size() const override { return static_cast<int64_t>(source_->entries().size()); }
  std::vector<std::string> classes() const override { return source_->classes(); }

 private:
  std::string path_;
  std::unique_ptr<ImageSource> source_;
  Order order_;
  int64_t done_ = 0;
};

/// Returns the base folder of the paths in the list `file`.
fs::path root_of(const PackOptions& options, const fs::path& file) {
  return options.root.empty() ? file.parent_path() : options.root;
}

std::unique_ptr<SampleStream> open_images(const PackOptions& options, const fs::path& work_folder,
                                          Log& log) {
  const fs::path& input = options.inputs[0];
  std::unique_ptr<ImageSource> source = options.type == PackType::kList
                                            ? open_image_list(input, root_of(options, input))
                                            : open_image_source(input, options.prefix, work_folder);
  if (options.classes.empty()) warn_of_empty_classes(*source, log);
  for (const std::string& remark : source->ignored().remarks()) log.warning(remark);
  warn_of_splits(options.classes.empty() ? source->classes() : options.classes, log);
  return std::make_unique<ImageStream>(input, std::move(source), options.shuffle_seed);
}

std::unique_ptr<SampleStream> open_web_datasets(const PackOptions& options,
                                                const fs::path& work_folder) {
  std::vector<OpenStream> parts;
  for (const fs::path& input : options.inputs)
    parts.push_back([input, work_folder] { return open_web_dataset(input, work_folder); });
  return make_chain(std::move(parts));
}

/// Returns the HDF5 files, including those that text files name, one per line.
std::vector<fs::path> hdf5_files(const PackOptions& options) {
  std::vector<fs::path> files;
  for (const fs::path& input : options.inputs) {
    if (input.extension() != ".txt") {
      files.push_back(input);
      continue;
    }
    for (const std::string& line : list_lines(read_list_file(input)))
      files.push_back(root_of(options, input) / line);
  }
  if (files.empty())
    throw ConfigError(text(options.inputs[0].string(), ": expected names of HDF5 files, got none"));
  return files;
}

std::unique_ptr<SampleStream> open_databases(const PackOptions& options, DatabaseType type,
                                             const std::vector<fs::path>& files) {
  const DatabaseOptions how{
      .programs = options.programs, .bgr_to_rgb = options.bgr_to_rgb, .extras = options.extras};
  std::vector<OpenStream> parts;
  for (const fs::path& file : files)
    parts.push_back([type, file, how] { return open_database(type, file, how); });
  return make_chain(std::move(parts));
}

/// Checks the names of --extra. Each is the name of both an HDF5 dataset and a network input.
void check_extra_names(const std::vector<std::string>& names) {
  std::vector<AuxiliaryInput> extras;
  for (const std::string& name : names) extras.push_back({.name = name, .extents = {1}});
  if (const AuxiliaryInputError fault = first_error_in(extras))
    throw ConfigError("--extra: " + fault.message);
}

/// Rejects options that have no effect on this type of input, several inputs if the type allows
/// only one, and invalid names in `extras`.
void check_options(const PackOptions& options) {
  const PackType type = options.type;
  const bool several = type == PackType::kWebDataset || type == PackType::kHdf5;
  if (options.inputs.size() > 1 && !several)
    throw ConfigError(text("expected one input, got ", options.inputs.size(),
                           "; only --type webdataset and hdf5 accept several"));
  if (!options.prefix.empty() && type != PackType::kImages)
    throw ConfigError("--prefix requires folders of classes (--type images)");
  if (options.shuffle_seed && type != PackType::kImages && type != PackType::kList)
    throw ConfigError(
        "--shuffle-seed requires --type images or list; other inputs are read in their order "
        "(training shuffles in any case)");
  if (!options.root.empty() && type != PackType::kList && type != PackType::kHdf5)
    throw ConfigError("--root requires lists of files (--type list or hdf5)");
  if (!options.extras.empty() && type != PackType::kHdf5)
    throw ConfigError("--extra requires HDF5 files (--type hdf5)");
  check_extra_names(options.extras);
  const bool database =
      type == PackType::kLmdb || type == PackType::kLevelDb || type == PackType::kHdf5;
  if (options.bgr_to_rgb && !database)
    throw ConfigError("--bgr-to-rgb requires a database (--type lmdb, leveldb or hdf5)");
}

std::unique_ptr<SampleStream> open_input(const PackOptions& options, const fs::path& work_folder,
                                         Log& log) {
  switch (options.type) {
    case PackType::kWebDataset: return open_web_datasets(options, work_folder);
    case PackType::kLmdb: return open_databases(options, DatabaseType::kLmdb, options.inputs);
    case PackType::kLevelDb: return open_databases(options, DatabaseType::kLevelDb, options.inputs);
    case PackType::kHdf5: return open_databases(options, DatabaseType::kHdf5, hdf5_files(options));
    case PackType::kImages:
    case PackType::kList: break;
  }
  return open_images(options, work_folder, log);
}

/// Returns true if `path` is a text file whose first line names an HDF5 file.
bool lists_hdf5_files(const fs::path& path) {
  const std::vector<std::string> lines = list_lines(read_list_file(path));
  const fs::path first = lines.empty() ? "" : lines[0];
  return first.extension() == ".h5" || first.extension() == ".hdf5";
}

}  // namespace

PackType guess_pack_type(const fs::path& input) {
  const fs::path ending = input.extension();
  std::error_code failure;
  if (fs::is_directory(input, failure)) {
    if (fs::exists(input / "data.mdb", failure)) return PackType::kLmdb;
    return fs::exists(input / "CURRENT", failure) ? PackType::kLevelDb : PackType::kImages;
  }
  if (ending == ".mdb") return PackType::kLmdb;
  if (ending == ".h5" || ending == ".hdf5") return PackType::kHdf5;
  if (ending != ".txt") return PackType::kImages;
  return lists_hdf5_files(input) ? PackType::kHdf5 : PackType::kList;
}

std::unique_ptr<SampleStream> open_pack_input(const PackOptions& options,
                                              const fs::path& work_folder, Log& log) {
  check(!options.inputs.empty(), "nothing to pack");
  check_options(options);
  return as_config_error([&] { return open_input(options, work_folder, log); });
}

}  // namespace poseidon::data
