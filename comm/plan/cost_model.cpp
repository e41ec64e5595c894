#include "comm/plan/cost_model.h"

#include <algorithm>

namespace poseidon::comm {

namespace {

struct Totals {
  double forward = 0, backward = 0, comm = 0;
};

Totals totals(std::span<const LayerStep> layers) {
  Totals sum;
  for (const LayerStep& layer : layers) {
    sum.forward += layer.forward;
    sum.backward += layer.backward;
    sum.comm += layer.comm;
  }
  return sum;
}

}  // namespace

NodeFloats ps_floats(double elements, ClusterSize cluster) {
  const auto [workers, servers] = cluster;
  return {.server = 2 * workers * elements / servers,
          .worker = 2 * elements,
          .both = 2 * elements * (workers + servers - 2) / servers};
}

double sfb_floats(WeightShape weight, double batch, ClusterSize cluster) {
  return 2 * batch * (cluster.workers - 1) * (weight.rows + weight.columns);
}

NodeFloats adam_floats(WeightShape weight, double batch, ClusterSize cluster) {
  const double matrix = weight.rows * weight.columns;
  const double factors = batch * (weight.rows + weight.columns);
  return {.server = cluster.workers * (matrix + factors),
          .worker = factors + matrix,
          .both = (cluster.workers - 1) * (matrix + factors)};
}

bool factors_are_chosen(WeightShape weight, double batch, ClusterSize cluster) {
  // Both sides are multiplied by servers / 2. They are then products of integers, so a tie is
  // exact.
  const auto [workers, servers] = cluster;
  return batch * (workers - 1) * (weight.rows + weight.columns) * servers <=
         weight.rows * weight.columns * (workers + servers - 2);
}

double rebuild_flop(double multiply_adds, double batch, ClusterSize cluster) {
  return 2 * batch * cluster.workers * multiply_adds;
}

double step_without_overlap(std::span<const LayerStep> layers) {
  const Totals all = totals(layers);
  return all.forward + all.backward + all.comm;
}

double step_with_barrier(std::span<const LayerStep> layers) {
  const Totals all = totals(layers);
  double worst = all.forward + all.backward;
  double backward_from_here = all.backward, comm_to_here = 0;
  for (const LayerStep& layer : layers) {
    comm_to_here += layer.comm;
    worst = std::max(worst, all.forward + backward_from_here + comm_to_here);
    backward_from_here -= layer.backward;
  }
  return worst;
}

double step_with_priority(std::span<const LayerStep> layers) {
  const Totals all = totals(layers);
  double worst = std::max(all.comm, all.forward + all.backward);
  double compute_from_here = all.forward + all.backward, comm_to_here = 0;
  for (const LayerStep& layer : layers) {
    comm_to_here += layer.comm;
    worst = std::max(worst, compute_from_here + comm_to_here);
    compute_from_here -= layer.forward + layer.backward;
  }
  return worst;
}

}  // namespace poseidon::comm
