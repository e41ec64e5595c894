#include "data/pack.h"

#include <doctest/doctest.h>

#include "data/image_folder.h"
#include "data/inspect.h"
#include "data/jpeg.h"
#include "data/random_dataset.h"
#include "data/record_set.h"
#include "tests/data/made_files.h"
#include "tests/support/error_of.h"

using namespace poseidon;
using namespace poseidon::data;
using made::Bytes;

namespace {

const PackProgress kQuiet = [](int64_t, int64_t) {};

struct File {
  std::string name;
  Bytes bytes;
};

std::vector<File> images() {
  return {{"train/dog/b.JPG", encode_jpeg(made::smooth_image(40, 60, 3, 1), 90)},
          {"train/cat/a.jpeg", encode_jpeg(made::smooth_image(30, 20, 1, 2), 90)},
          {"train/cat/c.ppm", made::pnm(made::smooth_image(16, 16, 3, 3))},
          {"train/readme.txt", made::bytes_of("no image")},
          {"test/cat/z.ppm", made::pnm(made::smooth_image(8, 8, 3, 4))}};
}

Bytes archive() {
  Bytes tar;
  for (const File& file : images()) made::append_tar(tar, "./" + file.name, file.bytes);
  tar.resize(tar.size() + 1024);
  return tar;
}

PackReport pack(
    const std::filesystem::path& input, const std::filesystem::path& output,
    const std::function<void(PackOptions&)>& change = [](PackOptions&) {}) {
  PackOptions options;
  options.inputs = {input};
  options.output = output;
  options.prefix = "train";
  change(options);
  SilentLog log;
  return pack_samples(options, log, kQuiet);
}

}  // namespace

TEST_CASE("pack: a folder, a tar and a tar.gz produce the same bytes") {
  const made::Folder folder;
  for (const File& file : images()) made::write(folder / ("tree/" + file.name), file.bytes);
  made::write(folder / "a.tar", archive());
  made::write(folder / "a.tar.gz", made::gzipped(archive()));
  const PackReport report = pack(folder / "tree", folder / "1");
  CHECK(report.samples == 3);
  CHECK(report.classes == 2);
  pack(folder / "a.tar", folder / "2");
  pack(folder / "a.tar.gz", folder / "3");
  for (const char* file : {"00000.records", "records.json"}) {
    CHECK(made::read(folder / "1" / file) == made::read(folder / "2" / file));
    CHECK(made::read(folder / "1" / file) == made::read(folder / "3" / file));
  }
  const auto dataset = open_record_set((folder / "1").string());
  Sample sample;
  dataset->read(2, sample);
  CHECK(sample.label == 1);
  CHECK(Bytes(sample.bytes.begin(), sample.bytes.end()) == images()[0].bytes);
  CHECK(dataset->name(2).ends_with("(dog/b.JPG)"));
}

TEST_CASE("pack: the options for decoding, resizing and shuffling take effect") {
  const made::Folder folder;
  made::write(folder / "a.tar", archive());
  pack(folder / "a.tar", folder / "raw", [](PackOptions& options) { options.decode = true; });
  Sample sample;
  const auto raw = open_record_set((folder / "raw").string());
  raw->read(1, sample);
  CHECK(sample.form == SampleForm::kPixels);
  const Image expected = made::smooth_image(16, 16, 3, 3);
  CHECK(Bytes(sample.bytes.begin(), sample.bytes.end()) ==
        Bytes(reinterpret_cast<const std::byte*>(expected.pixels.data()),
              reinterpret_cast<const std::byte*>(expected.pixels.data()) + 768));
  pack(folder / "a.tar", folder / "small", [](PackOptions& options) { options.resize_short = 20; });
  const auto small = open_record_set((folder / "small").string());
  small->read(2, sample);
  CHECK(sample.height == 20);
  CHECK(sample.width == 30);
  small->read(1, sample);
  CHECK(sample.height == 16);  // never enlarged
  SilentLog log;
  CHECK(inspect(*small, log, kQuiet).corrupt == 0);
  pack(folder / "a.tar", folder / "mixed", [](PackOptions& options) { options.shuffle_seed = 1; });
  CHECK(inspect(*open_record_set((folder / "mixed").string()), log, kQuiet).samples_of_class ==
        std::vector<int64_t>{2, 1});
}

