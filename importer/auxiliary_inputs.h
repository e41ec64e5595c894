#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/auxiliary_input.h"
#include "importer/place.h"

namespace poseidon::importer {

/// The auxiliary inputs of a Caffe network. An auxiliary input is a blob of the data other than
/// images and labels.
class AuxiliaryInputs {
 public:
  /// `given`: inputs whose shapes the user states (--extra).
  explicit AuxiliaryInputs(std::vector<AuxiliaryInput> given) : given_(std::move(given)) {}

  bool is_given(const std::string& blob) const;
  /// Returns the index of the blob's input, and adds the input if it is new. An input that exists
  /// in both phases has one index. `extents`: extents of a batch, as the file states them; may be
  /// empty. A shape from --extra has priority. Returns nullopt if neither --extra nor the file
  /// states the shape. Throws ConfigError if the shapes in the two phases differ, or if a sample
  /// has more than three extents.
  std::optional<size_t> find_or_add(const std::string& blob, const std::vector<int64_t>& extents,
                                    const Place& place);
  /// Sets the input's name in the Poseidon network.
  void rename(size_t index, const std::string& name) { all_[index].name = name; }
  bool has_name(size_t index) const { return !all_[index].name.empty(); }
  /// Returns the input's name for a layer that reads it, and adds the input to used().
  const std::string& use(size_t index);
  /// Throws ConfigError if the user states the shape of a blob that is not an auxiliary input of
  /// the network. Call it after all inputs are added.
  void check_given() const;
  /// Returns the used inputs, in file order.
  std::vector<AuxiliaryInput> used() const;

 private:
  std::vector<AuxiliaryInput> given_;
  std::vector<std::string> blobs_;  ///< blob names of `all_`
  std::vector<AuxiliaryInput> all_;
  std::set<size_t> used_;
};

/// Converts a blob's name to a valid input name. Invalid characters become "_". "input" and "label"
/// get the suffix "_values".
std::string valid_input_name(std::string blob);

/// Parses "pose=6" or "map=1x28x28". The result's name is the name of the blob, which precedes "=".
/// Throws ConfigError for any other text.
AuxiliaryInput parse_auxiliary_input(const std::string& given);

}  // namespace poseidon::importer
