// Tests that only apply to HDF5 files.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>

#include "data/pack.h"
#include "data/random_dataset.h"
#include "data/record_set.h"
#include "tests/data/made_files.h"
#include "tests/readers/made_hdf5.h"
#include "tests/support/error_of.h"
#include "tests/support/folders.h"

using namespace poseidon;
using namespace poseidon::readers::made;
using data::made::Folder;

namespace {

/// Two samples of one pixel.
struct TwoSamples {
  std::vector<double> values{1, 2};
  std::vector<int> labels{3, 0};
  HdfDataset data{
      .name = "data", .extents = {2, 1}, .type = H5T_NATIVE_DOUBLE, .values = values.data()};
  HdfDataset label{
      .name = "label", .extents = {2, 1}, .type = H5T_NATIVE_INT, .values = labels.data()};
};

data::PackReport pack(const Folder& folder, const std::filesystem::path& input,
                      const std::vector<std::string>& extras = {}) {
  data::PackOptions options;
  options.extras = extras;
  options.type = data::guess_pack_type(input);
  options.inputs = {input};
  options.output = folder / "out";
  options.programs = test::program_folder();
  std::filesystem::remove_all(options.output);
  SilentLog log;
  return data::pack_samples(options, log, [](int64_t, int64_t) {});
}

/// The error of packing a file with these datasets, after the file's name.
std::string fault(const std::vector<HdfDataset>& datasets,
                  const std::vector<std::string>& extras = {}) {
  const Folder folder;
  make_hdf5(folder / "f.h5", datasets);
  const std::string error =
      error_of<std::runtime_error>([&] { pack(folder, folder / "f.h5", extras); });
  const std::string begin = (folder / "f.h5").string() + ": ";
  return error.starts_with(begin) ? error.substr(begin.size()) : "no file: " + error;
}

}  // namespace

TEST_CASE("HDF5: rows of doubles and of bytes are read from a list of files") {
  const Folder folder;
  const TwoSamples two;
  make_hdf5(folder / "a.h5", {two.data, two.label});
  const std::vector<uint8_t> bytes{9, 8, 7, 6};
  make_hdf5(
      folder / "b.h5",
      {{.name = "data", .extents = {2, 1, 2}, .type = H5T_NATIVE_UCHAR, .values = bytes.data()},
       two.label});
  data::made::write(folder / "list.txt", data::made::bytes_of("a.h5\nb.h5\n"));
  CHECK(pack(folder, folder / "list.txt").samples == 4);
  const auto records = data::open_record_set((folder / "out").string());
  data::Sample sample;
  records->read(1, sample);
  CHECK(sample.label == 0);
  CHECK(data::made::Bytes(sample.bytes.begin(), sample.bytes.end()) ==
        data::made::Bytes{std::byte{2}});
  CHECK(records->name(1).ends_with("(a.h5/0000000001)"));
  records->read(2, sample);
  CHECK(sample.label == 3);
  CHECK(data::made::Bytes(sample.bytes.begin(), sample.bytes.end()) ==
        data::made::Bytes{std::byte{9}, std::byte{8}});
}

TEST_CASE("HDF5: the error names values and labels that a record set cannot store") {
  TwoSamples two;
  two.values[1] = 0.25;
  CHECK(fault({two.data, two.label}) ==
        "f.h5/0000000001: expected integers from 0 to 255, as a record set stores 8-bit pixels, "
        "got 0.25");
  two.values[1] = 2;
  CHECK(fault({two.data}) == "expected datasets \"data\" and \"label\", got no \"label\"");
  const std::vector<double> halves{1, 0.5, 2, 3};
  HdfDataset label = two.label;
  label.type = H5T_NATIVE_DOUBLE;
  label.values = halves.data();
  CHECK(fault({two.data, label}) == "\"label\": expected integers, got 0.5 in row 1");
  label.extents = {2, 2};
  CHECK(fault({two.data, label}) ==
        "\"label\": expected one label for each of 2 samples, got 2 rows of 2; a record set stores "
        "one label per sample");
  label.extents = {4};
  CHECK(fault({two.data, label}) ==
        "\"label\": expected one label for each of 2 samples, got 4 rows of 1; a record set stores "
        "one label per sample");
  HdfDataset deep = two.data;
  deep.extents = {2, 1, 1, 1, 1};
  CHECK(fault({deep, two.label}) == "\"data\": expected 1 to 4 extents, got 5");
}

