#include "data/web_dataset.h"

#include <doctest/doctest.h>

#include "data/pack.h"
#include "data/record_set.h"
#include "tests/data/made_files.h"
#include "tests/support/error_of.h"

using namespace poseidon;
using namespace poseidon::data;
using made::Bytes;

namespace {

using Members = std::vector<std::pair<std::string, Bytes>>;

Bytes tar_of(const Members& members) {
  Bytes tar;
  for (const auto& [name, content] : members) made::append_tar(tar, name, content);
  tar.resize(tar.size() + 1024);
  return tar;
}

Bytes picture(int64_t phase) { return made::pnm(made::smooth_image(4, 6, 3, phase)); }

PackReport pack_tars(const std::vector<std::filesystem::path>& tars,
                     const std::filesystem::path& output, OnError on_error = OnError::kStop) {
  PackOptions options;
  options.type = PackType::kWebDataset;
  options.inputs = tars;
  options.output = output;
  options.on_error = on_error;
  SilentLog log;
  return pack_samples(options, log, [](int64_t, int64_t) {});
}

}  // namespace

TEST_CASE("web dataset: members with the same stem form one sample") {
  std::vector<TarEntry> entries;
  for (const char* name :
       {"a/",        "a/1.cls", "a/1.json", "a/1.JPG", "a/1.mask.png", "b.d/1.png",
        "b.d/1.cls", "2.txt",   "3.cls",    "4.jpeg",  "5.cls",        "5.cls",
        "5.png",     "6.cls",   "6.cls",    "7.png",   "7.jpg",        "8.png",
        "8.jpg",     "8.bmp",   "8.cls",    "8.cls"})
    entries.push_back({name, 0, 0, std::string(name) == "a/" ? TarKind::kFolder : TarKind::kFile});
  const std::vector<WebSample> samples = list_web_samples(entries);
  REQUIRE(samples.size() == 8);
  CHECK(samples[0].stem == "a/1");
  CHECK(samples[0].image == 3);
  CHECK(samples[0].label == 1);
  CHECK(samples[0].fault == "");
  CHECK(samples[1].stem == "b.d/1");
  CHECK(samples[1].image == 5);
  CHECK(samples[2].fault == "has a label (.cls) and no image");
  CHECK(samples[3].fault == "has an image and no label (.cls)");
  CHECK(samples[4].fault == "has several labels (.cls)");
  CHECK(samples[5].fault == "has several labels (.cls) and no image");
  CHECK(samples[6].fault == "has several images and no label (.cls)");
  CHECK(samples[7].fault == "has several images and several labels (.cls)");
}

TEST_CASE("web dataset: plain and compressed archives are packed in the given order") {
  const made::Folder folder;
  made::write(folder / "0.tar", tar_of({{"x.ppm", picture(1)},
                                        {"x.cls", made::bytes_of("3")},
                                        {"w.cls", made::bytes_of(" 1\n")},
                                        {"w.json", made::bytes_of("{}")},
                                        {"w.ppm", picture(2)}}));
  made::write(folder / "1.tar.gz",
              made::gzipped(tar_of({{"x.ppm", picture(3)}, {"x.cls", made::bytes_of("0")}})));
  const PackReport report = pack_tars({folder / "0.tar", folder / "1.tar.gz"}, folder / "out");
  CHECK(report.samples == 3);
  CHECK(report.classes == 4);
  const auto records = open_record_set((folder / "out").string());
  Sample sample;
  const std::vector<int32_t> labels{3, 1, 0};
  for (int64_t i = 0; i < 3; ++i) {
    records->read(i, sample);
    CHECK(sample.label == labels[static_cast<size_t>(i)]);
    CHECK(Bytes(sample.bytes.begin(), sample.bytes.end()) == picture(i + 1));
  }
}

TEST_CASE("web dataset: incomplete samples stop the pack or are skipped") {
  const made::Folder folder;
  made::write(folder / "a.tar", tar_of({{"1.ppm", picture(1)},
                                        {"2.ppm", picture(2)},
                                        {"2.cls", made::bytes_of("cat")},
                                        {"3.ppm", picture(3)},
                                        {"3.cls", made::bytes_of("0")}}));
  CHECK(error_of<CorruptSample>([&] { pack_tars({folder / "a.tar"}, folder / "out"); }) ==
        (folder / "a.tar").string() + ": 1: has an image and no label (.cls)");
  const PackReport report = pack_tars({folder / "a.tar"}, folder / "out", OnError::kSkip);
  CHECK(report.samples == 1);
  CHECK(report.skipped == 2);
  made::write(folder / "b.tar", tar_of({{"cat/1.txt", {}}}));
  CHECK(error_of<ConfigError>([&] { pack_tars({folder / "b.tar"}, folder / "out2"); }) ==
        (folder / "b.tar").string() +
            ": expected members <name>.jpg (or .png, .bmp, .ppm) and <name>.cls, got none");
}
