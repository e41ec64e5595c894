#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/fields.h"

namespace poseidon::trainer {

/// "optimizer.schedule" of a job. Positions and lengths are counted in `unit`.
struct ScheduleConfig {
  std::string type = "fixed";
  double gamma = 0.1;              ///< step, multistep, exp, inv, sigmoid
  double power = 1;                ///< inv, poly
  double size = 0;                 ///< step, sigmoid: key "step_size"
  std::vector<double> milestones;  ///< multistep, ascending
  double minimum = 0;              ///< cosine, poly: factor of the learning rate at the end
  double warmup = 0;               ///< length of the warm-up
  double warmup_start = 0;         ///< factor of the learning rate at the start of the warm-up
  enum class Unit : int { kSteps, kEpochs } unit = Unit::kSteps;

  void describe(Fields& fields);
};

/// The learning rate of each step. It depends only on the step.
class Schedule {
 public:
  /// `steps`: length of the whole job; `steps_per_epoch` may be fractional. Throws ConfigError if
  /// the milestones are not in ascending order. The message begins with `place`.
  Schedule(const ScheduleConfig& config, double learning_rate, int64_t steps,
           double steps_per_epoch, const std::string& place);

  /// The learning rate of `step`, counted from 0.
  double learning_rate(int64_t step) const;

 private:
  double factor(double position) const;
  /// Rises from 0 at the end of the warm-up to 1 at the end of the job; 0 if the job ends first.
  /// `position` is in `unit`.
  double progress(double position) const;

  ScheduleConfig config_;
  double learning_rate_, unit_steps_, end_;
};

}  // namespace poseidon::trainer
