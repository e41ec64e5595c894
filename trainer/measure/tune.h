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

/// --tune: times alternatives for the job's layers: the algorithm of each pass, the layout of the
/// activations. Selects those that take over 3 % less time than the fixed rule. Smaller differences
/// count as noise. Returns {"name", "rule_ms", "tuned_ms", "choices": {layer: choice}}, which is
/// the format of a device.choices file. "rule_ms" and "tuned_ms" are the total times with the fixed
/// rule and with "choices". Only this code selects implementations by timing.
Json tune(const Job& job, Log& log);

/// Times of a net with given choices.
struct TimedChoices {
  net::Choices choices;                    ///< of all layers that have choices
  std::map<std::string, double> layer_ms;  ///< forward plus backward, ms
  double total_ms = 0;
};

/// By layer, choices that differ from the fixed rule's choice in one field each.
using Alternatives = std::map<std::string, std::vector<layers::AlgorithmChoice>>;

/// Times a net with the given choices. `what` describes the choices in the log. Throws RunError if
/// the net does not run.
using TimeChoices =
    std::function<TimedChoices(const std::string& what, const net::Choices& choices)>;

/// The search of tune(), with any timing function, such as one of a test. `rule` has the times of
/// the fixed rule.
TimedChoices best_choices(const TimedChoices& rule, const Alternatives& alternatives,
                          const TimeChoices& time, Log& log);

}  // namespace poseidon::trainer
