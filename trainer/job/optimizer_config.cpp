#include "trainer/job/optimizer_config.h"

#include <array>
#include <utility>

namespace poseidon::trainer {

using layers::UpdateRule;

namespace {

constexpr Range kBelowOne{.minimum = 0, .maximum = 0.99999999};
/// The minimum prevents an epsilon that is 0 as a float.
constexpr Range kEpsilon{.minimum = 1e-30, .maximum = 1};

constexpr std::array kRuleNames{"sgd",      "nesterov", "adagrad", "rmsprop",
                                "adadelta", "adam",     "adamw",   "lars"};

}  // namespace

void OptimizerConfig::describe(Fields& fields) {
  const auto momentum_field = [this](Fields& f) {
    f.number("momentum", momentum, kBelowOne, "momentum coefficient");
  };
  const auto adam_fields = [this](Fields& f) {
    f.number("beta1", beta1, kBelowOne, "decay of m");
    f.number("beta2", beta2, kBelowOne, "decay of v");
    f.number("epsilon", adam_epsilon, kEpsilon, "added to sqrt(v)");
  };
  fields.variant(
      "type", type,
      {{"sgd", "v = momentum v + g; w -= rate v", momentum_field},
       {"nesterov", "v = momentum v + g; w -= rate (g + momentum v)", momentum_field},
       {"adagrad", "s += g^2; w -= rate g / (sqrt(s) + epsilon)",
        [this](Fields& f) { f.number("epsilon", adagrad_epsilon, kEpsilon, "added to sqrt(s)"); }},
       {"rmsprop",
        "s = smoothing s + (1 - smoothing) g^2; v = momentum v + g / (sqrt(s) + epsilon); w -= "
        "rate v",
        [this](Fields& f) {
          f.number("smoothing", rmsprop_smoothing, kBelowOne, "decay of s");
          f.number("momentum", rmsprop_momentum, kBelowOne, "momentum coefficient");
          f.number("epsilon", rmsprop_epsilon, kEpsilon, "added to sqrt(s)");
        }},
       {"adadelta",
        "s = smoothing s + (1 - smoothing) g^2; d = g sqrt(u + epsilon) / sqrt(s + epsilon); u = "
        "smoothing u + (1 - smoothing) d^2; w -= rate d",
        [this](Fields& f) {
          f.number("smoothing", adadelta_smoothing, kBelowOne, "decay of s and u");
          f.number("epsilon", adadelta_epsilon, kEpsilon, "added under both roots");
        }},
       {"adam", "w -= rate m / (sqrt(v) + epsilon); m, v: bias-corrected EMAs of g and g^2",
        adam_fields},
       {"adamw", "adam with decoupled weight decay", adam_fields},
       {"lars",
        "sgd; the gradient of each weight is multiplied by trust |w| / (|g| + weight_decay |w|). "
        "Norms are L2, |g| over the global batch, before clipping and decay. Biases, scales and "
        "shifts are excluded",
        [=, this](Fields& f) {
          momentum_field(f);
          f.number("trust", trust, kPositive, "trust coefficient");
        }}},
      "update rule (w: parameter, g: gradient, rate: learning rate)", Presence::kOptional);
  fields.number("learning_rate", learning_rate, at_least(0),
                "learning rate before schedule and multipliers", Presence::kRequired);
  fields.number("weight_decay", weight_decay, at_least(0),
                "L2: coefficient of w, added to the gradient (adamw: to the update)");
  fields.number("l1_decay", l1_decay, at_least(0),
                "L1: coefficient of sign(w), added to the gradient");
  fields.number("clip_norm", clip_norm, at_least(0),
                "maximum L2 norm of all gradients together; 0: no clipping");
  fields.number("average_decay", average_decay, kBelowOne,
                "decay of the EMA of parameters and running statistics; 0: no EMA. Tests use the "
                "EMA. The weight of new values in update t = 0, 1, ... is max(1 - decay, 10 / (10 "
                "+ t))");
  fields.object(
      "schedule", [this](Fields& f) { schedule.describe(f); }, "learning rate schedule");
}

UpdateRule OptimizerConfig::rule() const {
  for (size_t i = 0; i < kRuleNames.size(); ++i)
    if (type == kRuleNames[i]) return static_cast<UpdateRule>(i);
  return UpdateRule::kSgd;
}

std::span<const char* const> OptimizerConfig::state_names() const {
  const double kept = rule() == UpdateRule::kRmsProp ? rmsprop_momentum : momentum;
  return layers::state_names(rule(), kept > 0);
}

}  // namespace poseidon::trainer
