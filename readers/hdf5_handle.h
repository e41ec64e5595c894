#pragma once

#include <hdf5.h>

#include <string>
#include <utility>

#include "core/error.h"

namespace poseidon::readers {

/// Owns an HDF5 object of any kind. All kinds have the same handle type (hid_t) but different close
/// functions. Move-only.
class Handle {
 public:
  /// Throws RunError "HDF5: WHAT" if `id` is invalid.
  Handle(hid_t id, herr_t (*close)(hid_t), const std::string& what) : id_(id), close_(close) {
    if (id < 0) throw RunError("HDF5: " + what);
  }
  ~Handle() {
    if (id_ >= 0) close_(id_);
  }
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Handle& operator=(Handle&&) = delete;
  hid_t id() const { return id_; }

 private:
  hid_t id_;
  herr_t (*close_)(hid_t);
};

}  // namespace poseidon::readers
