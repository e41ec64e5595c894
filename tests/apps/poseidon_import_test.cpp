// The program poseidon-import: exit codes, stdout and stderr. poseidon-train must accept its
// output.

#include <doctest/doctest.h>

#include "core/json.h"
#include "tests/apps/program.h"
#include "tests/data/made_files.h"
#include "tests/importer/caffe_encoder.h"

using namespace poseidon;
using namespace poseidon::apps;
namespace made = poseidon::data::made;
namespace wire = poseidon::importer::made;

namespace {

Finished run(const made::Folder& folder, std::vector<std::string> words) {
  words.insert(words.begin(), "caffe");
  return Program("poseidon-import", words, folder.text()).wait();
}

std::string write(const made::Folder& folder, const std::string& name, const std::string& content) {
  made::write(folder / name, made::bytes_of(content));
  return (folder / name).string();
}

constexpr const char* kNetwork =
    "name: 'small'\n"
    "layer { name: 'd' type: 'Data' top: 'data' top: 'label' data_param { batch_size: 8 } }\n"
    "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' inner_product_param { "
    "num_output: 10 bias_term: false } }\n"
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' }\n";

}  // namespace

TEST_CASE("poseidon-import writes a network and job that poseidon-train trains and tests") {
  const made::Folder folder;
  const std::string network = write(folder, "n.prototxt", kNetwork),
                    solver = write(folder, "s.prototxt",
                                   "base_lr: 0.01 lr_policy: 'fixed' max_iter: 3 random_seed: 1"),
                    weights = write(
                        folder, "w.caffemodel",
                        wire::layer("ip", {wire::blob({10, 784}, std::vector<float>(7840, 0.5F))})),
                    out = (folder / "out").string();
  const Finished imported = run(folder, {out, "--prototxt", network, "--solver", solver,
                                         "--weights", weights, "--input", "1x28x28", "--json"});
  INFO(imported.err);
  REQUIRE(imported.code == 0);
  const Json report = Json::parse(imported.out);
  CHECK(report["parameters"] == 7840);
  CHECK(report["tensors"] == 1);
  CHECK(report["job"] == true);
  CHECK(imported.err.find("as a record set in data/train") != std::string::npos);

  CHECK(Program("poseidon-data",
                {"make", "digits", "--samples", "50", "--output", out + "/data/train"},
                folder.text())
            .wait()
            .code == 0);
  const Finished trained =
      Program("poseidon-train",
              {out + "/job.json", "--weights", out + "/weights.safetensors", "--output",
               (folder / "run").string(), "--set", "device.threads=1"},
              folder.text())
          .wait();
  INFO(trained.err);
  CHECK(trained.code == 0);
  CHECK(trained.err.find("weights.safetensors: 1 tensors loaded") != std::string::npos);
  CHECK(read_json(folder / "run/summary.json")["steps"] == 3);
}

TEST_CASE("poseidon-import: usage errors exit with 2, and no output remains") {
  const made::Folder folder;
  const std::string network = write(folder, "n.prototxt", "layer { name: 'a' type: 'Nonsense' }"),
                    out = (folder / "out").string();
  CHECK(Program("poseidon-import", {}, folder.text()).wait().code == 2);
  CHECK(run(folder, {"--help"}).code == 0);
  CHECK(run(folder, {out}).code == 2);
  const Finished unknown = run(folder, {out, "--prototxt", network, "--input", "1x2x3"});
  CHECK(unknown.code == 2);
  CHECK(unknown.err == "poseidon-import: " + network +
                           ":1:1: layer \"a\" (Nonsense): the importer does not know this type "
                           "(--skip-unknown continues without it)\n");
  const Finished shape = run(folder, {out, "--prototxt", network, "--input", "1,2,3"});
  CHECK(shape.code == 2);
  CHECK(shape.err ==
        "poseidon-import: --input: expected CHANNELSxHEIGHTxWIDTH such as 3x227x227, got 1,2,3\n");
  CHECK(run(folder, {out, "--prototxt", (folder / "none").string()}).code == 2);
  CHECK_FALSE(std::filesystem::exists(out));
}
