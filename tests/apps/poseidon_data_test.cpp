// The program poseidon-data: exit codes, stdout and stderr, no partial output files.

#include <doctest/doctest.h>

#include "core/json.h"
#include "data/jpeg.h"
#include "tests/apps/program.h"
#include "tests/data/made_files.h"
#include "tests/support/folders.h"

using namespace poseidon;
using namespace poseidon::apps;
namespace made = poseidon::data::made;

namespace {

Finished run(const made::Folder& folder, const std::vector<std::string>& words) {
  return Program("poseidon-data", words, folder.text()).wait();
}

void write_images(const made::Folder& folder) {
  for (int i = 0; i < 4; ++i)
    made::write(folder / ("in/train/" + std::string(i % 2 == 0 ? "cat/" : "dog/") +
                          std::to_string(i) + ".ppm"),
                made::pnm(made::smooth_image(8, 8, 3, i)));
}

}  // namespace

TEST_CASE("poseidon-data packs, describes and verifies") {
  const made::Folder folder;
  write_images(folder);
  const std::string in = (folder / "in").string(), out = (folder / "sets/train").string();
  const Finished packed =
      run(folder, {"pack", in, "--prefix", "train", "--decode", "--output", out, "--json"});
  CHECK(packed.code == 0);
  const Json report = Json::parse(packed.out);
  CHECK(report["samples"] == 4);
  CHECK(report["classes"] == 2);

  const Finished described = run(folder, {"info", out, "--verify", "--json"});
  CHECK(described.code == 0);
  const Json about = Json::parse(described.out);
  CHECK(about["type"] == "records");
  CHECK(about["shape"] == Json::array({3, 8, 8}));
  CHECK(about["classes"] == Json::array({"cat", "dog"}));
  CHECK(about["samples_of_class"] == Json::array({2, 2}));
  CHECK(about["fingerprint"] == report["fingerprint"]);

  const std::string shard = out + "/00000.records";
  made::Bytes damaged = made::read(shard);
  damaged[100] ^= std::byte{1};
  made::write(shard, damaged);
  const Finished refused = run(folder, {"info", out, "--verify"});
  CHECK(refused.code == 1);
  CHECK(refused.err.find("the record's checksum does not match") != std::string::npos);
  CHECK(refused.err.find("1 of 4 samples are corrupt") != std::string::npos);
}

TEST_CASE("poseidon-data reports image shapes, ignored files and an unknown subcommand") {
  const made::Folder folder;
  write_images(folder);
  made::write(folder / "in/train/cat/x.webp", made::bytes_of("x"));
  const std::string in = (folder / "in/train").string();
  const Finished described = run(folder, {"info", in, "--json"});
  CHECK(described.code == 0);
  CHECK(Json::parse(described.out)["shape"] == Json::array({3, 8, 8}));
  CHECK(described.err.find("1 file of an unsupported format ignored (.webp 1)") !=
        std::string::npos);
  const Finished unknown = run(folder, {"inf", in});
  CHECK(unknown.code == 2);
  CHECK(unknown.err.find("unknown command \"inf\", expected one of: pack, info, export, make; did "
                         "you mean \"info\"?") != std::string::npos);
  CHECK(run(folder, {"info", in, "--jsn"}).err.find("unknown flag --jsn; did you mean --json?") !=
        std::string::npos);

  const made::Bytes photograph =
      made::with_orientation(data::encode_jpeg(made::smooth_image(12, 8, 3), 90), 6);
  made::write(folder / "photos/a/0.jpg", photograph);
  for (const std::string rule : {"apply", "ignore"}) {
    const std::string out = (folder / rule).string();
    CHECK(run(folder, {"pack", (folder / "photos").string(), "--orientation", rule, "-o", out})
              .code == 0);
    const Finished about = run(folder, {"info", out, "--json"});
    CHECK(Json::parse(about.out)["shape"] ==
          (rule == "apply" ? Json::array({3, 8, 12}) : Json::array({3, 12, 8})));
  }
}

TEST_CASE("poseidon-data: a class folder whose name is not UTF-8 is refused before any work") {
  const made::Folder folder;
  made::write(folder / "in/caf\xE9/0.ppm", made::pnm(made::smooth_image(8, 8, 3)));
  const std::string in = (folder / "in").string();
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"info", in, "--json"},
        std::vector<std::string>{"pack", in, "-o", (folder / "out").string()}}) {
    const Finished refused = run(folder, words);
    CHECK(refused.code == 2);
    CHECK(refused.err.find("/caf\\xe9: expected the name of a class folder in UTF-8") !=
          std::string::npos);
  }
}

