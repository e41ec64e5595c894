#include "trainer/job/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/error.h"

namespace poseidon::trainer {

void ScheduleConfig::describe(Fields& fields) {
  const auto gamma_field = [this](Fields& f) {
    f.number("gamma", gamma, kPositive, "see the formula");
  };
  const auto minimum_field = [this](Fields& f) {
    f.number("minimum", minimum, between(0, 1), "factor on the learning rate at the end");
  };
  const auto size_field = [this](Fields& f) {
    f.number("step_size", size, kPositive, "step: interval; sigmoid: midpoint",
             Presence::kRequired);
  };
  fields.variant(
      "type", type,
      {{"fixed", "constant", [](Fields&) {}},
       {"step", "gamma^floor(t / step_size)",
        [=](Fields& f) {
          gamma_field(f);
          size_field(f);
        }},
       {"multistep", "gamma^n after n milestones",
        [=, this](Fields& f) {
          gamma_field(f);
          f.numbers("milestones", milestones, kPositive, "values of t, ascending",
                    Presence::kRequired);
        }},
       {"exp", "gamma^t", gamma_field},
       {"inv", "(1 + gamma t)^-power",
        [=, this](Fields& f) {
          gamma_field(f);
          f.number("power", power, kPositive, "exponent");
        }},
       {"poly",
        "minimum + (1 - minimum) (1 - p)^power; p rises from 0 to 1 between the ends of warm-up "
        "and job",
        [=, this](Fields& f) {
          f.number("power", power, kPositive, "exponent");
          minimum_field(f);
        }},
       {"sigmoid", "1 / (1 + exp(-gamma (t - step_size))), as in Caffe; gamma < 0: falls",
        [=, this](Fields& f) {
          f.number("gamma", gamma, {}, "steepness", Presence::kRequired);
          size_field(f);
        }},
       {"cosine",
        "minimum + (1 - minimum) (1 + cos(pi p)) / 2; p rises from 0 to 1 between the ends of "
        "warm-up and job",
        minimum_field}},
      "factor on the learning rate; t: steps (or epochs) done", Presence::kOptional);
  fields.number("warmup", warmup, at_least(0), "length of the linear warm-up");
  fields.number("warmup_start", warmup_start, between(0, 1),
                "factor on the learning rate at the start of the warm-up");
  fields.option("unit", unit, {"steps", "epochs"}, "unit of t, warmup, step_size and milestones");
}

Schedule::Schedule(const ScheduleConfig& config, double learning_rate, int64_t steps,
                   double steps_per_epoch, const std::string& place)
    : config_(config),
      learning_rate_(learning_rate),
      unit_steps_(config.unit == ScheduleConfig::Unit::kEpochs ? steps_per_epoch : 1),
      end_(static_cast<double>(steps) / unit_steps_) {
  if (!std::is_sorted(config.milestones.begin(), config.milestones.end(), std::less_equal<>()))
    throw ConfigError(place + "/milestones: expected ascending numbers");
}

double Schedule::learning_rate(int64_t step) const {
  const double position = static_cast<double>(step) / unit_steps_;
  double rate = learning_rate_ * factor(position);
  // Progress of the warm-up: 1/n in the first of n steps, 1 (the full rate) in the n-th.
  const double warmed = (static_cast<double>(step) + 1) / (config_.warmup * unit_steps_);
  if (config_.warmup > 0 && warmed < 1)
    rate *= config_.warmup_start + (1 - config_.warmup_start) * warmed;
  return rate;
}

double Schedule::progress(double position) const {
  if (end_ <= config_.warmup) return 0;
  return std::clamp((position - config_.warmup) / (end_ - config_.warmup), 0.0, 1.0);
}

double Schedule::factor(double position) const {
  const std::string& type = config_.type;
  const double falling = 1 - config_.minimum;
  if (type == "step") return std::pow(config_.gamma, std::floor(position / config_.size));
  if (type == "multistep") {
    const auto& milestones = config_.milestones;
    const auto passed = std::upper_bound(milestones.begin(), milestones.end(), position);
    return std::pow(config_.gamma, static_cast<double>(passed - milestones.begin()));
  }
  if (type == "exp") return std::pow(config_.gamma, position);
  if (type == "inv") return std::pow(1 + config_.gamma * position, -config_.power);
  if (type == "sigmoid") return 1 / (1 + std::exp(-config_.gamma * (position - config_.size)));
  if (type == "poly")
    return config_.minimum + falling * std::pow(1 - progress(position), config_.power);
  if (type == "cosine")
    return config_.minimum + falling * 0.5 * (1 + std::cos(std::numbers::pi * progress(position)));
  return 1;
}

}  // namespace poseidon::trainer
