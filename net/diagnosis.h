#pragma once

#include <map>
#include <string>
#include <vector>

#include "layers/layer.h"

namespace poseidon::net {

class Net;
class Program;
struct Call;

/// An operation of a net (a layer, or a reorder between formats) and the code that computes it.
struct OperationInfo {
  std::string name, type;
  layers::Implementations implementations;
};

/// The run time of an operation.
struct Timing : OperationInfo {
  double forward_ms = 0, backward_ms = 0;  ///< backward_ms 0: it has no backward pass
  int64_t multiply_adds = 0;               ///< in the forward pass
};

/// Examines a net: non-finite values, run times, implementations and warnings.
class Diagnosis {
 public:
  /// `net` and `program` must outlive this object.
  Diagnosis(Net& net, Program& program) : net_(net), program_(program) {}

  /// Runs the passes of the current batch again, and returns the name of the first operation with a
  /// non-finite value; "" if there is none. Checks parameters and outputs in the forward pass.
  /// Checks gradients of learned parameters in the backward pass, except those of layers that write
  /// factors. Call this function only after a failure: it unsets the factor memory of all layers
  /// (Net::set_factor_memory()). Set the net's input again before: earlier passes may have
  /// overwritten its memory.
  std::string first_non_finite(const layers::StepContext& step);
  /// Measures every operation separately in `repeats` steps, and returns the medians.
  std::vector<Timing> time(const layers::StepContext& step, int repeats);
  /// Milliseconds of a forward and a backward pass together, with one wait at the end. The median
  /// of `repeats` steps.
  double time_pass(const layers::StepContext& step, int repeats);
  /// Warnings for the user about this network on this device. Each contains the layer's name.
  std::vector<std::string> warnings() const;
  /// All operations, in the order of a forward pass. A layer fused into another one is not listed.
  std::vector<OperationInfo> operation_info() const;
  /// Other algorithm choices that are worth measuring (Layer::alternatives), by layer name.
  std::map<std::string, std::vector<layers::AlgorithmChoice>> alternatives() const;

 private:
  OperationInfo operation_info(const Call& call) const;
  std::string first_in_forward(const layers::StepContext& step);
  std::string first_in_backward(const layers::StepContext& step);

  Net& net_;
  Program& program_;
};

}  // namespace poseidon::net
