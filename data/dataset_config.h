#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/auxiliary_input.h"
#include "core/fields.h"
#include "data/dataset.h"
#include "data/transform_config.h"

namespace poseidon::data {

enum class OnError : int { kStop, kSkip };

/// Configuration of "data.train" or "data.test" of a job: the dataset and the preprocessing of its
/// samples. A member whose comment lists dataset types applies only to these types.
struct DatasetConfig {
  std::string type;             ///< "mnist", "images", "records", ...; required
  std::string path;             ///< for all types except digits and random
  std::string split = "train";  ///< "train" or "test"; mnist, cifar10, cifar100, digits
  bool pairs = false;   ///< samples are pairs of images; see make_pairs (data/pair_dataset.h)
  bool shuffle = true;  ///< new order in each epoch; testing always uses index order
  OnError on_error = OnError::kStop;
  int64_t samples = 10000;                        ///< digits, random
  int64_t seed = 1;                               ///< digits, random
  int64_t channels = 3, height = 32, width = 32;  ///< random
  int64_t class_count = 10;                       ///< random, key "classes"
  std::vector<AuxiliaryInput> extras;             ///< random
  TransformConfig transform;
  bool has_transform = false;  ///< false: a test set uses the training set's transform

  /// The defaults of "data.test": the test split, not shuffled.
  static DatasetConfig for_testing();
  void describe(Fields& fields);
};

/// Opens the dataset that `config` names, and combines its samples into pairs if `config.pairs` is
/// set. The caller expands variables in `path` first. Throws ConfigError if the dataset does not
/// exist or a setting is invalid, RunError if the dataset is damaged.
std::unique_ptr<Dataset> open_dataset(const DatasetConfig& config);

/// Returns the value of a variable, such as an environment variable; nullopt if it is not set.
using VariableLookup = std::function<std::optional<std::string>(std::string_view)>;

/// Replaces each ${NAME} in `path` with the result of `lookup`. Throws ConfigError whose message
/// begins with the path if a variable is not set or a "${" has no "}".
std::string expand_variables(std::string_view path, const VariableLookup& lookup);

}  // namespace poseidon::data
