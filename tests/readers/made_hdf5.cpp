#include "tests/readers/made_hdf5.h"

#include "core/error.h"
#include "tests/readers/made_database.h"

namespace poseidon::readers::made {

namespace {

void add_dataset(hid_t file, const HdfDataset& dataset) {
  const hid_t space =
      H5Screate_simple(static_cast<int>(dataset.extents.size()), dataset.extents.data(), nullptr);
  const hid_t plan = H5Pcreate(H5P_DATASET_CREATE);
  if (dataset.chunk > 0) {
    std::vector<hsize_t> chunk = dataset.extents;
    chunk[0] = dataset.chunk;
    H5Pset_chunk(plan, static_cast<int>(chunk.size()), chunk.data());
    H5Pset_deflate(plan, 6);
  }
  const hid_t made =
      H5Dcreate2(file, dataset.name.c_str(), dataset.type, space, H5P_DEFAULT, plan, H5P_DEFAULT);
  check(H5Dwrite(made, dataset.type, H5S_ALL, H5S_ALL, H5P_DEFAULT, dataset.values) >= 0,
        "HDF5 takes no dataset");
  H5Dclose(made);
  H5Pclose(plan);
  H5Sclose(space);
}

}  // namespace

const data::DatabaseType kType = data::DatabaseType::kHdf5;

void make_hdf5(const std::filesystem::path& path, const std::vector<HdfDataset>& datasets) {
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  for (const HdfDataset& dataset : datasets) add_dataset(file, dataset);
  H5Fclose(file);
}

void make_database(const std::filesystem::path& path, const std::vector<Entry>& entries) {
  std::vector<float> values, labels;
  for (const Entry& entry : entries) {
    for (const std::byte value : entry.values) values.push_back(std::to_integer<uint8_t>(value));
    labels.push_back(static_cast<float>(entry.label));
  }
  const Entry& first = entries.at(0);
  const auto extent = [](int64_t value) { return static_cast<hsize_t>(value); };
  make_hdf5(path, {{.name = "data",
                    .extents = {entries.size(), extent(first.channels), extent(first.height),
                                extent(first.width)},
                    .type = H5T_NATIVE_FLOAT,
                    .values = values.data(),
                    .chunk = 16},
                   {.name = "label",
                    .extents = {entries.size()},
                    .type = H5T_NATIVE_FLOAT,
                    .values = labels.data()}});
}

}  // namespace poseidon::readers::made
