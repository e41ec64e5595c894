#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/file.h"
#include "core/json.h"
#include "trainer/step/named_tensor.h"

namespace poseidon::trainer {

/// A tensor to be written. When the writer reaches the tensor, it calls `get`, which writes the
/// tensor's little-endian bytes.
struct StoredTensor {
  std::string name;
  std::string type;  ///< "F32", ...
  std::vector<int64_t> shape = {};
  uint64_t bytes = 0;
  std::function<void(std::span<std::byte>)> get = nullptr;
};

/// Writes tensors in order in the safetensors format (https://huggingface.co/docs/safetensors): 8
/// bytes header length, JSON header, data. All values of `metadata` are strings.
void write_safetensors(AtomicFile& file, std::span<const StoredTensor> tensors,
                       const Json& metadata);
/// Writes fp32 tensors.
void write_safetensors(AtomicFile& file, std::span<const NamedTensor> tensors,
                       const Json& metadata);

/// A safetensors file from any source. The constructor checks the header. It throws RunError, which
/// names the file and the error. Tensors are read on demand.
class SafetensorsFile {
 public:
  struct Entry {
    std::string name;
    std::string type;  ///< "F32", ...
    std::vector<int64_t> shape;
    uint64_t offset = 0, bytes = 0;  ///< bytes: start in the file, and length
  };

  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::vector<Entry>& entries() const { return entries_; }
  const Json& metadata() const { return metadata_; }
  /// The entry with this name; null if there is none.
  const Entry* find(const std::string& name) const;
  /// The values of an F32, F16 or BF16 tensor.
  std::vector<float> read(const Entry& entry) const;
  /// The values of an I64 tensor.
  std::vector<int64_t> read_integers(const Entry& entry) const;
  const InputFile& file() const { return file_; }

  /// Removes the prefixes "module." and "_orig_mod." if all names have them; PyTorch's wrappers add
  /// them. Returns the removed prefix, or "".
  std::string remove_wrappers();

 private:
  void read_header();
  void refuse_overlaps() const;
  Entry read_entry(const std::string& name, const Json& json, uint64_t data_begin) const;
  template <class Value>
  std::vector<Value> read_values(const Entry& entry, const char* type) const;
  [[noreturn]] void fail(const std::string& message) const;

  InputFile file_;
  std::vector<Entry> entries_;
  Json metadata_ = Json::object();
};

/// Whether values of this type can be read as floats.
bool holds_floats(std::string_view type);

/// "3x224x224"; "scalar" for an empty shape.
std::string extents_text(std::span<const int64_t> extents);

}  // namespace poseidon::trainer
