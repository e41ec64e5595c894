#include "trainer/state/safetensors.h"

#include <doctest/doctest.h>

#include "core/error.h"
#include "tests/trainer/tiny_job.h"
#include "trainer/step/named_tensor.h"

using namespace poseidon;
using namespace poseidon::trainer;

namespace {

/// A file with a header of any text and some bytes of data.
std::string file_of(const std::string& header, size_t data_bytes) {
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + header +
         std::string(data_bytes, '\0');
}

std::string refusal(const TinyJob& folder, const std::string& bytes) {
  const fs::path path = folder.folder / "bad.safetensors";
  write_text(path, bytes);
  const std::string error = error_of<RunError>([&] { SafetensorsFile file(path); });
  const std::string prefix = path.string() + ": ";
  return error.starts_with(prefix) ? error.substr(prefix.size()) : error;
}

NamedTensor tensor(const std::string& name, const Shape& shape, float first) {
  return {name, shape,
          [first](std::span<float> out) {
            for (size_t i = 0; i < out.size(); ++i) out[i] = first + static_cast<float>(i);
          },
          nullptr};
}

}  // namespace

TEST_CASE("what is written is read back, in the format that others read") {
  const TinyJob folder;
  const fs::path path = folder.folder / "a.safetensors";
  const std::vector<NamedTensor> tensors{tensor("a.weight", {2, 3}, 1), tensor("a.bias", {2}, 10)};
  AtomicFile out(path);
  write_safetensors(out, tensors, {{"step", "7"}});
  out.commit();

  const SafetensorsFile file(path);
  CHECK(file.metadata()["step"] == "7");
  REQUIRE(file.entries().size() == 2);
  CHECK(file.read(file.entries()[0]) == std::vector<float>{1, 2, 3, 4, 5, 6});
  CHECK(file.read(*file.find("a.bias")) == std::vector<float>{10, 11});
  CHECK(file.find("b") == nullptr);

  const std::string bytes = read_text(path);
  const auto length = *reinterpret_cast<const uint64_t*>(bytes.data());
  CHECK(length % 8 == 0);
  CHECK(bytes.size() == 8 + length + 8 * sizeof(float));
  const Json header = Json::parse(bytes.substr(8, length));
  CHECK(header["a.bias"] == Json{{"dtype", "F32"}, {"shape", {2}}, {"data_offsets", {24, 32}}});
}

TEST_CASE("hostile safetensors files are refused before memory is taken") {
  const TinyJob folder;
  CHECK(refusal(folder, "abc") == "is no safetensors file: it has 3 bytes");
  CHECK(refusal(folder, std::string(16, '\xff'))
            .starts_with("is no safetensors file, or is cut off"));
  CHECK(refusal(folder, file_of("[]", 0)) == "the header is no JSON object");
  CHECK(refusal(folder, file_of("{", 0)).find("not valid JSON") != std::string::npos);
  const auto one = [&](const std::string& entry, size_t bytes) {
    return refusal(folder, file_of("{\"t\": " + entry + "}", bytes));
  };
  CHECK(one("3", 0).starts_with("tensor \"t\": expected dtype, shape and data_offsets"));
  CHECK(one(R"({"dtype": "F99", "shape": [1], "data_offsets": [0, 4]})", 4)
            .starts_with("tensor \"t\": expected a known dtype"));
  CHECK(one(R"({"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]})", 4)
            .starts_with("tensor \"t\": expected extents that can be"));
  CHECK(one(R"({"dtype": "F32", "shape": [4294967296, 4294967296], "data_offsets": [0, 4]})", 4)
            .starts_with("tensor \"t\": expected extents that can be"));
  CHECK(one(R"({"dtype": "F32", "shape": [2], "data_offsets": [0, 4]})", 4)
            .starts_with("tensor \"t\": expected offsets that fit the shape"));
  CHECK(one(R"({"dtype": "F32", "shape": [2], "data_offsets": [0, 8]})", 4) ==
        "tensor \"t\" ends at byte 8 of the data, which has only 4 (cut off?)");
}

TEST_CASE("a file appears whole or not at all") {
  const TinyJob folder;
  const fs::path path = folder.folder / "whole";
  {
    AtomicFile file(path);
    file.write("half");
  }
  CHECK_FALSE(fs::exists(path));
  CHECK_FALSE(fs::exists(path.string() + ".tmp"));
  write_file(path, "all");
  CHECK(read_text(path) == "all");
}

TEST_CASE("a disk that is full is told with the file's name") {
  if (!fs::exists("/dev/full")) return;
  CHECK(error_of<RunError>([] { AppendFile("/dev/full").append("x"); }) ==
        "/dev/full: cannot be written: No space left on device");
}
