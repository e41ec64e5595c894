#include "data/image_folder.h"

#include <doctest/doctest.h>

#include "data/inspect.h"
#include "data/pack.h"
#include "data/record_set.h"
#include "data/tar.h"
#include "data/web_dataset.h"
#include "tests/data/made_files.h"
#include "tests/data/recording_log.h"
#include "tests/support/error_of.h"

using namespace poseidon;
using namespace poseidon::data;
using made::Bytes;

namespace {

const PackProgress kQuiet = [](int64_t, int64_t) {};

/// Names of nine images in three classes, and of copies in hidden folders that a data set must
/// ignore.
std::vector<std::string> names_with_hidden_ones() {
  std::vector<std::string> names;
  for (const std::string name : {"blue", "green", "red"})
    for (const char* file : {"0.ppm", "1.ppm", "sub/2.ppm"}) names.push_back(name + "/" + file);
  for (const char* name : {"red/.ipynb_checkpoints/0-checkpoint.ppm", "red/sub/.cache/deep/0.ppm",
                           "red/._0.ppm", ".git/0.ppm", "@eaDir/0.ppm", "blue/@eaDir/0.ppm",
                           "__MACOSX/blue/0.ppm", "lost+found/0.ppm", "blue/sub/__MACOSX/0.ppm"})
    names.push_back(name);
  return names;
}

Bytes image() { return made::pnm(made::smooth_image(4, 4, 3)); }

void write_tree(const std::filesystem::path& folder, const std::vector<std::string>& names) {
  for (const std::string& name : names) made::write(folder / name, image());
}

void write_tar(const std::filesystem::path& file, const std::vector<std::string>& names) {
  Bytes tar;
  for (const std::string& name : names) made::append_tar(tar, "./" + name, image());
  tar.resize(tar.size() + 1024);
  made::write(file, tar);
}

struct Packed {
  PackReport report;
  std::vector<std::string> warnings;
};

Packed pack(const std::filesystem::path& input, const std::string& prefix = "") {
  const made::Folder folder;
  PackOptions options;
  options.type = guess_pack_type(input);
  options.inputs = {input};
  options.output = folder / "out";
  options.prefix = prefix;
  RecordingLog log;
  const PackReport report = pack_samples(options, log, kQuiet);
  return {report, log.sorted()};
}

std::string refusal(const std::filesystem::path& input, const std::string& prefix = "") {
  return error_of<ConfigError>([&] { pack(input, prefix); });
}

std::string folder_refusal(const std::filesystem::path& folder) {
  return error_of<ConfigError>([&] { open_image_folder(folder.string()); });
}

}  // namespace

TEST_CASE("image folder: hidden files and system folders are ignored at any depth") {
  const made::Folder folder;
  write_tree(folder / "tree", names_with_hidden_ones());
  write_tar(folder / "a.tar", names_with_hidden_ones());
  const std::string remark =
      "system folders ignored: \"@eaDir\", \"__MACOSX\", \"blue/@eaDir\", \"blue/sub/__MACOSX\", "
      "\"lost+found\"";
  const auto dataset = open_image_folder((folder / "tree").string());
  CHECK(dataset->size() == 9);
  CHECK(dataset->classes() == std::vector<std::string>{"blue", "green", "red"});
  CHECK(dataset->description().remarks == std::vector<std::string>{remark});
  for (const char* input : {"tree", "a.tar"}) {
    const Packed packed = pack(folder / input);
    CHECK(packed.report.samples == 9);
    CHECK(packed.report.classes == 3);
    CHECK(packed.warnings == std::vector<std::string>{remark});
  }
}

TEST_CASE("web dataset: hidden members and members of system folders are ignored") {
  std::vector<TarEntry> entries;
  for (const char* name : {"./a.jpg", "./a.cls", "./._a.jpg", "__MACOSX/._a.jpg", ".hidden/b.jpg"})
    entries.push_back({.name = name});
  const auto samples = list_web_samples(entries);
  REQUIRE(samples.size() == 1);
  CHECK(samples[0].fault.empty());
}

TEST_CASE("image folder: a warning counts the ignored images of unsupported formats") {
  const made::Folder folder;
  const std::vector<std::string> names{"red/0.ppm",  "red/1.webp",   "red/2.WebP", "blue/0.ppm",
                                       "blue/1.tif", "green/0.webp", "top.ppm",    "red/notes.txt"};
  write_tree(folder / "tree", names);
  write_tar(folder / "a.tar", names);
  const std::vector<std::string> remarks{
      "the class folder \"green\" holds no image of a supported format (.webp 1); it counts as a "
      "class without samples",
      "4 files of unsupported formats ignored (.webp 3, .tif 1); supported: .jpg, .jpeg, .png, "
      ".bmp, .ppm, .pgm, .pnm",
      "1 image outside of the class folders ignored"};
  const auto dataset = open_image_folder((folder / "tree").string());
  CHECK(dataset->size() == 2);
  CHECK(dataset->description().remarks == remarks);
  std::vector<std::string> sorted = remarks;
  std::ranges::sort(sorted);
  for (const char* input : {"tree", "a.tar"}) {
    const Packed packed = pack(folder / input);
    CHECK(packed.report.samples == 2);
    CHECK(packed.warnings == sorted);
  }
  write_tree(folder / "other", {"red/0.gif"});
  const std::string only =
      "1 file of an unsupported format ignored (.gif 1); supported: .jpg, .jpeg, .png, .bmp, .ppm, "
      ".pgm, .pnm";
  CHECK(folder_refusal(folder / "other").ends_with("got 1 folders and no image; " + only));
  CHECK(refusal(folder / "other").ends_with("got none; " + only));
}