TEST_CASE("pack: corrupt images stop it or are skipped, and no partial output remains") {
  const made::Folder folder;
  for (const File& file : images()) made::write(folder / ("tree/" + file.name), file.bytes);
  made::write(folder / "tree/train/cat/b.jpg", made::bytes_of("not an image"));
  CHECK_THROWS_WITH_AS(pack(folder / "tree", folder / "out"),
                       doctest::Contains("cat/b.jpg: byte 0: expected a JPEG"), CorruptSample);
  CHECK_FALSE(std::filesystem::exists(folder / "out"));
  const std::filesystem::directory_iterator at(folder.text()), end;
  CHECK(std::distance(at, end) == 1);
  const PackReport report = pack(folder / "tree", folder / "out",
                                 [](PackOptions& options) { options.on_error = OnError::kSkip; });
  CHECK(report.samples == 3);
  CHECK(report.skipped == 1);
}

TEST_CASE("pack: the error names a wrong prefix or an unknown class") {
  const made::Folder folder;
  made::write(folder / "a.tar", archive());
  CHECK_THROWS_WITH_AS(pack(folder / "a.tar", folder / "out",
                            [](PackOptions& options) { options.prefix = "valid"; }),
                       doctest::Contains("--prefix: there is no folder \"valid\"; the input has "),
                       ConfigError);
  CHECK_THROWS_WITH_AS(
      pack(folder / "a.tar", folder / "out",
           [](PackOptions& options) { options.classes = {"cat"}; }),
      doctest::Contains(
          "the class \"dog\" is not one of the 1 classes of --classes-from or --class-names"),
      ConfigError);
}

TEST_CASE("pack: a generated dataset is packed unchanged") {
  const made::Folder folder;
  const auto random = make_random_pixels({2, 3, 4}, 5, 20, 1);
  pack_dataset(*random, folder / "out", 1 << 20, kQuiet);
  const auto records = open_record_set((folder / "out").string());
  CHECK(records->description().shape == Shape{2, 3, 4});
  Sample a, b;
  for (int64_t i = 0; i < 20; ++i) {
    random->read(i, a);
    records->read(i, b);
    CHECK(a.label == b.label);
    CHECK(std::equal(a.bytes.begin(), a.bytes.end(), b.bytes.begin(), b.bytes.end()));
  }
}

TEST_CASE("image folder: sorted folders become classes, their sorted images become samples") {
  const made::Folder folder;
  for (const File& file : images()) made::write(folder / ("tree/" + file.name), file.bytes);
  made::write(folder / "tree/train/.hidden/x.jpg", made::bytes_of("x"));
  const auto dataset = open_image_folder((folder / "tree/train").string());
  CHECK(dataset->classes() == std::vector<std::string>{"cat", "dog"});
  CHECK(dataset->size() == 3);
  CHECK(dataset->name(0).ends_with("train/cat/a.jpeg"));
  Sample sample;
  dataset->read(2, sample);
  CHECK(sample.label == 1);
  CHECK(Bytes(sample.bytes.begin(), sample.bytes.end()) == images()[0].bytes);
  CHECK(guess_type((folder / "tree/train").string()) == "images");
  CHECK_THROWS_AS(open_image_folder((folder / "none").string()), ConfigError);
  std::filesystem::create_directories(folder / "empty/cat");
  CHECK_THROWS_WITH_AS(open_image_folder((folder / "empty").string()),
                       doctest::Contains("got 1 folders and no image"), ConfigError);
}

