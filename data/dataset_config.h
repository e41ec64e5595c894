#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/extras.h"
#include "core/fields.h"
#include "data/dataset.h"
#include "data/transform_config.h"

namespace poseidon::data {

enum class OnError : int { kStop, kSkip };

/// "data.train" and "data.test" of a job: which dataset, and how its samples are prepared.
struct DatasetConfig {
  std::string type;             ///< one of the dataset types; required
  std::string path;             ///< all types but digits and random
  std::string split = "train";  ///< "train" or "test"; mnist, cifar10, cifar100, digits
  bool pairs = false;           ///< as make_pairs (data/pair_dataset.h)
  bool shuffle = true;          ///< a new order each epoch; tests always go in order
  OnError on_error = OnError::kStop;
  int64_t samples = 10000;                        ///< digits, random
  int64_t seed = 1;                               ///< digits, random
  int64_t channels = 3, height = 32, width = 32;  ///< random
  int64_t class_count = 10;                       ///< random, key "classes"
  std::vector<Extra> extras;                      ///< random
  TransformConfig transform;
  bool has_transform = false;  ///< a test set without one is prepared like the training set

  /// The defaults of "data.test": the test split, not shuffled.
  static DatasetConfig for_testing();
  void describe(Fields& fields);
};

/// Opens what `config` names; `path` must be expanded already. Throws ConfigError when it is not
/// there, RunError when it is damaged.
std::unique_ptr<Dataset> open_dataset(const DatasetConfig& config);

/// The value of a variable; none when it is not set.
using VariableLookup = std::function<std::optional<std::string>(std::string_view)>;

/// Replaces each ${NAME} in `path` by what `lookup` gives (programs pass the environment). Throws
/// ConfigError, beginning with the path, for a variable that is not set and for a "${" left open.
std::string expand_variables(std::string_view path, const VariableLookup& lookup);

}  // namespace poseidon::data
