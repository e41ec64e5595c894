#pragma once

#include <span>

/// What a step costs, by formula: bytes of the three strategies as the papers count them, and the
/// time of a step under the best schedules. Numbers only; docs/plan.md explains them.
namespace poseidon::comm {

/// Workers and servers, as numbers.
struct ClusterSize {
  double workers = 1, servers = 1;
};

/// A fully connected layer's weight: outputs x inputs, M x N.
struct WeightShape {
  double rows = 0, columns = 0;
};

/// Floats that a node sends plus receives in one step, by what runs on it.
struct NodeFloats {
  double server = 0, worker = 0, both = 0;
};

/// `elements` that lie evenly on all servers.
NodeFloats ps_floats(double elements, ClusterSize cluster);
/// Factors of `batch` samples from each worker to each other one; a server has no part in it.
double sfb_floats(WeightShape weight, double batch, ClusterSize cluster);
/// Factors to the one server that holds the weight, which sends it back whole.
NodeFloats adam_floats(WeightShape weight, double batch, ClusterSize cluster);

/// Algorithm 1 for a fully connected layer on nodes that are both: factors where they are not more
/// than the parameter server's floats. `batch` is per worker.
bool factors_are_chosen(WeightShape weight, double batch, ClusterSize cluster);

/// Floating-point operations by which each worker makes the gradient from all workers' factors.
double rebuild_flop(WeightShape weight, double batch, ClusterSize cluster);

/// What one layer takes in a step, all in one unit of time; `comm` is one direction of a node's
/// link.
struct LayerStep {
  double forward = 0, backward = 0, comm = 0;
};

/// Time of a step in the steady state, layers in order of the forward pass; exact for small chunks,
/// a link that can be preempted, and no latency. Compute, then communicate:
double step_without_overlap(std::span<const LayerStep> layers);
/// Communication from each layer's backward pass on, and one wait for all of it:
double step_with_barrier(std::span<const LayerStep> layers);
/// The same, first layers first, and each forward waits for its own layer only:
double step_with_priority(std::span<const LayerStep> layers);

}  // namespace poseidon::comm
