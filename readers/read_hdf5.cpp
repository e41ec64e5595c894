// poseidon-read-hdf5: reads the rows of the datasets "data" and "label" of an HDF5 file, in the
// format of Caffe's HDF5Data. Further arguments name datasets of auxiliary inputs. Writes each row
// as a Datum.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "core/error.h"
#include "data/datum.h"
#include "readers/hdf5_handle.h"
#include "readers/reader_program.h"

namespace {

using poseidon::RunError;
using poseidon::text;
using poseidon::data::Datum;
using poseidon::readers::Handle;

constexpr hsize_t kMaxRowBytes = hsize_t{128} << 20;
constexpr hsize_t kBatchBytes = hsize_t{4} << 20;

bool is_own(const std::string& name) { return name == "data" || name == "label"; }

/// An HDF5 dataset whose first extent is the number of samples.
class Rows {
 public:
  Rows(const Handle& file, const std::string& name) : name_(name), dataset_(open(file, name)) {
    const Handle space(H5Dget_space(dataset_.id()), H5Sclose, name_ + ": has no shape");
    const int rank = H5Sget_simple_extent_ndims(space.id());
    if (rank < 1 || rank > 4)
      throw RunError(text("\"", name_, "\": expected 1 to 4 extents, got ", rank));
    extents_.resize(static_cast<size_t>(rank));
    H5Sget_simple_extent_dims(space.id(), extents_.data(), nullptr);
    check_size();
  }

  /// 1 to 4 extents; the first is the number of samples.
  const std::vector<hsize_t>& extents() const { return extents_; }
  hsize_t count() const { return extents_[0]; }
  /// Returns the number of values per sample.
  hsize_t row() const { return row_; }

  /// Describes the rows as an auxiliary input. Its shape is [values], or [channels, height, width]
  /// with width 1 if the dataset has only three extents.
  poseidon::AuxiliaryInput extra() const {
    poseidon::AuxiliaryInput extra{.name = name_, .extents = {}};
    for (size_t i = 1; i < extents_.size(); ++i)
      extra.extents.push_back(static_cast<int64_t>(extents_[i]));
    if (extra.extents.empty()) extra.extents.push_back(1);
    if (extra.extents.size() == 2) extra.extents.push_back(1);
    return extra;
  }

  bool has_bytes() const {
    const Handle type(H5Dget_type(dataset_.id()), H5Tclose, name_ + ": has no type");
    return H5Tget_class(type.id()) == H5T_INTEGER && H5Tget_size(type.id()) == 1 &&
           H5Tget_sign(type.id()) == H5T_SGN_NONE;
  }

  /// Reads the values of rows first ... first + count - 1 as elements of `type`.
  template <class Value>
  void read(hsize_t first, hsize_t count, hid_t type, std::vector<Value>& out) const {
    std::vector<hsize_t> offset(extents_.size(), 0), shape = extents_;
    offset[0] = first;
    shape[0] = count;
    const Handle from(H5Dget_space(dataset_.id()), H5Sclose, name_ + ": has no shape");
    const Handle to(H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr),
                    H5Sclose, name_ + ": too large");
    out.resize(count * row_);
    if (H5Sselect_hyperslab(from.id(), H5S_SELECT_SET, offset.data(), nullptr, shape.data(),
                            nullptr) < 0 ||
        H5Dread(dataset_.id(), type, to.id(), from.id(), H5P_DEFAULT, out.data()) < 0)
      throw RunError(text("HDF5: \"", name_, "\": cannot be read from row ", first));
  }

 private:
  /// Opens a dataset of integers or floats. Rejects links and datasets whose values are in other
  /// files, since an untrusted file could name any file.
  static Handle open(const Handle& file, const std::string& name) {
    H5L_info_t link{};
    if (H5Lget_info(file.id(), name.c_str(), &link, H5P_DEFAULT) < 0)
      throw RunError(is_own(name)
                         ? text("expected datasets \"data\" and \"label\", got no \"", name, "\"")
                         : text("expected a dataset \"", name, "\", got none (--extra)"));
    if (link.type != H5L_TYPE_HARD)
      throw RunError(text("\"", name, "\": is a link, expected a dataset"));
    Handle dataset(H5Dopen2(file.id(), name.c_str(), H5P_DEFAULT), H5Dclose,
                   text("\"", name, "\" is not a dataset"));
    const Handle plan(H5Dget_create_plist(dataset.id()), H5Pclose,
                      text("the layout of \"", name, "\" cannot be read"));
    if (H5Pget_external_count(plan.id()) != 0 || H5Pget_layout(plan.id()) == H5D_VIRTUAL)
      throw RunError(
          text("\"", name, "\": is stored in other files; expected its values in this file"));
    const Handle type(H5Dget_type(dataset.id()), H5Tclose,
                      text("the type of \"", name, "\" cannot be read"));
    const H5T_class_t kind = H5Tget_class(type.id());
    if (kind != H5T_INTEGER && kind != H5T_FLOAT)
      throw RunError(text("\"", name, "\": expected integers or floats, got another type"));
    return dataset;
  }

