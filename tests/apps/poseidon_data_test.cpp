// poseidon-data as a shell sees it: exit codes, what goes where, nothing half-written.

#include <doctest/doctest.h>

#include "core/json.h"
#include "tests/apps/program.h"
#include "tests/data/made_files.h"

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

TEST_CASE("poseidon-data makes record sets and mean images") {
  const made::Folder folder;
  const std::string out = (folder / "digits").string(), mean = (folder / "mean.pfm").string();
  CHECK(run(folder, {"make", "digits", "--samples", "50", "--output", out}).code == 0);
  CHECK(run(folder, {"info", out, "--mean-image", mean}).code == 0);
  CHECK(made::read(mean).size() == std::string("Pf\n28 28\n-1.0\n").size() + 28 * 28 * 4);
  const Finished again = run(folder, {"make", "digits", "--samples", "50", "--output", out});
  CHECK(again.code == 2);
  CHECK(again.err ==
        "poseidon-data: " + out + ": exists already; expected a new or empty folder\n");
}

TEST_CASE("poseidon-data: mistakes end with 2, damaged samples with 1, and leave nothing") {
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