TEST_CASE("image folder: the error names a class folder whose name is not UTF-8") {
  const made::Folder folder;
  const std::string name = "caf\xE9";
  write_tree(folder / "tree", {"red/0.ppm", name + "/0.ppm"});
  write_tar(folder / "a.tar", {"red/0.ppm", name + "/0.ppm"});
  const std::string what =
      ": expected the name of a class folder in UTF-8, got other bytes; rename the folder";
  CHECK(folder_refusal(folder / "tree") == (folder / "tree").string() + "/caf\\xe9" + what);
  CHECK(refusal(folder / "tree") == (folder / "tree").string() + "/caf\\xe9" + what);
  CHECK(refusal(folder / "a.tar") == (folder / "a.tar").string() + ": caf\\xe9" + what);
}

TEST_CASE("image folder: the error for another dataset type or a wrong prefix states the remedy") {
  const made::Folder folder;
  write_tree(folder / "tree", {"train/red/0.ppm", "test/red/1.ppm"});
  write_tar(folder / "a.tar", {"train/red/0.ppm", "test/red/1.ppm"});
  PackOptions options;
  options.inputs = {folder / "tree/train"};
  options.output = folder / "set";
  SilentLog log;
  pack_samples(options, log, kQuiet);
  CHECK(folder_refusal(folder / "set")
            .ends_with("; it looks like a dataset of \"type\": \"records\""));
  CHECK(folder_refusal(folder / "a.tar") ==
        (folder / "a.tar").string() +
            ": expected a folder with a folder per class, got a file; convert an archive or a list "
            "with poseidon-data pack, and use \"type\": \"records\"");
  made::write(folder / "db/data.mdb", made::bytes_of("x"));
  CHECK(folder_refusal(folder / "db").find("poseidon-data pack") != std::string::npos);
  CHECK(refusal(folder / "tree", "val") ==
        (folder / "tree").string() +
            ": --prefix: there is no folder \"val\"; the input has \"test\", \"train\"");
  CHECK(refusal(folder / "tree", "train/x") == (folder / "tree").string() +
                                                   ": --prefix: there is no folder \"train/x\"; "
                                                   "\"train\" has \"red\"");
  CHECK(refusal(folder / "a.tar", "val") ==
        (folder / "a.tar").string() +
            ": --prefix: there is no folder \"val\"; the input has \"test\", \"train\"");
}

TEST_CASE("pack: the error names the type of an unsupported archive") {
  const made::Folder folder;
  const auto told = [&](const std::string& bytes) {
    made::write(folder / "x.zip", made::bytes_of(bytes));
    return refusal(folder / "x.zip");
  };
  CHECK(told("PK\3\4 and more") ==
        (folder / "x.zip").string() +
            ": is a zip archive, which is not supported; expected a folder, a .tar or a .tar.gz: "
            "unpack it and pack the folder");
  CHECK(told("BZh9 and more").find(": is compressed by bzip2, ") != std::string::npos);
  CHECK(told("\xFD"
             "7zXZ")
            .find(": is compressed by xz, ") != std::string::npos);
  CHECK(told("7z\xBC\xAF").find(": is a 7z archive, ") != std::string::npos);
  CHECK(told("").find("the tar archive is truncated") != std::string::npos);
}

TEST_CASE("inspect: a folder of images has a shape only if all images have the same shape") {
  const made::Folder folder;
  write_tree(folder / "tree", {"red/0.ppm", "blue/0.ppm"});
  const auto dataset = open_image_folder((folder / "tree").string());
  CHECK(shape_of_all(*dataset, kQuiet) == Shape{3, 4, 4});
  made::write(folder / "tree/red/1.jpg", made::bytes_of("no image"));
  CHECK(shape_of_all(*open_image_folder((folder / "tree").string()), kQuiet) == Shape{3, 4, 4});
  made::write(folder / "tree/red/2.ppm", made::pnm(made::smooth_image(4, 5, 3)));
  CHECK(shape_of_all(*open_image_folder((folder / "tree").string()), kQuiet).rank() == 0);
}
