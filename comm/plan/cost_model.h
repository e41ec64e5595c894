#pragma once

#include <span>

/// The cost of a step by formula: the bytes of three strategies as the Poseidon paper counts them,
/// and the step's time under the best schedules. Formulas: docs/plan.md.
namespace poseidon::comm {

/// The numbers of workers and servers.
struct ClusterSize {
  double workers = 1, servers = 1;
};

/// A fully connected layer's weight: outputs x inputs, M x N. For factors in general: their values
/// for one sample.
struct WeightShape {
  double rows = 0, columns = 0;
};

/// Floats that a node sends plus receives in one step, if it runs a server, a worker, or both.
struct NodeFloats {
  double server = 0, worker = 0, both = 0;
};

/// The floats that a node sends plus receives in one step with a parameter server. The `elements`
/// are spread evenly over all servers.
NodeFloats ps_floats(double elements, ClusterSize cluster);
/// The floats that a worker sends plus receives in one step with sufficient factors. Each worker
/// sends the factors of its `batch` samples to every other worker. Servers are not involved.
double sfb_floats(WeightShape weight, double batch, ClusterSize cluster);
/// The floats that a node sends plus receives in one step with the strategy of Project Adam. Each
/// worker sends the factors of its `batch` samples to the one server that holds the weight. The
/// server sends the complete weight back.
NodeFloats adam_floats(WeightShape weight, double batch, ClusterSize cluster);

/// Whether Algorithm 1 of the Poseidon paper chooses factors for a fully connected layer, on nodes
/// that are both worker and server. It does if factors need no more floats than the parameter
/// server. `batch` is per worker.
bool factors_are_chosen(WeightShape weight, double batch, ClusterSize cluster);

/// Floating-point operations of each worker to compute the gradient from all workers' factors, with
/// `multiply_adds` for each sample. `batch` is per worker.
double rebuild_flop(double multiply_adds, double batch, ClusterSize cluster);

/// The times of one layer in a step, all in one unit; `comm` is for one direction of a node's link.
struct LayerStep {
  double forward = 0, backward = 0, comm = 0;
};

// The next functions return the time of a step in the steady state, in the unit of `layers`. The
// layers are in order of the forward pass. The time is exact for small chunks, a preemptible link
// and no latency.
/// The time of a step in which all computation comes before all communication.
double step_without_overlap(std::span<const LayerStep> layers);
/// The time of a step in which each layer communicates as soon as its backward pass is done. The
/// step ends when all layers have communicated.
double step_with_barrier(std::span<const LayerStep> layers);
/// The time of a step in which each layer communicates as soon as its backward pass is done, and
/// earlier layers overtake later ones. Each layer's next forward pass waits only for that layer's
/// communication.
double step_with_priority(std::span<const LayerStep> layers);

}  // namespace poseidon::comm
