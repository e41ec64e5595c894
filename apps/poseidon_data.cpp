// poseidon-data: packs images into record sets, describes datasets, generates and exports them.

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iostream>
#include <map>
#include <string>

#include "apps/command_line.h"
#include "apps/flag_checks.h"
#include "apps/output_file.h"
#include "apps/run_program.h"
#include "core/as_config_error.h"
#include "core/error.h"
#include "core/file.h"
#include "core/json.h"
#include "core/log.h"
#include "core/printable.h"
#include "data/dataset_config.h"
#include "data/digits.h"
#include "data/image_list.h"
#include "data/inspect.h"
#include "data/pack.h"
#include "data/random_dataset.h"
#include "data/record_set.h"

namespace {

using namespace poseidon;
using namespace poseidon::data;

const std::map<std::string, PackType> kPackTypes{
    {"images", PackType::kImages},         {"list", PackType::kList},
    {"webdataset", PackType::kWebDataset}, {"lmdb", PackType::kLmdb},
    {"leveldb", PackType::kLevelDb},       {"hdf5", PackType::kHdf5}};

/// Shows the progress on one line of a terminal. Prints nothing if standard error is not a
/// terminal.
PackProgress live_line(const char* what) {
  using Clock = std::chrono::steady_clock;
  if (isatty(STDERR_FILENO) == 0) return [](int64_t, int64_t) {};
  auto shown = Clock::now();
  return [what, shown](int64_t done, int64_t all) mutable {
    const bool ended = done == all;
    if (!ended && Clock::now() - shown < std::chrono::milliseconds(200)) return;
    shown = Clock::now();
    std::cerr << "\r" << what << " " << done;
    if (all > 0) std::cerr << " of " << all;
    std::cerr << (ended ? "\n" : "") << std::flush;
  };
}

struct PackFlags {
  PackOptions options;
  std::vector<std::string> inputs;
  std::string type, root, output, on_error = "stop", orientation = "apply", classes_from,
                                  class_names;
  int64_t shard_mb = 1024;
  int64_t shuffle_seed = -1;
  bool json = false;
};

void print_report(const PackReport& report, const std::string& output, bool json) {
  if (json) {
    const Json result{{"output", output},
                      {"samples", report.samples},
                      {"classes", report.classes},
                      {"skipped", report.skipped},
                      {"fingerprint", open_record_set(output)->fingerprint()}};
    std::cout << result.dump(2) << "\n";
    return;
  }
  std::cout << printable(output) << ": " << report.samples << " samples of " << report.classes
            << " classes";
  if (report.skipped > 0) std::cout << ", " << report.skipped << " skipped as corrupt";
  std::cout << "\n";
}

/// Returns the folder of this program, which contains the programs that it starts.
std::filesystem::path own_folder() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path();
}

/// Reads the names of classes, one per line.
std::vector<std::string> class_names(const std::string& file) {
  std::vector<std::string> names =
      as_config_error([&] { return list_lines(read_list_file(file)); });
  if (names.empty()) throw ConfigError(file + ": expected one class name per line, got none");
  for (const std::string& name : names)
    if (!is_utf8(name)) throw ConfigError(text(file, ": expected UTF-8, got ", printable(name)));
  return names;
}

void pack(PackFlags& flags, Log& log) {
  PackOptions& options = flags.options;
  for (const std::string& input : flags.inputs) options.inputs.emplace_back(input);
  options.type =
      flags.type.empty() ? guess_pack_type(options.inputs[0]) : kPackTypes.at(flags.type);
  options.root = flags.root;
  options.programs = own_folder();
  options.output = flags.output;
  options.shard_bytes = static_cast<uint64_t>(flags.shard_mb) << 20;
  options.on_error = flags.on_error == "skip" ? OnError::kSkip : OnError::kStop;
  options.orientation =
      flags.orientation == "ignore" ? OrientationRule::kIgnore : OrientationRule::kApply;
  if (flags.shuffle_seed >= 0) options.shuffle_seed = static_cast<uint64_t>(flags.shuffle_seed);
  if (!flags.classes_from.empty())
    options.classes =
        as_config_error([&] { return open_record_set(flags.classes_from)->classes(); });
  if (!flags.class_names.empty()) options.classes = class_names(flags.class_names);
  print_report(pack_samples(options, log, live_line("packed")), flags.output, flags.json);
}

