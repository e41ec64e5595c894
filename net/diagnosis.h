#pragma once

#include <map>
#include <string>
#include <vector>

#include "layers/layer.h"

namespace poseidon::net {

class Net;
class Program;
struct Call;

/// An operation of a net, a layer or a reorder between formats, and the code that computes it.
struct ComputedBy {
  std::string name, type;
  layers::Implementations implementations;
};

/// How long an operation takes.
struct Timing : ComputedBy {
  double forward_ms = 0, backward_ms = 0;
  int64_t multiply_adds = 0;  ///< of the forward pass
};

/// What can be asked of a net beside its training.
class Diagnosis {
 public:
  /// Both must outlive it.
  Diagnosis(Net& net, Program& program) : net_(net), program_(program) {}

  /// The layer in which a value that is not finite comes up first, in the order of a step: in its
  /// parameters or output, else in the gradients that its backward pass leaves; "" when there is
  /// none. Runs forward and backward again, so call it only when something
  /// is wrong. From then on factors are put nowhere, until Net::set_factor_memory() is called
  /// again.
  std::string first_non_finite(const layers::StepContext& step);
  /// Times every operation over `repeats` steps (medians).
  std::vector<Timing> time(const layers::StepContext& step, int repeats);
  /// Milliseconds of a forward and a backward pass, in which nothing is waited for (median).
  double time_pass(const layers::StepContext& step, int repeats);
  /// What the user should know of this network on this device, each with the layer's name.
  std::vector<std::string> warnings() const;
  /// All operations, in the order of a forward pass. A layer that is fused into another is none.
  std::vector<ComputedBy> computed_by() const;
  /// By layer, other choices worth timing (Layer::alternatives).
  std::map<std::string, std::vector<layers::Choice>> alternatives() const;

 private:
  ComputedBy computed_by(const Call& call) const;
  std::string first_in_forward(const layers::StepContext& step);
  std::string first_in_backward(const layers::StepContext& step);

  Net& net_;
  Program& program_;
};

}  // namespace poseidon::net
