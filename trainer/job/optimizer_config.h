#pragma once

#include <span>
#include <string>

#include "core/fields.h"
#include "layers/update.h"
#include "trainer/job/schedule.h"

namespace poseidon::trainer {

/// "optimizer" of a job.
struct OptimizerConfig {
  std::string type = "sgd";
  double learning_rate = 0.01;
  double weight_decay = 0;  ///< L2
  double l1_decay = 0;
  double clip_norm = 0;      ///< 0: no clipping
  double average_decay = 0;  ///< decay of the EMA; 0: no EMA
  ScheduleConfig schedule;

  double momentum = 0.9;  ///< sgd, nesterov, lars
  double trust = 0.001;   ///< lars
  double adagrad_epsilon = 1e-10;
  double rmsprop_smoothing = 0.99, rmsprop_momentum = 0, rmsprop_epsilon = 1e-8;
  double adadelta_smoothing = 0.9, adadelta_epsilon = 1e-6;
  double beta1 = 0.9, beta2 = 0.999, adam_epsilon = 1e-8;

  void describe(Fields& fields);
  layers::UpdateRule rule() const;
  /// Names of the state tensors of each parameter.
  std::span<const char* const> state_names() const;
};

}  // namespace poseidon::trainer