void add_pack_input(CLI::App& command, PackFlags& flags) {
  command
      .add_option("input", flags.inputs,
                  "folder, .tar or .tar.gz with one folder per class, or input of another --type")
      ->required();
  command.add_option("--type", flags.type, "type of the input (docs/data.md); default: detected")
      ->check(CLI::IsMember(kPackTypes));
  command.add_option("--prefix,--split", flags.options.prefix,
                     "folder inside the input that has the class folders, such as train");
  command.add_option(
      "--root", flags.root,
      "folder to which the paths of a list are relative; default: the folder of the list");
  command.add_option("--extra", flags.options.extras,
                     "dataset of HDF5 files to pack as an auxiliary input, in addition to data and "
                     "label; repeatable");
  command.add_flag(
      "--bgr-to-rgb", flags.options.bgr_to_rgb,
      "reverse the channels of a database's pixels, which Caffe stores as blue, green, red");
}

void add_pack(CLI::App& program, PackFlags& flags) {
  CLI::App* command = program.add_subcommand(
      "pack", "pack images, or a dataset of another program, into a record set");
  add_pack_input(*command, flags);
  command->add_option("--output,-o", flags.output, "folder of the record set, new or empty")
      ->required();
  command->add_option("--shard-mb", flags.shard_mb, "maximum size of a file of the record set, MiB")
      ->check(apps::whole_number(1, 1 << 20))
      ->capture_default_str();
  command
      ->add_option("--resize", flags.options.resize_short,
                   "shrink larger images to this length of the shorter side, pixels")
      ->check(apps::whole_number(1, 16384));
  command->add_option("--quality", flags.options.quality, "JPEG quality of shrunk images")
      ->check(apps::whole_number(1, 100))
      ->capture_default_str();
  command
      ->add_option(
          "--orientation", flags.orientation,
          "apply: rotate JPEG images by their EXIF orientation; ignore: keep them as stored")
      ->check(CLI::IsMember({"apply", "ignore"}))
      ->capture_default_str();
  command->add_flag("--decode", flags.options.decode,
                    "store pixels instead of image files, for small images");
  command->add_flag("--check-images", flags.options.check_images,
                    "decode every image once, to find damaged images early");
  command->add_option("--shuffle-seed", flags.shuffle_seed, "pack in random order, with this seed")
      ->check(apps::whole_number(0));
  auto* from = command->add_option(
      "--classes-from", flags.classes_from,
      "use the class list of this record set, for a test set with fewer classes");
  command->add_option("--class-names", flags.class_names, "file with one class name per line")
      ->excludes(from);
  command
      ->add_option("--on-error", flags.on_error, "corrupt image: stop, or skip it with a warning")
      ->check(CLI::IsMember({"stop", "skip"}))
      ->capture_default_str();
  command->add_flag("--json", flags.json, "print the result as one JSON object");
}

struct InfoFlags {
  DatasetConfig config;
  std::string type, mean_image;
  bool verify = false, json = false;
};

void print_description(const Json& result) {
  for (const auto& [key, value] : result.items()) {
    if (key == "classes") continue;
    std::cout << key << ": "
              << printable(value.is_string() ? value.get<std::string>() : value.dump()) << "\n";
  }
  const Json& classes = result["classes"];
  std::cout << "classes: " << classes.size();
  for (size_t i = 0; i < classes.size() && i < 10; ++i)
    std::cout << (i == 0 ? ": " : ", ") << printable(classes[i].get<std::string>());
  std::cout << (classes.size() > 10 ? ", ...\n" : "\n");
}