TEST_CASE("HDF5: a dataset that is stored in another file is refused") {
  const Folder folder;
  data::made::write(folder / "secret", data::made::bytes_of("secrets that are long enough"));
  const hid_t file = H5Fcreate((folder / "f.h5").c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const hsize_t extents[] = {2, 1};
  const hid_t space = H5Screate_simple(2, extents, nullptr);
  const hid_t plan = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_external(plan, (folder / "secret").c_str(), 0, 2);
  H5Dclose(H5Dcreate2(file, "data", H5T_NATIVE_UCHAR, space, H5P_DEFAULT, plan, H5P_DEFAULT));
  H5Pclose(plan);
  H5Sclose(space);
  H5Lcreate_external((folder / "secret").c_str(), "label", file, "label", H5P_DEFAULT, H5P_DEFAULT);
  H5Fclose(file);
  CHECK(error_of<ConfigError>([&] { pack(folder, folder / "f.h5"); }) ==
        (folder / "f.h5").string() +
            ": \"data\": is stored in other files; expected its values in this file");
}

TEST_CASE("HDF5: export and pack reproduce a record set") {
  const Folder folder;
  const auto random = data::make_random_pixels({3, 4, 5}, 7, 30, 1);
  data::pack_dataset(*random, folder / "set", 1 << 20, [](int64_t, int64_t) {});
  const auto export_set = [&] {
    const std::string program = test::program_folder() + "/poseidon-export-hdf5";
    return std::system((program + " records train " + (folder / "set").string() + " " +
                        (folder / "f.h5").string() + " >" + (folder / "said").string() + " 2>&1")
                           .c_str());
  };
  CHECK(export_set() == 0);
  CHECK(pack(folder, folder / "f.h5").samples == 30);
  const auto packed = data::open_record_set((folder / "out").string());
  data::Sample expected, got;
  for (int64_t i = 0; i < 30; ++i) {
    random->read(i, expected);
    packed->read(i, got);
    CHECK(got.label == expected.label);
    CHECK(std::ranges::equal(got.bytes, expected.bytes));
  }
  CHECK(WEXITSTATUS(export_set()) == 2);
  CHECK(
      data::made::read(folder / "said") ==
      data::made::bytes_of("poseidon-data: " + (folder / "f.h5").string() + ": exists already\n"));
}

TEST_CASE("HDF5: export without standard output, next to a file of the name OUTPUT.tmp") {
  const Folder folder;
  const auto random = data::make_random_pixels({3, 4, 5}, 7, 30, 1);
  data::pack_dataset(*random, folder / "set", 1 << 20, [](int64_t, int64_t) {});
  data::made::write(folder / "f.h5.tmp", data::made::bytes_of("of another program"));
  const std::string program = test::program_folder() + "/poseidon-export-hdf5";
  CHECK(std::system((program + " records train " + (folder / "set").string() + " " +
                     (folder / "f.h5").string() + " >&-")
                        .c_str()) == 0);
  CHECK(pack(folder, folder / "f.h5").samples == 30);
  CHECK(data::made::read(folder / "f.h5.tmp") == data::made::bytes_of("of another program"));
}

namespace {

std::vector<float> extras_of(const data::Sample& sample) {
  std::vector<float> values(sample.extras.size() / sizeof(float));
  std::ranges::copy(sample.extras, std::as_writable_bytes(std::span(values)).begin());
  return values;
}

}  // namespace

TEST_CASE("HDF5: requested datasets become auxiliary inputs in the requested order") {
  const Folder folder;
  const TwoSamples two;
  const std::vector<double> pose{0.5, -1, 2, 3}, map{1, 2, 3, 4, 5, 6, 7, 8};
  const std::vector<int> weight{5, 6};
  make_hdf5(
      folder / "f.h5",
      {two.data,
       two.label,
       {.name = "pose", .extents = {2, 2}, .type = H5T_NATIVE_DOUBLE, .values = pose.data()},
       {.name = "map", .extents = {2, 1, 2, 2}, .type = H5T_NATIVE_DOUBLE, .values = map.data()},
       {.name = "weight", .extents = {2}, .type = H5T_NATIVE_INT, .values = weight.data()}});
  CHECK(pack(folder, folder / "f.h5", {"map", "weight", "pose"}).samples == 2);
  const auto records = data::open_record_set((folder / "out").string());
  CHECK(records->description().extras ==
        std::vector<AuxiliaryInput>{{"map", {1, 2, 2}}, {"weight", {1}}, {"pose", {2}}});
  data::Sample sample;
  records->read(1, sample);
  CHECK(extras_of(sample) == std::vector<float>{5, 6, 7, 8, 6, 2, 3});
  CHECK(pack(folder, folder / "f.h5").samples == 2);
  CHECK(data::open_record_set((folder / "out").string())->description().extras.empty());
}

TEST_CASE("HDF5: missing, incomplete and misnamed auxiliary inputs are refused") {
  const TwoSamples two;
  const std::vector<double> pose{0.5, -1, 2, 3};
  CHECK(fault({two.data, two.label}, {"pose"}) ==
        "expected a dataset \"pose\", got none (--extra)");
  CHECK(fault({two.data,
               two.label,
               {.name = "pose", .extents = {4}, .type = H5T_NATIVE_DOUBLE, .values = pose.data()}},
              {"pose"}) == "\"pose\": expected a row for each of 2 samples, got 4");
  CHECK(fault({two.data, two.label}, {"label"}) ==
        "no file: --extra: \"label\" is reserved for the samples' labels");
  CHECK(fault({two.data, two.label}, {"a/b"}) ==
        "no file: --extra: expected 1 to 100 letters, digits, \"_\" or \"-\", got \"a/b\"");
}

TEST_CASE("HDF5: files whose auxiliary inputs differ in shape are refused") {
  const Folder folder;
  const TwoSamples two;
  const std::vector<double> pose{0.5, -1, 2, 3};
  for (const hsize_t width : {1, 2})
    make_hdf5(folder / (std::to_string(width) + ".h5"), {two.data,
                                                         two.label,
                                                         {.name = "pose",
                                                          .extents = {2, width},
                                                          .type = H5T_NATIVE_DOUBLE,
                                                          .values = pose.data()}});
  data::made::write(folder / "list.txt", data::made::bytes_of("1.h5\n2.h5\n"));
  CHECK(
      error_of<RunError>([&] { pack(folder, folder / "list.txt", {"pose"}); }) ==
      (folder / "2.h5").string() +
          ": 2.h5/0000000000: expected the same extras as in earlier samples (pose 1), got pose 2");
}

TEST_CASE("HDF5: export and pack reproduce auxiliary inputs") {
  const Folder folder;
  const std::vector<AuxiliaryInput> extras{{"pose", {3}}, {"map", {1, 2, 2}}};
  const auto random = data::make_random_pixels({3, 4, 5}, 7, 9, 1, extras);
  data::pack_dataset(*random, folder / "set", 1 << 20, [](int64_t, int64_t) {});
  const std::string program = test::program_folder() + "/poseidon-export-hdf5";
  REQUIRE(std::system((program + " records train " + (folder / "set").string() + " " +
                       (folder / "f.h5").string() + " >" + (folder / "said").string())
                          .c_str()) == 0);
  pack(folder, folder / "f.h5", {"pose", "map"});
  const auto packed = data::open_record_set((folder / "out").string());
  CHECK(packed->description().extras == extras);
  data::Sample expected, got;
  for (int64_t i = 0; i < 9; ++i) {
    random->read(i, expected);
    packed->read(i, got);
    CHECK(extras_of(got) == extras_of(expected));
  }
}
