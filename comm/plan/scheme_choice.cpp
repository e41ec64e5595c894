#include "comm/plan/scheme_choice.h"

#include <algorithm>

#include "comm/plan/cost_model.h"
#include "comm/plan/traffic.h"
#include "core/error.h"

namespace poseidon::comm {

namespace {

/// So many layers are tried in all combinations; more are improved one by one.
constexpr size_t kMostCombined = 12;

ClusterSize size_of(const PlanRequest& request) {
  return {static_cast<double>(request.workers), static_cast<double>(request.servers)};
}

WeightShape weight_of(const LayerTraffic& layer) {
  return {static_cast<double>(layer.rows), static_cast<double>(layer.columns)};
}

bool is_forced(const PlanRequest& request, const LayerTraffic& layer) {
  return layer.forced != SchemeRule::kAuto || request.scheme != SchemeRule::kAuto ||
         !layer.may_use_factors;
}

/// What is said in so many words, or Algorithm 1.
Scheme scheme_by_rule(const PlanRequest& request, const LayerTraffic& layer) {
  const Scheme no_factors = request.workers == 1 ? Scheme::kLocal : Scheme::kPs;
  if (layer.forced == SchemeRule::kSfb) return Scheme::kSfb;
  if (layer.forced == SchemeRule::kPs || !layer.may_use_factors) return no_factors;
  if (request.scheme == SchemeRule::kSfb) return Scheme::kSfb;
  if (request.scheme == SchemeRule::kPs || request.workers == 1) return no_factors;
  return factors_are_chosen(weight_of(layer), batch_per_worker(request), size_of(request))
             ? Scheme::kSfb
             : Scheme::kPs;
}

/// One direction of a node's link. Megabits a second are kilobits, 125 bytes, a millisecond.
double link_ms(const PlanRequest& request, double bytes_both_ways) {
  return bytes_both_ways / 2 / (request.link_mbps * 125);
}

/// Without its local weight gradient, about half of a backward pass, and with the rebuild from all
/// workers' factors, which comes when they are there and reads and writes at least as much.
void move_gradient_to_rebuild(const PlanRequest& request, const LayerTraffic& layer,
                              LayerStep& step) {
  const double gradient_ms = step.backward / 2;
  const double flop = rebuild_flop(weight_of(layer), batch_per_worker(request), size_of(request));
  step.backward -= gradient_ms;
  step.forward += std::max(gradient_ms, flop / (request.rebuild_gflops * 1e6));
}

double step_ms(Overlap overlap, const std::vector<LayerStep>& steps) {
  switch (overlap) {
    case Overlap::kPriority: return step_with_priority(steps);
    case Overlap::kBarrier: return step_with_barrier(steps);
    case Overlap::kNone: break;
  }
  return step_without_overlap(steps);
}

void check_times(const PlanRequest& request) {
  if (request.times.size() != request.layers.size())
    throw ConfigError(
        "\"comm.policy\": \"time\" needs measured times of the layers: expected --times FILE, the "
        "output of --time --json");
  if (request.link_mbps <= 0)
    throw ConfigError(
        "\"comm.policy\": \"time\" needs the speed of the network: expected \"comm.link_mbps\" "
        "above 0, got 0");
  if (request.rebuild_gflops <= 0)
    throw ConfigError(
        "\"comm.policy\": \"time\" needs the speed of a rebuild from factors: expected "
        "\"backward_gflops\" of linear layers in the times");
}

/// Looks for the schemes with the shortest step; among equals, for those that move least.
class TimeSearch {
 public:
  explicit TimeSearch(const PlanRequest& request) : request_(request), traffic_(request) {
    for (size_t i = 0; i < request.layers.size(); ++i)
      if (!is_forced(request, request.layers[i])) free_.push_back(i);
  }

  std::vector<Scheme> best(std::vector<Scheme> start) {
    best_ = std::move(start);
    best_cost_ = cost(best_);
    if (free_.size() <= kMostCombined)
      try_all();
    else
      while (improve_one()) {
      }
    return best_;
  }

