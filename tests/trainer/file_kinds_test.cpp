#include "trainer/job/file_kinds.h"

#include <doctest/doctest.h>

#include "tests/trainer/tiny_job.h"

using namespace poseidon;
using namespace poseidon::trainer;
using namespace std::string_literals;

namespace {

struct Files {
  fs::path write(const std::string& name, const std::string& bytes) const {
    write_text(job.folder / name, bytes);
    return job.folder / name;
  }
  FileKind kind(const std::string& name, const std::string& bytes) const {
    return kind_of_file(write(name, bytes));
  }
  TinyJob job;
};

const std::string kZip = "PK\x03\x04"s + std::string(26, '\0');
const std::string kHdf5 = "\x89HDF\r\n\x1a\n"s;

}  // namespace

TEST_CASE("the kind of a file is recognized by its first bytes, or else by its name") {
  const Files files;
  CHECK(files.kind("a.bin", "\2\0\0\0\0\0\0\0{}"s) == FileKind::kSafetensors);
  CHECK(files.kind("a.safetensors", "\x70\0\0\0\0\0\0\0{}"s) == FileKind::kUnknown);
  CHECK(files.kind("a", kZip + "model/data.pkl") == FileKind::kPyTorch);
  CHECK(files.kind("a.pth", kZip + "archive/") == FileKind::kPyTorch);
  CHECK(files.kind("a.pt", "\x80\2\x8a\nl"s) == FileKind::kPyTorch);
  CHECK(files.kind("photos.zip", kZip + "a.png") == FileKind::kUnknown);
  CHECK(files.kind("a.h5", kHdf5) == FileKind::kHdf5);
  CHECK(files.kind("a.onnx", "\x08\x07"s) == FileKind::kOnnx);
  CHECK(files.kind("a.caffemodel", "\x0a\4name"s) == FileKind::kCaffeModel);
  CHECK(files.kind("a.caffemodel", "\x08\xe8\7\x12\x0ex.caffemodel"s) ==
        FileKind::kCaffeSolverState);
  CHECK(files.kind("a.solverstate", "\x08\xe8\7"s) == FileKind::kCaffeSolverState);
  CHECK(files.kind("a", "# by hand\n\n name: \"n\"") == FileKind::kCaffeText);
  CHECK(files.kind("a", "layer {") == FileKind::kCaffeText);
  for (const char* json : {"{\"name\": 1}", "[1]", "// name:\n{}", "", "  ", "7"})
    CHECK(files.kind("a.json", json) == FileKind::kUnknown);
  // Truncated safetensors files. The first bytes of the header length look like those of other
  // formats.
  for (const std::string& length : {"\x08\x12\1"s, "p{\1"s, "\x80\2\1"s})
    CHECK(files.kind("cut.safetensors", length + std::string(5, '\0') + "{\"a\"") ==
          FileKind::kUnknown);
  CHECK(kind_of_file(files.job.folder) == FileKind::kUnknown);
  CHECK(kind_of_file("/no/file") == FileKind::kUnknown);
}

TEST_CASE("weights of other programs are refused with the command that converts them") {
  const Files files;
  const auto advice = [&](const std::string& name, const std::string& bytes) {
    return advice_on_weights(files.write(name, bytes));
  };
  const std::string folder = files.job.folder.string();
  CHECK(advice("m.pth", kZip) ==
        "is a PyTorch file; convert its state dict: python3 -c 'import torch, safetensors.torch as "
        "s; s.save_file(torch.load(\"" +
            folder + "/m.pth\", map_location=\"cpu\", weights_only=True), \"m.safetensors\")'");
  CHECK(
      advice("m.onnx", "\x08\x07"s).starts_with("is an ONNX model; extract its weights: python3"));
  CHECK(advice("m.h5", kHdf5).starts_with("is an HDF5 file, as Keras writes it"));
  CHECK(advice("m.caffemodel.h5", kHdf5).find("snapshot_format: BINARYPROTO") != std::string::npos);
  CHECK(advice("m.caffemodel", "\x0a\1n"s)
            .find("poseidon-import caffe FOLDER --prototxt FILE "
                  "--weights " +
                  folder + "/m.caffemodel") != std::string::npos);
  CHECK(advice("m.safetensors", "\2\0\0\0\0\0\0\0{}"s) == "");
}

TEST_CASE("a file that is not a job is refused, and the message names the flag or program for it") {
  const Files files;
  const auto refused = [&](const fs::path& file) {
    SilentLog log;
    const std::string message =
        error_of<ConfigError>([&] { load_job({.file = file, .lookup = {}}, log); });
    REQUIRE(message.starts_with(file.string() + ": "));
    return message.substr(file.string().size() + 2);
  };
  fs::create_directories(files.job.folder / "run");
  const std::string run = (files.job.folder / "run").string();
  CHECK(refused(run) == "expected a file, got a folder");
  files.write("run/config.json", "{}");
  CHECK(refused(run) == "is a run directory, expected a job file; to resume the run: --resume " +
                            run + "; its job: " + run + "/config.json");
  CHECK(refused(files.job.folder / "tiny_network.json") ==
        "is a network file, expected a job file with its path in \"network\" (docs/config.md)");
  CHECK(refused(files.write("w.safetensors", "\2\0\0\0\0\0\0\0{}"s)) ==
        "holds weights, expected a job file; to train from these weights, add --weights FILE");
  CHECK(refused(files.write("solver.prototxt", "net: \"n.prototxt\"\n"))
            .starts_with("is a Caffe prototxt, expected a job file; convert network and solver: "
                         "poseidon-import caffe FOLDER"));
}
