#pragma once

#include <string>
#include <vector>

#include "core/fields.h"
#include "core/json.h"

namespace poseidon::trainer {

/// How long each layer of a job takes: what --time --json prints of it.
struct LayerTimes {
  struct Layer {
    std::string name, type;
    double forward_ms = 0, backward_ms = 0, backward_gflops = 0;
    void describe(Fields& fields);
  };
  double batch = 1;      ///< samples that were timed
  double pass_ms = 0;    ///< of all layers forward and backward, in one go; 0: not known
  double update_ms = 0;  ///< of all parameters
  double threads = 1;    ///< that computed
  int64_t devices = 1;   ///< of the worker, each as fast as the one that was timed
  std::vector<Layer> layers;

  /// 10^9 operations a second of a weight gradient made from factors: the best speed of one of a
  /// linear layer, else of a convolution.
  double rebuild_gflops() const;
  /// Of a batch forward and backward. A device that is not waited for after each layer is faster
  /// than its layers.
  double batch_ms() const;

  void describe_totals(Fields& fields);
  void describe(Fields& fields);
};

/// The output of --time --json, which has keys beside these, read from `file`. Throws ConfigError.
LayerTimes read_layer_times(const Json& json, const std::string& file);

}  // namespace poseidon::trainer