TEST_CASE("poseidon-data makes record sets and mean images") {
  const made::Folder folder;
  const std::string out = (folder / "digits").string(), mean = (folder / "mean.pfm").string();
  CHECK(run(folder, {"make", "digits", "--samples", "50", "--output", out}).code == 0);
  CHECK(run(folder, {"info", out, "--mean-image", mean}).code == 0);
  CHECK(made::read(mean).size() == std::string("Pf\n28 28\n-1.0\n").size() + 28 * 28 * 4);
  CHECK(run(folder, {"info", out, "--mean-image", "/dev/null"}).code == 2);
  const Finished again = run(folder, {"make", "digits", "--samples", "50", "--output", out});
  CHECK(again.code == 2);
  CHECK(again.err ==
        "poseidon-data: " + out + ": exists already; expected a new or empty folder\n");
}

TEST_CASE(
    "poseidon-data: usage errors exit with 2, damaged samples with 1, and no output remains") {
  const made::Folder folder;
  write_images(folder);
  const std::string in = (folder / "in").string(), out = (folder / "out").string();
  CHECK(run(folder, {}).code == 2);
  CHECK(run(folder, {"--help"}).code == 0);
  CHECK(run(folder, {"pack", in}).code == 2);
  CHECK(run(folder, {"pack", in, "--output", out, "--quality", "101"}).code == 2);
  CHECK(run(folder, {"pack", in, "--prefix", "valid", "--output", out}).code == 2);
  made::write(folder / "torn.tar", made::bytes_of("torn"));
  CHECK(run(folder, {"pack", (folder / "torn.tar").string(), "--output", out}).code == 2);
  made::write(folder / "set/records.json", made::bytes_of("torn"));
  CHECK(run(folder, {"info", (folder / "set").string()}).code == 2);
  CHECK(
      run(folder, {"make", "digits", "--output", out, "--samples", "99999999999999999999"}).code ==
      2);
  made::write(folder / "in/train/cat/x.jpg", made::bytes_of("torn"));
  const Finished torn = run(folder, {"pack", in, "--prefix", "train", "--output", out});
  CHECK(torn.code == 1);
  CHECK(torn.err.find("cat/x.jpg: byte 0: expected a JPEG") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(out));
  CHECK(
      run(folder, {"pack", in, "--prefix", "train", "--on-error", "skip", "--output", out}).code ==
      0);
}

TEST_CASE("poseidon-data packs lists and web datasets, with and without class names") {
  const made::Folder folder;
  write_images(folder);
  made::write(folder / "list.txt", made::bytes_of("train/cat/0.ppm 1\ntrain/dog/1.ppm 0\n"));
  made::write(folder / "names.txt", made::bytes_of("n01 a dog\nn02 a cat\n"));
  const std::string list = (folder / "list.txt").string();
  const Finished packed =
      run(folder, {"pack", list, "--root", (folder / "in").string(), "--class-names",
                   (folder / "names.txt").string(), "--output", (folder / "1").string()});
  CHECK(packed.err == "");
  CHECK(packed.out == (folder / "1").string() + ": 2 samples of 2 classes\n");
  const Json about = Json::parse(run(folder, {"info", (folder / "1").string(), "--json"}).out);
  CHECK(about["classes"] == Json::array({"n01 a dog", "n02 a cat"}));

  made::Bytes tar;
  made::append_tar(tar, "a.cls", made::bytes_of("2"));
  made::append_tar(tar, "a.ppm", made::pnm(made::smooth_image(8, 8, 3, 1)));
  for (const char* name : {"0.tar", "1.tar"}) made::write(folder / name, tar);
  const Finished web =
      run(folder, {"pack", "--type", "webdataset", (folder / "0.tar").string(),
                   (folder / "1.tar").string(), "--output", (folder / "2").string()});
  CHECK(web.out == (folder / "2").string() + ": 2 samples of 3 classes\n");
  CHECK(web.err ==
        "warning: no sample has the label 0; labels count from 0, so the class \"0\" is empty\n");
}

TEST_CASE("poseidon-data finds the database readers in its own folder") {
  const made::Folder folder;
  made::write(folder / "db/data.mdb", made::bytes_of("no database"));
  const std::string db = (folder / "db").string(), out = (folder / "out").string();
  const Finished refused = run(folder, {"pack", db, "--output", out});
  CHECK(refused.code == 2);
  CHECK(refused.err.starts_with("poseidon-data: " + db + ": "));
  CHECK(refused.err.find('\n') == refused.err.size() - 1);
  const bool built =
      std::filesystem::exists(std::filesystem::path(test::program_folder()) / "poseidon-read-lmdb");
  CHECK(refused.err.find(built ? ": LMDB: " : "which this build lacks") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(out));
}