  void check_size() {
    row_ = 1;
    for (size_t i = 1; i < extents_.size(); ++i) {
      if (extents_[i] == 0 || extents_[i] > kMaxRowBytes / sizeof(float) / row_)
        throw RunError(text("\"", name_, "\": expected samples of 1 to ",
                            kMaxRowBytes / sizeof(float), " values, got ", shape_text()));
      row_ *= extents_[i];
    }
    if (extents_[0] == 0) throw RunError(text("\"", name_, "\": expected samples, got none"));
  }

  std::string shape_text() const {
    std::string out;
    for (size_t i = 1; i < extents_.size(); ++i)
      out += (i == 1 ? "" : "x") + std::to_string(extents_[i]);
    return out;
  }

  std::string name_;
  Handle dataset_;
  std::vector<hsize_t> extents_;
  hsize_t row_ = 1;
};

/// Writes each row as an entry. The key of the entry is the row's index, in ten decimal digits.
class RowWriter {
 public:
  RowWriter(const Rows& data, const Rows& labels, const std::vector<Rows>& extras,
            poseidon::data::EntryWriter& writer)
      : data_(data),
        labels_(labels),
        extras_(extras),
        writer_(writer),
        bytes_(data.has_bytes()),
        extra_values_(extras.size()) {
    const std::vector<hsize_t>& extents = data.extents();
    const auto extent = [&](size_t i) {
      return i < extents.size() ? static_cast<int64_t>(extents[i]) : 1;
    };
    datum_.channels = extent(1);
    datum_.height = extent(2);
    datum_.width = extent(3);
  }

  void write_all() {
    hsize_t row_bytes = data_.row() * (bytes_ ? 1 : sizeof(float));
    for (const Rows& extra : extras_) row_bytes += extra.row() * sizeof(float);
    const hsize_t batch = std::max<hsize_t>(1, kBatchBytes / row_bytes);
    for (hsize_t first = 0; first < data_.count(); first += batch)
      write(first, std::min(batch, data_.count() - first));
  }

 private:
  void write(hsize_t first, hsize_t count) {
    if (bytes_)
      data_.read(first, count, H5T_NATIVE_UCHAR, byte_values_);
    else
      data_.read(first, count, H5T_NATIVE_FLOAT, float_values_);
    labels_.read(first, count, H5T_NATIVE_DOUBLE, label_values_);
    for (size_t k = 0; k < extras_.size(); ++k)
      extras_[k].read(first, count, H5T_NATIVE_FLOAT, extra_values_[k]);
    for (hsize_t i = 0; i < count; ++i) write_row(first + i, i);
  }

  /// `i` is the index of the row in the current batch of rows.
  void write_row(hsize_t row, hsize_t i) {
    const size_t count = data_.row(), begin = i * count;
    if (bytes_)
      datum_.bytes = std::as_bytes(std::span(byte_values_).subspan(begin, count));
    else
      datum_.floats.assign(float_values_.begin() + static_cast<ptrdiff_t>(begin),
                           float_values_.begin() + static_cast<ptrdiff_t>(begin + count));
    const double label = label_values_[i];
    if (!(label == std::floor(label) && std::abs(label) < 1e15))
      throw RunError(text("\"label\": expected integers, got ", label, " in row ", row));
    datum_.label = static_cast<int64_t>(label);
    put_extras(i);
    std::array<char, 24> key{};
    const int length = std::snprintf(key.data(), key.size(), "%010llu", row);
    writer_.add(std::as_bytes(std::span(key).first(static_cast<size_t>(length))),
                poseidon::data::encode_datum(datum_));
  }

  void put_extras(size_t i) {
    datum_.extras.clear();
    for (size_t k = 0; k < extras_.size(); ++k) {
      const size_t count = extras_[k].row();
      datum_.extras.push_back(
          {.extra = extras_[k].extra(),
           .values = std::as_bytes(std::span(extra_values_[k]).subspan(i * count, count))});
    }
  }

  const Rows& data_;
  const Rows& labels_;
  const std::vector<Rows>& extras_;
  poseidon::data::EntryWriter& writer_;
  const bool bytes_;
  Datum datum_;
  std::vector<unsigned char> byte_values_;
  std::vector<float> float_values_;
  std::vector<double> label_values_;
  std::vector<std::vector<float>> extra_values_;
};

void read_all(const std::string& path, const std::vector<std::string>& names,
              const poseidon::readers::Begin& begin) {
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  H5PLset_loading_state(0);  // disables plugins, which are external code
  const Handle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose,
                    "not an HDF5 file, or a damaged one");
  const Rows data(file, "data"), labels(file, "label");
  if (labels.count() != data.count() || labels.row() != 1)
    throw RunError(text("\"label\": expected one label for each of ", data.count(),
                        " samples, got ", labels.count(), " rows of ", labels.row(),
                        "; a record set stores one label per sample"));
  std::vector<Rows> extras;
  for (const std::string& name : names) {
    extras.emplace_back(file, name);
    if (extras.back().count() != data.count())
      throw RunError(text("\"", name, "\": expected a row for each of ", data.count(),
                          " samples, got ", extras.back().count()));
  }
  RowWriter(data, labels, extras, begin(data.count())).write_all();
}

}  // namespace

int main(int count, char** arguments) {
  const std::vector<std::string> extras(arguments + std::min(count, 2), arguments + count);
  poseidon::readers::run_reader(
      std::min(count, 2), arguments,
      [&](const std::string& path, const poseidon::readers::Begin& begin) {
        read_all(path, extras, begin);
      });
}
