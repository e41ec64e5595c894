#include "trainer/job/optimizer_config.h"

#include <array>
#include <utility>

namespace poseidon::trainer {

using layers::UpdateRule;

namespace {

constexpr Range kBelowOne{.minimum = 0, .maximum = 0.99999999};
/// A smaller value would be 0 as a float.
constexpr Range kEpsilon{.minimum = 1e-30, .maximum = 1};

constexpr std::array kRuleNames{"sgd",      "nesterov", "adagrad", "rmsprop",
                                "adadelta", "adam",     "adamw",   "lars"};

}  // namespace

void OptimizerConfig::describe(Fields& fields) {
  const auto momentum_field = [this](Fields& f) {
    f.number("momentum", momentum, kBelowOne, "part of the velocity that is kept");
  };
  const auto adam_fields = [this](Fields& f) {
    f.number("beta1", beta1, kBelowOne, "smoothing of the gradient");
    f.number("beta2", beta2, kBelowOne, "smoothing of its square");
    f.number("epsilon", adam_epsilon, kEpsilon, "added to the root of the square");
  };
  fields.variant(
      "type", type,
      {{"sgd", "v = momentum v + g; w -= rate v", momentum_field},
       {"nesterov", "v = momentum v + g; w -= rate (g + momentum v)", momentum_field},
       {"adagrad", "s += g^2; w -= rate g / (sqrt(s) + epsilon)",
        [this](Fields& f) { f.number("epsilon", adagrad_epsilon, kEpsilon, "added to the root"); }},
       {"rmsprop", "s = smoothing s + (1 - smoothing) g^2; w -= rate g / (sqrt(s) + epsilon)",
        [this](Fields& f) {
          f.number("smoothing", rmsprop_smoothing, kBelowOne, "of the square");
          f.number("momentum", rmsprop_momentum, kBelowOne, "part of the velocity that is kept");
          f.number("epsilon", rmsprop_epsilon, kEpsilon, "added to the root");
        }},
       {"adadelta", "steps in the ratio of the roots of smoothed squares of steps and gradients",
        [this](Fields& f) {
          f.number("smoothing", adadelta_smoothing, kBelowOne, "of the squares");
          f.number("epsilon", adadelta_epsilon, kEpsilon, "added under the roots");
        }},
       {"adam", "smoothed gradient over the root of its smoothed square", adam_fields},
       {"adamw", "adam with a decay that is not part of the gradient", adam_fields},
       {"lars",
        "sgd whose gradient of each weight (not of biases, scales and shifts) is taken times trust "
        "|w| / (|g| + decay |w|), with the roots of the sums of squares of the weight and of its "
        "gradient over the whole batch, before clipping and decay",
        [=, this](Fields& f) {
          momentum_field(f);
          f.number("trust", trust, kPositive, "factor on the ratio of norms");
        }}},
      "the rule", Presence::kOptional);
  fields.number("learning_rate", learning_rate, at_least(0), "before schedule and multipliers",
                Presence::kRequired);
  fields.number("weight_decay", weight_decay, at_least(0), "L2: this times w joins the gradient");
  fields.number("l1_decay", l1_decay, at_least(0), "L1: this times sign(w) joins the gradient");
  fields.number("clip_norm", clip_norm, at_least(0),
                "longest gradient, over all parameters together; 0: no limit");
  fields.number("average_decay", average_decay, kBelowOne,
                "tests use averages of parameters and running statistics, which each update moves "
                "towards them by 1 - this; of update t, counted from 0, by at least 10 / (10 + t); "
                "0: none are kept");
  fields.object(
      "schedule", [this](Fields& f) { schedule.describe(f); }, "how the learning rate changes");
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