TEST_CASE("image folder: an empty class folder is a class, read directly or packed") {
  const made::Folder folder;
  const Bytes pixels = made::pnm(made::smooth_image(8, 8, 3));
  made::write(folder / "in/cat/1.ppm", pixels);
  made::write(folder / "in/emu/1.ppm", pixels);
  std::filesystem::create_directories(folder / "in/dog");
  Bytes tar;
  made::append_tar(tar, "in/cat/1.ppm", pixels);
  made::append_tar(tar, "in/dog/", {}, '5');
  made::append_tar(tar, "in/emu/1.ppm", pixels);
  made::write(folder / "in.tar", tar);
  const auto whole = [](PackOptions& options) { options.prefix = ""; };
  pack(folder / "in", folder / "1", whole);
  pack(folder / "in.tar", folder / "2", [](PackOptions& options) { options.prefix = "in"; });
  const auto read = open_image_folder((folder / "in").string());
  CHECK(read->description().remarks ==
        std::vector<std::string>{
            "the class folder \"dog\" holds no image; it counts as a class without samples"});
  Sample sample;
  const auto packed = open_record_set((folder / "1").string());
  const auto unpacked = open_record_set((folder / "2").string());
  for (const Dataset* dataset : {read.get(), packed.get(), unpacked.get()}) {
    CHECK(dataset->classes() == std::vector<std::string>{"cat", "dog", "emu"});
    dataset->read(1, sample);
    CHECK(sample.label == 2);
  }
}

TEST_CASE("mean image: samples of other than 1 or 3 channels are refused") {
  const auto none = [](int64_t, int64_t) {};
  CHECK(mean_image(*make_random_pixels({3, 4, 5}, 7, 2, 1), none).channels == 3);
  const auto two = make_random_pixels({2, 4, 5}, 7, 2, 1);
  CHECK_THROWS_WITH_AS(
      mean_image(*two, none),
      (two->name(0) + ": has 2 channels, expected 1 or 3 for a mean image").c_str(), ConfigError);
  CHECK_THROWS_AS(encode_pfm({.height = 1, .width = 1, .channels = 2, .values = {0, 0}}),
                  LogicError);
}

TEST_CASE("image folder: symbolic links are followed or refused, never silently ignored") {
  namespace fs = std::filesystem;
  const made::Folder folder;
  const Bytes pixels = made::pnm(made::smooth_image(8, 8, 3));
  made::write(folder / "elsewhere/1.ppm", pixels);
  fs::create_directories(folder / "in/dog");
  fs::create_directory_symlink(folder / "elsewhere", folder / "in/cat");
  fs::create_symlink(folder / "elsewhere/1.ppm", folder / "in/dog/2.ppm");
  const auto whole = [](PackOptions& options) { options.prefix = ""; };
  CHECK(pack(folder / "in", folder / "out", whole).samples == 2);
  CHECK(open_image_folder((folder / "in").string())->size() == 2);

  const std::string link = (folder / "in/dog/3.ppm").string();
  const auto refusal = [&] {
    return error_of<ConfigError>([&] { open_image_folder((folder / "in").string()); });
  };
  fs::create_symlink("/no/such.ppm", link);
  CHECK(refusal() == link + ": is a link to \"/no/such.ppm\", which does not exist");
  CHECK(error_of<ConfigError>([&] { pack(folder / "in", folder / "out2", whole); }) == refusal());
  fs::remove(link);
  fs::create_directory_symlink(folder / "in", link);
  CHECK(refusal() == link +
                         ": is a link to a folder, expected files and folders; only a class "
                         "folder itself may be a link");
  fs::remove(link);
  fs::create_symlink(link, link);
  CHECK(refusal().find(link + ": ") == 0);

  Bytes tar;
  made::append_tar(tar, "cat/1.ppm", pixels);
  made::append_tar(tar, "cat/2.ppm", {}, '2');
  made::write(folder / "in.tar", tar);
  CHECK(error_of<ConfigError>([&] { pack(folder / "in.tar", folder / "out3", whole); }) ==
        (folder / "in.tar").string() +
            ": cat/2.ppm: is a link, expected a file; create the archive with tar --dereference "
            "--hard-dereference, which stores no links");
}
