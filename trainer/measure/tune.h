#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/json.h"
#include "core/log.h"
#include "net/net.h"
#include "trainer/job/job.h"

namespace poseidon::trainer {

/// Times the choices that the job's layers have (algorithm for each pass, layout of the
/// activations) and takes what is faster than the fixed rule by more than the noise. Returns
/// {"choices": {layer: choice}, "rule_ms", "tuned_ms"}: a file that device.choices can name. Timing
/// decides here and nowhere else.
Json tune(const Job& job, Log& log);

/// A net with these choices, timed.
struct TimedChoices {
  net::Choices choices;                    ///< of all layers that have some
  std::map<std::string, double> layer_ms;  ///< forward and backward
  double total_ms = 0;
};

/// By layer, other choices than the fixed rule's; each differs from it in one field.
using Alternatives = std::map<std::string, std::vector<layers::Choice>>;

/// Times a net with some choices, which `what` says in a log. Throws RunError where it does not
/// run.
using TimeChoices =
    std::function<TimedChoices(const std::string& what, const net::Choices& choices)>;

/// The search that tune() makes, over any way to time.
TimedChoices best_choices(const TimedChoices& rule, const Alternatives& alternatives,
                          const TimeChoices& time, Log& log);

}  // namespace poseidon::trainer
