#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/auxiliary_input.h"
#include "importer/place.h"

namespace poseidon::importer {

/// The auxiliary inputs of a Caffe network, identified by the names of their blobs.
class AuxiliaryInputs {
 public:
  /// `given`: inputs whose shapes the user states.
  explicit AuxiliaryInputs(std::vector<AuxiliaryInput> given) : given_(std::move(given)) {}

  bool is_given(const std::string& blob) const;
  /// Returns the index of a blob and adds it if it is new. A blob that both phases provide has one
  /// index. `extents` are those of a batch as the file states them, or empty. Returns nullopt if
  /// the shape is unknown. Throws ConfigError if two shapes differ or a sample has more than three
  /// extents.
  std::optional<size_t> find_or_add(const std::string& blob, const std::vector<int64_t>& extents,
                                    const Place& place);
  /// Sets the input's name in the Poseidon network.
  void rename(size_t index, const std::string& name) { all_[index].name = name; }
  bool has_name(size_t index) const { return !all_[index].name.empty(); }
  /// Returns the input's name for a layer that reads it, and adds the input to used().
  const std::string& use(size_t index);
  /// Throws ConfigError if the file does not contain an input whose shape the user states.
  void check_given() const;
  /// Returns the used inputs, in file order.
  std::vector<AuxiliaryInput> used() const;

 private:
  std::vector<AuxiliaryInput> given_;
  std::vector<std::string> blobs_;  ///< blob names of `all_`
  std::vector<AuxiliaryInput> all_;
  std::set<size_t> used_;
};

/// Converts a blob's name to a valid input name. Invalid characters become "_".
std::string valid_input_name(std::string blob);

/// Parses "pose=6" or "map=1x28x28". Throws ConfigError for any other text.
AuxiliaryInput parse_auxiliary_input(const std::string& given);

}  // namespace poseidon::importer
