#include "data/image_list.h"

#include <doctest/doctest.h>

#include "data/pack.h"
#include "data/record_set.h"
#include "data/sample_stream.h"
#include "tests/data/made_files.h"
#include "tests/support/error_of.h"

using namespace poseidon;
using namespace poseidon::data;

namespace {

PackReport pack_list(
    const std::filesystem::path& list, const std::filesystem::path& output,
    const std::function<void(PackOptions&)>& change = [](PackOptions&) {}) {
  PackOptions options;
  options.type = guess_pack_type(list);
  options.inputs = {list};
  options.output = output;
  change(options);
  SilentLog log;
  return pack_samples(options, log, [](int64_t, int64_t) {});
}

void write_listed_images(const made::Folder& folder) {
  for (int i = 0; i < 3; ++i)
    made::write(folder / ("images/sub folder/" + std::to_string(i) + ".ppm"),
                made::pnm(made::smooth_image(4, 4, 3, i)));
}

}  // namespace

TEST_CASE("image list: the label follows the last blank of a line") {
  const auto images =
      parse_image_list("a.jpg 3\n\n  with blanks in it.png\t 12 \r\n/x/c.jpg 0", "l.txt");
  REQUIRE(images.size() == 3);
  CHECK(images[0].path == "a.jpg");
  CHECK(images[0].label == 3);
  CHECK(images[1].path == "with blanks in it.png");
  CHECK(images[1].label == 12);
  CHECK(images[2].path == "/x/c.jpg");
  CHECK(images[2].label == 0);
  CHECK(parse_image_list("", "l.txt").empty());
  CHECK(list_lines(" a b \r\n\nc").size() == 2);
}

TEST_CASE("image list: a byte order mark at the start of a text is ignored") {
  const auto images = parse_image_list("\xEF\xBB\xBFred/001.ppm 0\n", "l.txt");
  REQUIRE(images.size() == 1);
  CHECK(images[0].path == "red/001.ppm");
  CHECK(list_lines("\xEF\xBB\xBFrot\r\n") == std::vector<std::string>{"rot"});
  CHECK(list_lines("\xEF\xBB\xBF").empty());
  CHECK(parse_label("\xEF\xBB\xBF 7\n", "a.cls") == 7);
}

TEST_CASE("image list: a malformed line is refused with its line number") {
  const auto fault = [](const std::string& contents) {
    return error_of<RunError>([&] { parse_image_list(contents, "l.txt"); });
  };
  CHECK(fault("a.jpg 1\nb.jpg\n") == "l.txt:2: expected \"PATH LABEL\", got \"b.jpg\"");
  CHECK(fault("a.jpg cat") == "l.txt:1: expected a label from 0 to 999999, got \"cat\"");
  CHECK(fault("a.jpg -1") == "l.txt:1: expected a label from 0 to 999999, got -1");
  CHECK(fault("a.jpg 1000000") == "l.txt:1: expected a label from 0 to 999999, got 1000000");
  CHECK(fault("a.jpg 1.5") == "l.txt:1: expected a label from 0 to 999999, got \"1.5\"");
  CHECK(fault("a.jpg 99999999999999999999") ==
        "l.txt:1: expected a label from 0 to 999999, got \"99999999999999999999\"");
}

TEST_CASE("image list: pack keeps its order; paths are relative to the list or to --root") {
  const made::Folder folder;
  write_listed_images(folder);
  const std::string lines = "sub folder/2.ppm 4\nsub folder/0.ppm 0\nsub folder/1.ppm 4\n";
  made::write(folder / "images/list.txt", made::bytes_of(lines));
  made::write(folder / "list.txt", made::bytes_of(lines));
  pack_list(folder / "images/list.txt", folder / "1");
  pack_list(folder / "list.txt", folder / "2",
            [&](PackOptions& options) { options.root = folder / "images"; });
  for (const char* name : {"1", "2"}) {
    const auto records = open_record_set((folder / name).string());
    REQUIRE(records->size() == 3);
    CHECK(records->classes() == std::vector<std::string>{"0", "1", "2", "3", "4"});
    CHECK(records->name(0).ends_with("(sub folder/2.ppm)"));
    Sample sample;
    records->read(0, sample);
    CHECK(sample.label == 4);
    CHECK(made::Bytes(sample.bytes.begin(), sample.bytes.end()) ==
          made::read(folder / "images/sub folder/2.ppm"));
    records->read(1, sample);
    CHECK(sample.label == 0);
  }
}

TEST_CASE("image list: a missing image, an out-of-range label and an empty list are refused") {
  const made::Folder folder;
  write_listed_images(folder);
  made::write(folder / "images/a.txt",
              made::bytes_of("sub folder/1.ppm 0\n\nsub folder/7.ppm 0\n"));
  CHECK(error_of<CorruptSample>([&] { pack_list(folder / "images/a.txt", folder / "out"); }) ==
        (folder / "images/a.txt").string() +
            ":3: " + (folder / "images/sub folder/7.ppm").string() +
            ": cannot be opened: No such file or directory");
  made::write(folder / "images/b.txt", made::bytes_of("sub folder/1.ppm 2\n"));
  const auto two_classes = [](PackOptions& options) { options.classes = {"cat", "dog"}; };
  CHECK(error_of<ConfigError>(
            [&] { pack_list(folder / "images/b.txt", folder / "out", two_classes); }) ==
        "sub folder/1.ppm: the label 2 is not one of the 2 classes of --classes-from or "
        "--class-names");
  made::write(folder / "images/c.txt", made::bytes_of("\n"));
  CHECK(error_of<ConfigError>([&] { pack_list(folder / "images/c.txt", folder / "out"); }) ==
        (folder / "images/c.txt").string() + ": expected lines \"PATH LABEL\", got none");
}

TEST_CASE("pack: options of another input type are refused") {
  const made::Folder folder;
  made::write(folder / "l.txt", made::bytes_of("a.jpg 1\n"));
  const auto fault = [&](const std::function<void(PackOptions&)>& change) {
    return error_of<ConfigError>([&] { pack_list(folder / "l.txt", folder / "out", change); });
  };
  CHECK(fault([](PackOptions& options) {
          options.prefix = "train";
        }).starts_with("--prefix requires "));
  CHECK(fault([](PackOptions& options) {
          options.bgr_to_rgb = true;
        }).starts_with("--bgr-to-rgb requires "));
  CHECK(fault([](PackOptions& options) {
          options.type = PackType::kWebDataset;
          options.shuffle_seed = 1;
        }).starts_with("--shuffle-seed requires "));
  CHECK(fault([&](PackOptions& options) { options.inputs.push_back(folder / "l.txt"); }) ==
        "expected one input, got 2; only --type webdataset and hdf5 accept several");
}
