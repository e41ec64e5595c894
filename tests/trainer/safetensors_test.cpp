#include "trainer/state/safetensors.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "core/error.h"
#include "tests/trainer/tiny_job.h"
#include "trainer/step/named_tensor.h"

using namespace poseidon;
using namespace poseidon::trainer;

namespace {

/// A safetensors file with this header text and this number of data bytes.
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

TEST_CASE("a safetensors file that is read equals the one that was written") {
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

TEST_CASE("hostile safetensors files are refused before any allocation") {
  const TinyJob folder;
  CHECK(refusal(folder, "abc") == "is not a safetensors file: it has only 3 bytes");
  CHECK(refusal(folder, std::string(16, '\xff'))
            .starts_with("is not a safetensors file, or is truncated"));
  CHECK(refusal(folder, file_of("[]", 0)) == "expected a JSON object as header, got []");
  CHECK(refusal(folder, file_of("{", 0)).find("not valid JSON") != std::string::npos);
  const auto one = [&](const std::string& entry, size_t bytes) {
    return refusal(folder, file_of("{\"t\": " + entry + "}", bytes));
  };
  CHECK(one("3", 0).starts_with("tensor \"t\": expected dtype, shape and data_offsets"));
  CHECK(one(R"({"dtype": "F99", "shape": [1], "data_offsets": [0, 4]})", 4)
            .starts_with("tensor \"t\": expected a known dtype"));
  CHECK(one(R"({"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]})", 4)
            .starts_with("tensor \"t\": expected extents >= 0 of at most 2^60 bytes"));
  CHECK(one(R"({"dtype": "F32", "shape": [4294967296, 4294967296], "data_offsets": [0, 4]})", 4)
            .starts_with("tensor \"t\": expected extents >= 0 of at most 2^60 bytes"));
  CHECK(one(R"({"dtype": "F32", "shape": [2], "data_offsets": [0, 4]})", 4)
            .starts_with("tensor \"t\": expected offsets that fit the shape"));
  CHECK(one(R"({"dtype": "F32", "shape": [2], "data_offsets": [0, 8]})", 4) ==
        "tensor \"t\" ends at byte 8 of the data, which has only 4 (truncated?)");
}

TEST_CASE("AtomicFile: a file appears complete or not at all") {
  const TinyJob folder;
  const fs::path path = folder.folder / "whole";
  {
    AtomicFile file(path);
    file.write("half");
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(folder.folder))
    CHECK_FALSE(entry.path().filename().string().starts_with("whole"));
  write_file(path, "all");
  CHECK(read_text(path) == "all");
}

TEST_CASE("AtomicFile: two writers do not mix their bytes, and the last commit wins") {
  const TinyJob folder;
  const fs::path path = folder.folder / "shared";
  AtomicFile first(path);
  first.write("the first writer's text");
  first.sync();
  {
    AtomicFile second(path);
    second.write("the second's");
    first.commit();
    CHECK(read_text(path) == "the first writer's text");
    second.commit();
  }
  CHECK(read_text(path) == "the second's");
}

TEST_CASE("the error for a full disk names the file") {
  if (!fs::exists("/dev/full")) return;
  CHECK(error_of<RunError>([] { AppendFile("/dev/full").append("x"); }) ==
        "/dev/full: cannot be written: No space left on device");
}

TEST_CASE("overlapping tensors are refused") {
  const TinyJob folder;
  const auto header = [](const char* first, const char* second) {
    return text(R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": )", first,
                R"(}, "b": {"dtype": "F32", "shape": [1], "data_offsets": )", second, "}}");
  };
  CHECK(refusal(folder, file_of(header("[0, 8]", "[4, 8]"), 12)) ==
        "the data of tensor \"b\" overlap those of \"a\"");
  CHECK(refusal(folder, file_of(header("[4, 12]", "[2, 6]"), 12)) ==
        "the data of tensor \"a\" overlap those of \"b\"");
  CHECK(refusal(folder, file_of(header("[4, 12]", "[0, 4]"), 12)) == "");
}

TEST_CASE("fp16 and bf16 are read as floats, and integers are refused") {
  const TinyJob folder;
  const fs::path path = folder.folder / "half.safetensors";
  const std::string header =
      R"({"h": {"dtype": "F16", "shape": [7], "data_offsets": [0, 14]}, "b": {"dtype": "BF16",)"
      R"( "shape": [2], "data_offsets": [14, 18]}, "i": {"dtype": "I8", "shape": [1],)"
      R"( "data_offsets": [18, 19]}})";
  const std::vector<uint16_t> values{0x3C00, 0xC000, 0x0001, 0x7BFF, 0x7C00,
                                     0x8000, 0x3555, 0x3F80, 0xC040};
  std::string bytes = file_of(header, 19);
  std::memcpy(bytes.data() + 8 + header.size(), values.data(), 18);
  write_text(path, bytes);
  const SafetensorsFile file(path);
  const std::vector<float> halves = file.read(*file.find("h"));
  CHECK(halves[0] == 1);
  CHECK(halves[1] == -2);
  CHECK(halves[2] == 0x1p-24F);
  CHECK(halves[3] == 65504);
  CHECK(std::isinf(halves[4]));
  CHECK(std::signbit(halves[5]));
  CHECK(halves[6] == 0x1.554p-2F);
  CHECK(file.read(*file.find("b")) == std::vector<float>{1, -3});
  CHECK(error_of<RunError>([&] {
          file.read(*file.find("i"));
        }).ends_with("tensor \"i\": expected dtype F32, got I8"));
  CHECK(holds_floats("BF16"));
  CHECK_FALSE(holds_floats("I8"));
}

TEST_CASE("a wrapper prefix that all names have is removed") {
  const TinyJob folder;
  const auto names_after = [&](const std::vector<std::string>& names, const std::string& removed) {
    std::vector<NamedTensor> tensors;
    for (const std::string& name : names) tensors.push_back(tensor(name, {1}, 0));
    AtomicFile out(folder.folder / "a.safetensors");
    write_safetensors(out, tensors, {{"step", "7"}});
    out.commit();
    SafetensorsFile file(folder.folder / "a.safetensors");
    CHECK(file.remove_wrappers() == removed);
    std::string after;
    for (const auto& entry : file.entries()) after += entry.name + " ";
    return after;
  };
  CHECK(names_after({"module.a", "module.b"}, "module.") == "a b ");
  CHECK(names_after({"_orig_mod.a"}, "_orig_mod.") == "a ");
  CHECK(names_after({"module._orig_mod.a"}, "module._orig_mod.") == "a ");
  CHECK(names_after({"module.a", "b"}, "") == "module.a b ");
}
