// poseidon-export-hdf5: writes the pixels, labels and auxiliary inputs of a Poseidon dataset to an
// HDF5 file in the format of Caffe's HDF5Data.

#include <algorithm>
#include <array>
#include <filesystem>
#include <iostream>
#include <vector>

#include "core/as_config_error.h"
#include "core/failure.h"
#include "core/file.h"
#include "core/standard_streams.h"
#include "data/dataset_config.h"
#include "data/pixel_reader.h"
#include "readers/hdf5_handle.h"

namespace {

namespace fs = std::filesystem;
using namespace poseidon;
using readers::Handle;

/// A dataset in the HDF5 file, written row by row.
class Column {
 public:
  Column(const Handle& file, const char* name, std::vector<hsize_t> extents, hid_t type)
      : name_(name),
        extents_(std::move(extents)),
        type_(type),
        space_(H5Screate_simple(static_cast<int>(extents_.size()), extents_.data(), nullptr),
               H5Sclose, text("\"", name, "\": too large")),
        dataset_(
            H5Dcreate2(file.id(), name, type, space_.id(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
            H5Dclose, text("\"", name, "\": cannot be created")) {}

  void write(hsize_t row, const void* values) {
    std::vector<hsize_t> offset(extents_.size(), 0), one = extents_;
    offset[0] = row;
    one[0] = 1;
    const Handle memory(H5Screate_simple(static_cast<int>(one.size()), one.data(), nullptr),
                        H5Sclose, text("\"", name_, "\": too large"));
    if (H5Sselect_hyperslab(space_.id(), H5S_SELECT_SET, offset.data(), nullptr, one.data(),
                            nullptr) < 0 ||
        H5Dwrite(dataset_.id(), type_, memory.id(), space_.id(), H5P_DEFAULT, values) < 0)
      throw RunError(text("HDF5: \"", name_, "\": row ", row, " cannot be written"));
  }

 private:
  std::string name_;
  std::vector<hsize_t> extents_;
  hid_t type_;
  Handle space_, dataset_;
};

/// Converts the pixels from height x width x channels to channels x height x width.
void planes_of(const data::Image& image, std::vector<uint8_t>& out) {
  const auto channels = static_cast<size_t>(image.channels);
  const size_t count = image.pixels.size() / channels;
  out.resize(image.pixels.size());
  for (size_t c = 0; c < channels; ++c)
    for (size_t i = 0; i < count; ++i) out[c * count + i] = image.pixels[i * channels + c];
}

std::vector<hsize_t> row_extents(hsize_t samples, const AuxiliaryInput& extra) {
  std::vector<hsize_t> extents{samples};
  for (const int64_t extent : extra.extents) extents.push_back(static_cast<hsize_t>(extent));
  return extents;
}

/// Writes each auxiliary input of a sample to its column. Copies the values first, since the
/// sample's memory may be unaligned.
void write_extras(const std::vector<AuxiliaryInput>& extras, const data::Sample& sample,
                  hsize_t row, std::vector<Column>& columns) {
  std::span<const std::byte> left = sample.extras;
  std::vector<float> values;
  for (size_t k = 0; k < extras.size(); ++k) {
    values.resize(static_cast<size_t>(extras[k].count()));
    const std::span<std::byte> bytes = std::as_writable_bytes(std::span(values));
    std::ranges::copy(left.first(bytes.size()), bytes.begin());
    left = left.subspan(bytes.size());
    columns[k].write(row, values.data());
  }
}

void write_all(const data::Dataset& dataset, const fs::path& path) {
  const Shape& shape = dataset.description().shape;
  const auto extent = [&](int i) { return static_cast<hsize_t>(shape[i]); };
  const auto samples = static_cast<hsize_t>(dataset.size());
  const Handle file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), H5Fclose,
                    "the file cannot be created");
  Column data(file, "data", {samples, extent(0), extent(1), extent(2)}, H5T_NATIVE_UCHAR);
  Column label(file, "label", {samples}, H5T_NATIVE_INT);
  std::vector<Column> extras;
  for (const AuxiliaryInput& extra : dataset.description().extras)
    extras.emplace_back(file, extra.name.c_str(), row_extents(samples, extra), H5T_NATIVE_FLOAT);
  data::PixelReader reader(dataset);
  std::vector<uint8_t> planes;
  for (hsize_t i = 0; i < samples; ++i) {
    const data::Image& image = reader.read(static_cast<int64_t>(i));
    if (Shape{image.channels, image.height, image.width} != shape)
      throw RunError(text(dataset.name(static_cast<int64_t>(i)),
                          ": its shape differs from the shape of the dataset"));
    planes_of(image, planes);
    data.write(i, planes.data());
    const int number = reader.label();
    label.write(i, &number);
    write_extras(dataset.description().extras, reader.sample(), i, extras);
  }
  if (H5Fflush(file.id(), H5F_SCOPE_LOCAL) < 0) throw RunError("HDF5: the file cannot be flushed");
}

void check_dataset(const data::Dataset& dataset) {
  const data::DatasetDescription& about = dataset.description();
  if (about.floats) throw ConfigError(about.source + ": expected images, got floats");
  if (about.shape.rank() == 0)
    throw ConfigError(about.source +
                      ": expected a dataset with one known shape for all samples, such as a record "
                      "set of images of one size; HDF5 stores them as one block");
}

/// Writes a dataset to the temporary file of an AtomicFile, because HDF5 opens files by name.
/// Throws ConfigError if `output` exists.
void export_dataset(const data::DatasetConfig& config, const fs::path& output) {
  if (fs::exists(output)) throw ConfigError(output.string() + ": exists already");
  const auto dataset = as_config_error([&] { return data::open_dataset(config); });
  check_dataset(*dataset);
  AtomicFile file(output);
  write_all(*dataset, file.temporary());
  file.commit();
  std::cout << output.string() << ": " << dataset->size() << " samples of "
            << dataset->classes().size() << " classes\n";
}

}  // namespace

int main(int count, char** arguments) {
  open_standard_streams();
  try {
    if (count != 5)
      throw ConfigError(
          "expected a type, a split, a path and an output; poseidon-data export "
          "starts this program");
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
    data::DatasetConfig config;
    config.type = arguments[1];
    config.split = arguments[2];
    config.path = arguments[3];
    export_dataset(config, arguments[4]);
    return 0;
  } catch (...) {
    std::cerr << "poseidon-data: " << message_of(std::current_exception()) << std::endl;
    return exit_code_of(std::current_exception());
  }
}
