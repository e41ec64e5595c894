#pragma once

#include <hdf5.h>

#include <filesystem>
#include <string>
#include <vector>

namespace poseidon::readers::made {

/// A dataset of an HDF5 file. `values` has the type `type`.
struct HdfDataset {
  std::string name;
  std::vector<hsize_t> extents;
  hid_t type = -1;
  const void* values = nullptr;
  hsize_t chunk = 0;  ///< rows of a compressed chunk; 0: no chunks
};

void make_hdf5(const std::filesystem::path& path, const std::vector<HdfDataset>& datasets);

}  // namespace poseidon::readers::made