Json shape_json(const Shape& shape) {
  if (shape.rank() == 0) return "differs";
  return Json{shape[0], shape[1], shape[2]};
}

/// Returns an object with the shape of each auxiliary input, by name.
Json extras_json(const std::vector<AuxiliaryInput>& extras) {
  Json json = Json::object();
  for (const AuxiliaryInput& extra : extras) json[extra.name] = extra.extents;
  return json;
}

void info(InfoFlags& flags, Log& log) {
  if (!flags.mean_image.empty()) apps::refuse_existing(flags.mean_image, true);
  DatasetConfig& config = flags.config;
  config.type = flags.type.empty() ? guess_type(config.path) : flags.type;
  const auto dataset = as_config_error([&] { return open_dataset(config); });
  const DatasetDescription& about = dataset->description();
  for (const std::string& remark : about.remarks) log.warning(text(about.source, ": ", remark));
  const Shape shape =
      config.type == "images" ? shape_of_all(*dataset, live_line("measured")) : about.shape;
  Json result{
      {"type", config.type},        {"source", about.source},           {"samples", about.samples},
      {"shape", shape_json(shape)}, {"fingerprint", about.fingerprint}, {"classes", about.classes}};
  if (!about.extras.empty()) result["extras"] = extras_json(about.extras);
  int64_t corrupt = 0;
  if (flags.verify) {
    const Inspection inspection = inspect(*dataset, log, live_line("verified"));
    corrupt = inspection.corrupt;
    result["corrupt"] = corrupt;
    result["samples_of_class"] = inspection.samples_of_class;
  }
  if (!flags.mean_image.empty()) {
    AtomicFile file(flags.mean_image);
    file.write(encode_pfm(mean_image(*dataset, live_line("averaged"))));
    file.commit();
    result["mean_image"] = flags.mean_image;
  }
  if (flags.json)
    std::cout << result.dump(2) << "\n";
  else
    print_description(result);
  if (corrupt > 0)
    throw RunError(
        text(about.source, ": ", corrupt, " of ", about.samples, " samples are corrupt"));
}

/// Adds the options that describe an existing dataset.
void add_dataset(CLI::App& command, DatasetConfig& config, std::string& type) {
  command.add_option("path", config.path, "folder of the dataset")->required();
  command.add_option("--type", type, "type of the dataset; default: detected")
      ->check(CLI::IsMember({"records", "images", "mnist", "cifar10", "cifar100"}));
  command.add_option("--split", config.split, "mnist, cifar10, cifar100: part of the dataset")
      ->check(CLI::IsMember({"train", "test"}))
      ->capture_default_str();
}

void add_info(CLI::App& program, InfoFlags& flags) {
  CLI::App* command = program.add_subcommand("info", "describe a record set or another dataset");
  add_dataset(*command, flags.config, flags.type);
  command->add_flag("--verify", flags.verify, "read, check and decode every sample");
  command->add_option("--mean-image", flags.mean_image,
                      "write the mean of all samples to this PFM file");
  command->add_flag("--json", flags.json, "print the result as one JSON object");
}

struct ExportFlags {
  DatasetConfig config;
  std::string type, output;
};

void add_export(CLI::App& program, ExportFlags& flags) {
  CLI::App* command = program.add_subcommand(
      "export", "write a dataset of images of one shape to an HDF5 file for Caffe");
  add_dataset(*command, flags.config, flags.type);
  command->add_option("--output,-o", flags.output, "HDF5 file to create")->required();
}

