#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/extras.h"
#include "importer/place.h"

namespace poseidon::importer {

/// What a network of Caffe's reads beside images and labels, by the names of its blobs.
class FurtherInputs {
 public:
  /// `given` are those whose shapes the user tells.
  explicit FurtherInputs(std::vector<Extra> given) : given_(std::move(given)) {}

  bool is_given(const std::string& blob) const;
  /// The index of a blob that a file gives with these extents of a batch, none where it does not
  /// tell them: the same for one that each phase gives. None where its shape is not known. Throws
  /// ConfigError for two shapes, and for what has more than three extents of a sample.
  std::optional<size_t> find_or_add(const std::string& blob, const std::vector<int64_t>& extents,
                                    const Place& place);
  /// Calls it what it is called here.
  void rename(size_t index, const std::string& name) { all_[index].name = name; }
  bool has_name(size_t index) const { return !all_[index].name.empty(); }
  /// What a layer that reads it names; from then on it is one of used().
  const std::string& use(size_t index);
  /// Throws ConfigError for one that is given and that no data layer gives.
  void check_given() const;
  /// In the order in which the file gives them.
  std::vector<Extra> used() const;

 private:
  std::vector<Extra> given_;
  std::vector<std::string> blobs_;  ///< of all
  std::vector<Extra> all_;
  std::set<size_t> used_;
};

/// A blob's name as that of an input: other letters become "_".
std::string usable_input_name(std::string blob);

/// "pose=6" or "map=1x28x28"; throws ConfigError for anything else.
Extra parse_extra(const std::string& given);

}  // namespace poseidon::importer
