#pragma once

#include <string>
#include <vector>

#include "core/fields.h"
#include "core/json.h"

namespace poseidon::trainer {

/// Measured times of a job's layers: the part of the output of --time --json that the planner
/// needs.
struct LayerTimes {
  struct Layer {
    std::string name, type;
    double forward_ms = 0, backward_ms = 0, backward_gflops = 0;
    double factor_density = 1;  ///< share of nonzero factors; only the device `replay` reads it
    void describe(Fields& fields);
  };
  double batch = 1;    ///< samples of the timed batch
  double pass_ms = 0;  ///< one pass of all layers, forward and backward, without waits; 0: unknown
  double update_ms = 0;  ///< one update of all parameters
  double threads = 1;    ///< compute threads
  int64_t devices = 1;   ///< devices of the worker, all as fast as the timed one
  std::vector<Layer> layers;

  /// Speed of rebuilding a gradient from factors, 10^9 operations per second. It is the highest
  /// backward_gflops of a linear layer, or of a convolution if there is no linear layer; 0:
  /// unknown.
  double rebuild_gflops() const;
  /// Time of the forward and backward pass of one batch. Uses pass_ms if it is known: an
  /// asynchronous device runs a whole pass faster than the sum of its layers.
  double batch_ms() const;

  void describe_totals(Fields& fields);
  void describe(Fields& fields);
};

/// Reads the output of --time --json, and ignores its other keys. `file` names the source in
/// messages. Throws ConfigError.
LayerTimes read_layer_times(const Json& json, const std::string& file);

}  // namespace poseidon::trainer
