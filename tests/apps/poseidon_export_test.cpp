// The program poseidon-export, with a network that poseidon-train has trained.

#include <doctest/doctest.h>
#include <sys/stat.h>

#include "core/json.h"
#include "tests/apps/program.h"
#include "tests/data/made_files.h"

using namespace poseidon;
using namespace poseidon::apps;
namespace made = poseidon::data::made;

namespace {

constexpr const char* kNetwork = R"({"name": "small",
  "input": {"channels": 1, "height": 28, "width": 28},
  "layers": [{"name": "conv", "type": "convolution", "outputs": 2, "kernel": 5},
             {"name": "bn", "type": "batch_norm"},
             {"name": "fc", "type": "linear", "outputs": 10},
             {"name": "loss", "type": "softmax_loss"}]})";
constexpr const char* kJob = R"({"name": "small", "network": "network.json",
  "data": {"train": {"type": "random", "channels": 1, "height": 28, "width": 28, "classes": 10, "samples": 64},
           "batch_per_worker": 8},
  "optimizer": {"type": "sgd", "learning_rate": 0.01},
  "train": {"steps": 3, "seed": 1}, "device": {"threads": 1}})";

Finished run(const made::Folder& folder, const std::vector<std::string>& arguments) {
  return Program("poseidon-export", arguments, folder.text()).wait();
}

}  // namespace

TEST_CASE("poseidon-export accepts a run or one of its checkpoints") {
  const made::Folder folder;
  made::write(folder / "network.json", made::bytes_of(kNetwork));
  made::write(folder / "job.json", made::bytes_of(kJob));
  const std::string trained = (folder / "run").string(), model = (folder / "m.onnx").string();
  const Finished training =
      Program("poseidon-train", {(folder / "job.json").string(), "--output", trained},
              folder.text())
          .wait();
  INFO(training.err);
  REQUIRE(training.code == 0);

  const Finished of_run = run(folder, {"onnx", trained, model, "--json"});
  INFO(of_run.err);
  REQUIRE(of_run.code == 0);
  CHECK(Json::parse(of_run.out) == Json::parse(R"({"output": ")" + model + R"(", "opset": 17,
      "outputs": ["fc"], "nodes": 4, "tensors": 8})"));
  const made::Bytes bytes = made::read(model);
  const Finished of_checkpoint =
      run(folder, {"onnx", trained + "/checkpoints/step-3.state", model, "--force"});
  CHECK(of_checkpoint.out == model +
                                 ": ONNX opset 17, 4 nodes, 8 tensors, outputs: "
                                 "fc\n");
  CHECK((made::read(model) == bytes));
  for (const char* command : {"onnx", "torchvision"}) {
    const Finished again = run(folder, {command, trained, model});
    CHECK(again.code == 2);
    CHECK(again.err == "poseidon-export: " + model +
                           ": exists already; expected a new file, or --force, which overwrites "
                           "it\n");
    CHECK((made::read(model) == bytes));
  }
  const Finished into = run(folder, {"onnx", trained, trained, "--force"});
  CHECK(into.err == "poseidon-export: " + trained + ": is a folder, expected a file to write\n");
  const std::string fifo = (folder / "fifo").string();
  REQUIRE(mkfifo(fifo.c_str(), 0600) == 0);
  const Finished over_fifo = run(folder, {"onnx", trained, fifo, "--force"});
  CHECK(over_fifo.code == 2);
  CHECK(over_fifo.err ==
        "poseidon-export: " + fifo + ": is a special file, expected a regular file to write\n");
  CHECK(std::filesystem::is_fifo(fifo));
  const Finished folded =
      run(folder, {"onnx", trained, model, "--fold-batch-norm", "--json", "--force"});
  CHECK(Json::parse(folded.out)["nodes"] == 3);

  const Finished another = run(folder, {"torchvision", trained, model, "--force"});
  CHECK(another.code == 2);
  CHECK(another.err.ends_with("got \"small\"\n"));
}

TEST_CASE("poseidon-export: usage errors exit with 2") {
  const made::Folder folder;
  CHECK(run(folder, {}).code == 2);
  CHECK(run(folder, {"--help"}).code == 0);
  CHECK(run(folder, {"onnx"}).code == 2);
  CHECK(run(folder, {}).err ==
        "poseidon-export: expected a command, got none; commands: torchvision, onnx (see "
        "poseidon-export "
        "--help)\n");
  CHECK(
      run(folder, {"onx", "a", "b"}).err ==
      "poseidon-export: unknown command \"onx\", expected one of: torchvision, onnx; did you mean "
      "\"onnx\"? (see poseidon-export --help)\n");
  CHECK(run(folder, {"onnx", "a", "b", "--forse"}).err ==
        "poseidon-export: unknown flag --forse; did you mean --force? (see poseidon-export onnx "
        "--help)\n");
  CHECK(run(folder, {"onnx"}).err ==
        "poseidon-export: source, output are required (see poseidon-export onnx --help)\n");
  const Finished nothing = run(folder, {"onnx", "nowhere", "out.onnx"});
  CHECK(nothing.code == 2);
  CHECK(nothing.err == "poseidon-export: nowhere: no such folder or file\n");
  CHECK_FALSE(std::filesystem::exists(folder / "out.onnx"));
  const Finished arch =
      Program("poseidon-import", {"torchvision", "--arch", "x", "a", "b"}, folder.text()).wait();
  CHECK(arch.code == 2);
  CHECK(arch.err.starts_with("poseidon-import: --arch: expected one of alexnet, "));
}
