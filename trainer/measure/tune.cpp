#include "trainer/measure/tune.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/error.h"
#include "trainer/job/choices.h"
#include "trainer/measure/timing.h"
#include "trainer/step/engine.h"

namespace poseidon::trainer {

namespace {

using layers::AlgorithmChoice;

constexpr int kRepeats = 7;
/// An alternative to the fixed rule must take less than this fraction of the rule's time. Smaller
/// speedups count as noise.
constexpr double kWorthwhile = 0.97;

/// The fields of a choice that name algorithms.
constexpr std::string AlgorithmChoice::*kPasses[] = {
    &AlgorithmChoice::forward, &AlgorithmChoice::backward_data, &AlgorithmChoice::backward_weights};

/// The first of kPasses in which two choices differ.
std::optional<size_t> changed_pass(const AlgorithmChoice& base, const AlgorithmChoice& other) {
  for (size_t pass = 0; pass < std::size(kPasses); ++pass)
    if (other.*kPasses[pass] != base.*kPasses[pass]) return pass;
  return std::nullopt;
}

class TuningSearch {
 public:
  TuningSearch(const TimedChoices& rule, const Alternatives& alternatives, const TimeChoices& time,
               Log& log)
      : rule_(rule), time_(time), log_(log) {
    for (const auto& [layer, others] : alternatives)
      for (const AlgorithmChoice& other : others)
        (other.layout == rule.choices.at(layer).layout ? algorithms_ : layouts_)[layer].push_back(
            other);
  }

  TimedChoices run() {
    TimedChoices best = rule_;
    consider(best, "the best of each layer", best_algorithms());
    consider(best, "channels last", all_with_other_layout());
    return best;
  }

 private:
  /// Times a net with these choices. If they do not run on this device, warns and returns nullopt.
  std::optional<TimedChoices> timed(const std::string& what, const net::Choices& choices) {
    try {
      return time_(what, choices);
    } catch (const RunError& error) {
      log_.warning(text("tune: ", what, " does not run and is skipped: ", error.what()));
      return std::nullopt;
    }
  }

  /// Replaces `best` if a net with `choices` takes less than kWorthwhile times the total time of
  /// `best`.
  void consider(TimedChoices& best, const std::string& what, const net::Choices& choices) {
    if (choices == rule_.choices) return;
    if (auto found = timed(what, choices); found && found->total_ms < kWorthwhile * best.total_ms)
      best = std::move(*found);
  }

  /// Selects the fastest algorithm for each layer and pass. Keeps the rule's algorithm if the gain
  /// is only noise. Net k that is timed has alternative k of all layers. An alternative differs
  /// from the rule in one pass, so the algorithm of each pass is selected separately.
  net::Choices best_algorithms() {
    size_t most = 0;
    for (const auto& [layer, others] : algorithms_) most = std::max(most, others.size());
    net::Choices best = rule_.choices;
    for (size_t k = 0; k < most; ++k) {
      net::Choices tried = rule_.choices;
      for (const auto& [layer, others] : algorithms_)
        if (k < others.size()) tried[layer] = others[k];
      const auto found = timed(text("alternative ", k + 1, " of ", most), tried);
      if (!found) continue;
      for (const auto& [layer, others] : algorithms_)
        if (k < others.size()) take_faster(layer, others[k], found->layer_ms.at(layer), best);
    }
    return best;
  }

  void take_faster(const std::string& layer, const AlgorithmChoice& tried, double ms,
                   net::Choices& best) {
    const std::optional<size_t> pass = changed_pass(rule_.choices.at(layer), tried);
    if (!pass) return;
    const double rule_ms = kWorthwhile * rule_.layer_ms.at(layer);
    double& least = least_ms_.try_emplace({layer, *pass}, rule_ms).first->second;
    if (ms >= least) return;
    least = ms;
    best[layer].*kPasses[*pass] = tried.*kPasses[*pass];
  }

  /// A layout also affects neighboring layers, so it is tried for all layers at once.
  net::Choices all_with_other_layout() const {
    net::Choices choices = rule_.choices;
    for (const auto& [layer, others] : layouts_) choices[layer] = others.back();
    return choices;
  }

  const TimedChoices& rule_;
  const TimeChoices& time_;
  Log& log_;
  Alternatives algorithms_, layouts_;
  /// By layer and pass: the layer time that an alternative must be below, ms. The first value is
  /// kWorthwhile * (time of the rule). Later values are the times of the choice in `best`.
  std::map<std::pair<std::string, size_t>, double> least_ms_;
};

class NetTimer {
 public:
  NetTimer(const Job& job, Log& log) : job_(job), log_(log) {}

  /// Creates and times a net with these choices; empty: the fixed rule. Only one net is in memory
  /// at a time.
  TimedChoices time(const std::string& what, const net::Choices& choices) {
    Engine engine(job_, {.choices = choices}, log_);
    TimedChoices timed;
    SilentLog silent;
    for (const net::Timing& timing : time_on_random_values(job_, engine.net(), kRepeats, silent)) {
      timed.layer_ms[timing.name] += timing.forward_ms + timing.backward_ms;
      timed.total_ms += timing.forward_ms + timing.backward_ms;
    }
    timed.choices = engine.net().choices();
    if (choices.empty()) alternatives = engine.net().diagnosis().alternatives();
    log_.info(text("tune: ", what, ": ", timed.total_ms, " ms"));
    return timed;
  }

  Alternatives alternatives;  ///< available after the fixed rule is timed

 private:
  const Job& job_;
  Log& log_;
};

}  // namespace

TimedChoices best_choices(const TimedChoices& rule, const Alternatives& alternatives,
                          const TimeChoices& time, Log& log) {
  return TuningSearch(rule, alternatives, time, log).run();
}

Json tune(const Job& job, Log& log) {
  NetTimer timer(job, log);
  const auto time = [&timer](const std::string& what, const net::Choices& choices) {
    return timer.time(what, choices);
  };
  const TimedChoices rule = time("the fixed rule", {});
  const TimedChoices best = best_choices(rule, timer.alternatives, time, log);
  return {{"name", job.config.name},
          {"rule_ms", rule.total_ms},
          {"tuned_ms", best.total_ms},
          {"choices", choices_json(best.choices)}};
}

}  // namespace poseidon::trainer