 private:
  struct Cost {
    double step_ms = 0, bytes = 0;
    bool below(const Cost& other) const {
      constexpr double kEqual = 1e-9;
      if (step_ms < other.step_ms * (1 - kEqual)) return true;
      return step_ms <= other.step_ms * (1 + kEqual) && bytes < other.bytes * (1 - kEqual);
    }
  };

  Cost cost(const std::vector<Scheme>& schemes) const {
    std::vector<double> bytes;
    Cost cost;
    for (size_t i = 0; i < schemes.size(); ++i) {
      const LayerTraffic& layer = request_.layers[i];
      bytes.push_back(schemes[i] == Scheme::kSfb ? traffic_.factor_bytes(layer.rows, layer.columns)
                                                 : traffic_.ps_bytes(layer.tensors));
      cost.bytes += bytes.back();
    }
    cost.step_ms = predicted_step_ms(request_, schemes, bytes);
    return cost;
  }

  bool take_if_better(std::vector<Scheme> schemes) {
    const Cost found = cost(schemes);
    if (!found.below(best_cost_)) return false;
    best_ = std::move(schemes);
    best_cost_ = found;
    return true;
  }

  void try_all() {
    std::vector<Scheme> schemes = best_;
    for (uint32_t combination = 0; combination < uint32_t{1} << free_.size(); ++combination) {
      for (size_t i = 0; i < free_.size(); ++i)
        schemes[free_[i]] = (combination >> i & 1) != 0 ? Scheme::kSfb : Scheme::kPs;
      take_if_better(schemes);
    }
  }

  bool improve_one() {
    bool improved = false;
    for (size_t layer : free_) {
      std::vector<Scheme> schemes = best_;
      schemes[layer] = schemes[layer] == Scheme::kSfb ? Scheme::kPs : Scheme::kSfb;
      improved = take_if_better(std::move(schemes)) || improved;
    }
    return improved;
  }

  const PlanRequest& request_;
  EvenTraffic traffic_;
  std::vector<size_t> free_;
  std::vector<Scheme> best_;
  Cost best_cost_;
};

}  // namespace

double batch_per_worker(const PlanRequest& request) {
  return static_cast<double>(request.global_batch) / static_cast<double>(request.workers);
}

void check_factors(const LayerTraffic& layer, Scheme scheme) {
  if (scheme != Scheme::kSfb || layer.may_use_factors) return;
  throw ConfigError(text("[", layer.type, " '", layer.name,
                         "'] expected a scheme other than \"sfb\": its gradient is no product of "
                         "factors that can be sent"));
}

std::vector<Scheme> choose_schemes(const PlanRequest& request) {
  std::vector<Scheme> schemes;
  for (const LayerTraffic& layer : request.layers) {
    schemes.push_back(scheme_by_rule(request, layer));
    check_factors(layer, schemes.back());
  }
  if (request.policy != Policy::kTime || request.workers == 1) return schemes;
  check_times(request);
  return TimeSearch(request).best(std::move(schemes));
}

double predicted_step_ms(const PlanRequest& request, const std::vector<Scheme>& schemes,
                         const std::vector<double>& layer_bytes) {
  const bool alone = request.workers == 1;
  if (request.times.size() != schemes.size() || (request.link_mbps <= 0 && !alone)) return 0;
  std::vector<LayerStep> steps{
      {.forward = request.time_before.forward_ms, .backward = request.time_before.backward_ms}};
  for (size_t i = 0; i < schemes.size(); ++i) {
    LayerStep step{.forward = request.times[i].forward_ms,
                   .backward = request.times[i].backward_ms,
                   .comm = alone ? 0 : link_ms(request, layer_bytes[i])};
    if (schemes[i] == Scheme::kSfb && !alone && request.rebuild_gflops > 0)
      move_gradient_to_rebuild(request, request.layers[i], step);
    steps.push_back(step);
  }
  return step_ms(request.overlap, steps);
}

}  // namespace poseidon::comm
