// Files that --weights accepts.

#include <doctest/doctest.h>

#include <cstring>

#include "tests/trainer/tiny_job.h"
#include "trainer/state/run_tensors.h"
#include "trainer/state/safetensors.h"

using namespace poseidon;
using namespace poseidon::trainer;

namespace {

/// A log that keeps all lines.
class CapturedLog final : public Log {
 public:
  void info(std::string_view message) override { lines += std::string(message) + "\n"; }
  void warning(std::string_view message) override { info(message); }
  std::string lines;
};

/// The tensors to load: "ip.weight" with 4 and "ip.bias" with 2 elements.
struct Target {
  std::vector<float> weight = std::vector<float>(4), bias = std::vector<float>(2);

  RunTensors tensors() {
    const auto tensor = [](const std::string& name, const Shape& shape, std::vector<float>& into) {
      return NamedTensor{name, shape, nullptr, [&into](std::span<const float> values) {
                           into.assign(values.begin(), values.end());
                         }};
    };
    return {.weights = {tensor("ip.weight", {2, 2}, weight), tensor("ip.bias", {2}, bias)},
            .parameters = 2,
            .optimizer = {}};
  }
};

struct Stored {
  std::string name, type;
  std::vector<int64_t> shape;
  std::string bytes;
};

fs::path file_of(const TinyJob& job, const std::vector<Stored>& tensors) {
  std::vector<StoredTensor> stored;
  for (const Stored& tensor : tensors)
    stored.push_back({.name = tensor.name,
                      .type = tensor.type,
                      .shape = tensor.shape,
                      .bytes = tensor.bytes.size(),
                      .get = [&tensor](std::span<std::byte> to) {
                        std::memcpy(to.data(), tensor.bytes.data(), to.size());
                      }});
  AtomicFile file(job.folder / "w.safetensors");
  write_safetensors(file, stored, Json::object());
  file.commit();
  return job.folder / "w.safetensors";
}

std::string halves(std::initializer_list<uint16_t> values) {
  return {reinterpret_cast<const char*>(values.begin()), 2 * values.size()};
}

}  // namespace

TEST_CASE("fp16 weights with a wrapper prefix are loaded, and the message states both") {
  const TinyJob job;
  const fs::path path =
      file_of(job, {{"module.ip.weight", "F16", {2, 2}, halves({0x3C00, 0, 0x4000, 0x3C00})},
                    {"module.ip.bias", "BF16", {2}, halves({0x3F80, 0xBF80})}});
  Target target;
  const MatchReport match = load_weights(path, target.tensors());
  CHECK(target.weight == std::vector<float>{1, 0, 2, 1});
  CHECK(target.bias == std::vector<float>{1, -1});
  CapturedLog said;
  report_match(path, match, said);
  CHECK(
      said.lines ==
      path.string() +
          ": removed the prefix \"module.\" of PyTorch's wrappers from the names of its tensors\n" +
          path.string() + ": 2 tensors loaded, 2 of them converted from F16 or BF16 to F32\n");
}

TEST_CASE("integer weights are refused as a user error") {
  const TinyJob job;
  const fs::path path = file_of(job, {{"ip.bias", "I8", {2}, "ab"}});
  Target target;
  CHECK(error_of<ConfigError>([&] { load_weights(path, target.tensors()); }) ==
        "--weights " + path.string() +
            ": tensor \"ip.bias\": expected dtype F32, F16 or BF16, got I8");
}

TEST_CASE("a message lists at most five unused tensors") {
  const TinyJob job;
  std::vector<Stored> tensors{{"ip.bias", "F32", {2}, std::string(8, '\0')}};
  for (const char* name : {"a", "b", "c", "d", "e", "f", "g"})
    tensors.push_back({name, "F32", {1}, std::string(4, '\0')});
  const fs::path path = file_of(job, tensors);
  Target target;
  CapturedLog said;
  report_match(path, load_weights(path, target.tensors()), said);
  CHECK(said.lines.find("not in the network, so ignored: a, b, c, d, e and 2 more\n") !=
        std::string::npos);
}

TEST_CASE("--weights of a run uses its newest checkpoint, and of an import its file") {
  const TinyJob job;
  CapturedLog said;
  job.run("run", {"train.checkpoint_every=4"});
  CHECK(weights_file_of(job.folder / "run", said) ==
        job.folder / "run/checkpoints/step-9.safetensors");
  CHECK(weights_file_of("", said) == "");
  CHECK(weights_file_of("/no/file", said) == "/no/file");
  const fs::path folder = job.folder / "import";
  fs::create_directories(folder);
  CHECK(error_of<ConfigError>([&] { weights_file_of(folder, said); }) ==
        "--weights " + folder.string() +
            ": expected a safetensors file, a run directory with a checkpoint, or a folder with "
            "weights.safetensors");
  write_text(folder / "weights.safetensors", "");
  CHECK(weights_file_of(folder, said) == folder / "weights.safetensors");
}

TEST_CASE("the error for an unreadable file names the program that wrote it") {
  const TinyJob job;
  write_text(job.folder / "m.pt", "PK\x03\x04" + std::string(40, '.'));
  CHECK(error_of<ConfigError>([&] {
          check_weights_file(job.folder / "m.pt");
        }).find("m.pt: is a PyTorch file; convert its state dict: python3 -c") !=
        std::string::npos);
}
