#include "comm/plan/scheme_choice.h"

#include <algorithm>

#include "comm/plan/cost_model.h"
#include "comm/plan/prediction.h"
#include "comm/plan/traffic.h"
#include "core/error.h"

namespace poseidon::comm {

namespace {

/// The most layers for which all combinations are tried. With more, layers are improved one by one.
constexpr size_t kMaxCombined = 12;

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

/// The scheme that the job or the network file requires, or else the scheme that
/// factors_are_chosen() selects.
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

Schemes schemes_by_rule(const PlanRequest& request) {
  Schemes schemes;
  for (const LayerTraffic& layer : request.layers) {
    schemes.push_back(scheme_by_rule(request, layer));
    check_factors(layer, schemes.back());
  }
  return schemes;
}

void check_times(const PlanRequest& request) {
  if (request.times.size() != request.layers.size())
    throw ConfigError(
        "\"comm.policy\": \"time\" requires measured layer times: set --times FILE to the output "
        "of --time --json");
  if (request.link_mbps <= 0)
    throw ConfigError(
        "\"comm.policy\": \"time\" requires the speed of the network: expected \"comm.link_mbps\" "
        "above 0, got 0");
  if (request.rebuild_gflops <= 0)
    throw ConfigError(
        "\"comm.policy\": \"time\" requires \"backward_gflops\" of a linear layer in the times, "
        "because gradients are rebuilt from factors at that speed");
}

/// Searches for the schemes with the shortest step. If several are equally short, it selects the
/// schemes that move the fewest bytes. With more than kMaxCombined layers to decide, the result may
/// not be the optimum.
class TimeSearch {
 public:
  explicit TimeSearch(const PlanRequest& request) : request_(request), traffic_(request) {
    for (size_t i = 0; i < request.layers.size(); ++i)
      if (!is_forced(request, request.layers[i])) free_.push_back(i);
  }

  Schemes best(Schemes start) {
    best_ = std::move(start);
    best_cost_ = cost(best_);
    if (free_.size() <= kMaxCombined)
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

  Cost cost(const Schemes& schemes) const {
    Cost cost;
    for (size_t i = 0; i < schemes.size(); ++i) {
      const LayerTraffic& layer = request_.layers[i];
      cost.bytes += schemes[i] == Scheme::kSfb ? traffic_.factor_bytes(layer)
                                               : traffic_.ps_bytes(layer.tensors);
    }
    cost.step_ms = predicted_step_ms(request_, schemes, link_loads(request_, traffic_, schemes));
    return cost;
  }

  bool take_if_better(Schemes schemes) {
    const Cost found = cost(schemes);
    if (!found.below(best_cost_)) return false;
    best_ = std::move(schemes);
    best_cost_ = found;
    return true;
  }

  void try_all() {
    Schemes schemes = best_;
    for (uint32_t combination = 0; combination < uint32_t{1} << free_.size(); ++combination) {
      for (size_t i = 0; i < free_.size(); ++i)
        schemes[free_[i]] = (combination >> i & 1) != 0 ? Scheme::kSfb : Scheme::kPs;
      take_if_better(schemes);
    }
  }

  bool improve_one() {
    bool improved = false;
    for (size_t layer : free_) {
      Schemes schemes = best_;
      schemes[layer] = schemes[layer] == Scheme::kSfb ? Scheme::kPs : Scheme::kSfb;
      improved = take_if_better(std::move(schemes)) || improved;
    }
    return improved;
  }

  const PlanRequest& request_;
  EvenTraffic traffic_;
  std::vector<size_t> free_;
  Schemes best_;
  Cost best_cost_;
};

}  // namespace

double batch_per_worker(const PlanRequest& request) {
  return static_cast<double>(request.global_batch) / static_cast<double>(request.workers);
}

std::string factors_fault(const LayerTraffic& layer) {
  if (layer.is_shared)
    return "several layers use its parameters (\"shares\"), and the sum of their gradients is not "
           "a product of factors";
  return "its gradient is not a product of factors that can be sent";
}

void check_factors(const LayerTraffic& layer, Scheme scheme) {
  if (scheme != Scheme::kSfb || layer.may_use_factors) return;
  throw ConfigError(text("[", layer.type, " '", layer.name,
                         "'] expected a scheme other than \"sfb\": ", factors_fault(layer)));
}

std::vector<Schemes> choose_schemes(const PlanRequest& request) {
  const Schemes by_bytes = schemes_by_rule(request);
  // If the job forces a scheme, there is no choice, and no times are needed.
  const bool decides = request.workers > 1 && request.scheme == SchemeRule::kAuto;
  if (request.policy != Policy::kTime || !decides) return {by_bytes};
  check_times(request);
  std::vector<Schemes> choices{TimeSearch(request).best(by_bytes), by_bytes};
  for (const SchemeRule rule : {SchemeRule::kPs, SchemeRule::kSfb}) {
    PlanRequest forced = request;
    forced.scheme = rule;
    choices.push_back(schemes_by_rule(forced));
  }
  return choices;
}

}  // namespace poseidon::comm
