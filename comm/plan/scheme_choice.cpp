#include "comm/plan/scheme_choice.h"

#include <algorithm>
#include <optional>

#include "comm/plan/prediction.h"
#include "comm/plan/scheme_costs.h"
#include "core/error.h"

namespace poseidon::comm {

namespace {

/// The most layers for which all combinations are tried. With more, layers are improved one by one.
constexpr size_t kMaxCombined = 12;

ClusterSize size_of(const PlanRequest& request) {
  return {static_cast<double>(request.workers), static_cast<double>(request.servers)};
}

/// Whether the job's rule may choose factors for the layer. Algorithm 1 and the rule "sfb" only
/// consider linear layers. Policy "time" considers convolutions too.
bool may_choose_factors(const PlanRequest& request, const LayerTraffic& layer) {
  const bool by_time = request.policy == Policy::kTime && request.scheme == SchemeRule::kAuto;
  return costs_of(Scheme::kSfb).fault_of(layer).empty() && (layer.linear || by_time);
}

/// The scheme that the job or the network file requires for a layer.
std::optional<Scheme> forced_scheme(const PlanRequest& request, const LayerTraffic& layer) {
  const Scheme without_factors = scheme_without_factors(request.workers);
  const auto scheme = [&](SchemeRule rule) {
    return traits_of(scheme_of(rule)).sends_factors() ? scheme_of(rule) : without_factors;
  };
  if (layer.forced != SchemeRule::kAuto) return scheme(layer.forced);
  if (!may_choose_factors(request, layer)) return without_factors;
  if (request.scheme != SchemeRule::kAuto) return scheme(request.scheme);
  return std::nullopt;
}

/// Whether a layer with factors moves fewer bytes with them. Algorithm 1 counts the values of a
/// linear layer. With int8 a value of a gradient has half the bytes of a factor's value, so bytes
/// are compared, and for convolutions too.
bool factors_are_cheaper(const PlanRequest& request, const LayerTraffic& layer) {
  if (layer.linear && request.wire != WireFormat::kInt8)
    return factors_are_chosen(weight_of(layer), batch_per_worker(request), size_of(request));
  const EvenTraffic traffic(request);
  const auto bytes = [&](Scheme scheme) {
    const LinkBytes link = costs_of(scheme).link_bytes(layer, traffic, traffic.mean());
    return link.sent + link.received;
  };
  return bytes(Scheme::kSfb) <= bytes(Scheme::kPs);
}

/// The scheme that the job or the network file requires, or else the cheaper one.
Scheme scheme_by_rule(const PlanRequest& request, const LayerTraffic& layer) {
  if (const std::optional<Scheme> forced = forced_scheme(request, layer)) return *forced;
  if (request.workers == 1) return scheme_without_factors(1);
  return factors_are_cheaper(request, layer) ? Scheme::kSfb : Scheme::kPs;
}

Schemes schemes_by_rule(const PlanRequest& request) {
  Schemes schemes;
  for (const LayerTraffic& layer : request.layers) {
    schemes.push_back(scheme_by_rule(request, layer));
    check_scheme(layer, schemes.back());
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
      if (!forced_scheme(request, request.layers[i])) free_.push_back(i);
  }

  Schemes best(Schemes start) {
    best_ = std::move(start);
    best_cost_ = cost(best_);
    if (free_.size() <= kMaxCombined) {
      Schemes schemes = best_;
      try_all(schemes, free_.size());
    } else {
      while (improve_one()) {
      }
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
      const LinkBytes bytes =
          costs_of(schemes[i]).link_bytes(request_.layers[i], traffic_, traffic_.mean());
      cost.bytes += bytes.sent + bytes.received;
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

  /// Tries all schemes of the first `count` free layers.
  void try_all(Schemes& schemes, size_t count) {
    if (count == 0) {
      take_if_better(schemes);
      return;
    }
    for (const Scheme scheme : kSendingSchemes) {
      schemes[free_[count - 1]] = scheme;
      try_all(schemes, count - 1);
    }
  }

  bool improve_one() {
    bool improved = false;
    for (const size_t layer : free_)
      for (const Scheme scheme : kSendingSchemes) {
        Schemes schemes = best_;
        if (schemes[layer] == scheme) continue;
        schemes[layer] = scheme;
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

std::string reason_of(const PlanRequest& request, const LayerTraffic& layer) {
  if (request.workers == 1) return "one worker";
  if (layer.forced != SchemeRule::kAuto)
    return text("\"scheme\": \"", name_of(layer.forced), "\" in the network file");
  if (!layer.factors) return layer.is_shared ? "shared parameters" : "no factors";
  if (!may_choose_factors(request, layer)) return "policy \"time\" would consider sfb";
  if (request.scheme != SchemeRule::kAuto)
    return text("\"comm.scheme\": \"", name_of(request.scheme), "\"");
  if (request.policy == Policy::kTime) return "shortest predicted step";
  return request.wire == WireFormat::kInt8 ? "fewer bytes" : "fewer values (Algorithm 1)";
}

void check_scheme(const LayerTraffic& layer, Scheme scheme) {
  const std::string fault = costs_of(scheme).fault_of(layer);
  if (!fault.empty())
    throw ConfigError(text("[", layer.type, " '", layer.name, "'] expected a scheme other than \"",
                           name_of(scheme), "\": ", fault));
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