/// Replaces this process by poseidon-export-hdf5, which contains the HDF5 library. Throws
/// ConfigError if this build does not have that program.
[[noreturn]] void export_hdf5(const ExportFlags& flags) {
  const std::string type = flags.type.empty() ? guess_type(flags.config.path) : flags.type;
  const std::string program = (own_folder() / "poseidon-export-hdf5").string();
  execl(program.c_str(), program.c_str(), type.c_str(), flags.config.split.c_str(),
        flags.config.path.c_str(), flags.output.c_str(), nullptr);
  if (errno != ENOENT)
    throw RunError(text("export: ", program, " cannot be started: ", std::strerror(errno)));
  throw ConfigError("export: requires poseidon-export-hdf5, which this build lacks (docs/data.md)");
}

struct MakeFlags {
  std::string type, output, split = "train";
  int64_t samples = 10000, seed = 1, shard_mb = 1024;
  int64_t channels = 3, height = 32, width = 32, classes = 10;
  bool json = false;
};

void make(MakeFlags& flags) {
  const uint64_t seed = static_cast<uint64_t>(flags.seed);
  const auto dataset = flags.type == "digits"
                           ? make_digits(flags.samples, flags.split, seed)
                           : make_random_pixels({flags.channels, flags.height, flags.width},
                                                flags.classes, flags.samples, seed);
  const PackReport report = pack_dataset(
      *dataset, flags.output, static_cast<uint64_t>(flags.shard_mb) << 20, live_line("made"));
  print_report(report, flags.output, flags.json);
}

void add_make(CLI::App& program, MakeFlags& flags) {
  CLI::App* command = program.add_subcommand("make", "generate a record set");
  command->add_option("type", flags.type, "digits, or random pixels")
      ->required()
      ->check(CLI::IsMember({"digits", "random"}));
  command->add_option("--output,-o", flags.output, "folder of the record set, new or empty")
      ->required();
  command->add_option("--samples", flags.samples, "number of samples")
      ->check(apps::whole_number(1, int64_t{1} << 32))
      ->capture_default_str();
  command->add_option("--seed", flags.seed, "seed of the generated samples")
      ->check(apps::whole_number(0))
      ->capture_default_str();
  command->add_option("--split", flags.split, "digits: part of the dataset")
      ->check(CLI::IsMember({"train", "test"}))
      ->capture_default_str();
  command->add_option("--channels", flags.channels, "random: channels per sample")
      ->check(apps::whole_number(1, 255));
  command->add_option("--height", flags.height, "random: rows")->check(apps::whole_number(1, 4096));
  command->add_option("--width", flags.width, "random: columns")
      ->check(apps::whole_number(1, 4096));
  command->add_option("--classes", flags.classes, "random: number of classes")
      ->check(apps::whole_number(1, 1000000));
  command->add_option("--shard-mb", flags.shard_mb, "maximum size of a file of the record set, MiB")
      ->check(apps::whole_number(1, 1 << 20))
      ->capture_default_str();
  command->add_flag("--json", flags.json, "print the result as one JSON object");
}

int run(int count, char** arguments) {
  CLI::App program{"Packs images into record sets; describes, generates and exports datasets."};
  program.require_subcommand(1);
  program.set_version_flag("--version", std::string("poseidon-data ") + POSEIDON_VERSION);
  program.footer("docs/record-format.md describes record sets byte by byte.");
  PackFlags pack_flags;
  InfoFlags info_flags;
  ExportFlags export_flags;
  MakeFlags make_flags;
  add_pack(program, pack_flags);
  add_info(program, info_flags);
  add_export(program, export_flags);
  add_make(program, make_flags);
  if (!apps::parse_command_line(program, "poseidon-data", count, arguments)) return 0;
  StandardErrorLog log;
  if (program.got_subcommand("pack")) pack(pack_flags, log);
  if (program.got_subcommand("info")) info(info_flags, log);
  if (program.got_subcommand("export")) export_hdf5(export_flags);
  if (program.got_subcommand("make")) make(make_flags);
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  return poseidon::apps::run_program("poseidon-data", count, arguments,
                                     [=] { return run(count, arguments); });
}
