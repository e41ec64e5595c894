#include "trainer/measure/tune.h"

#include <algorithm>
#include <map>

#include "core/error.h"
#include "trainer/job/choices.h"
#include "trainer/measure/timing.h"
#include "trainer/step/engine.h"

namespace poseidon::trainer {

namespace {

constexpr int kRepeats = 7;
/// Faster by less than this is taken for noise, and the rule stays.
constexpr double kWorthwhile = 0.97;

using Alternatives = std::map<std::string, std::vector<layers::Choice>>;

struct Measured {
  std::map<std::string, double> layer_ms;  ///< forward and backward
  double total_ms = 0;
  net::Choices choices;
  Alternatives alternatives;
};

class Tuner {
 public:
  Tuner(const Job& job, Log& log) : job_(job), log_(log) {}

  Json run() {
    const Measured rule = measure("the fixed rule", {});
    Measured best = rule;
    if (const net::Choices algorithms = best_algorithms(rule); algorithms != rule.choices)
      best = measure("the best of each layer", algorithms);
    Measured channels_last = measure("channels last", all_with_other_layout(rule));
    if (channels_last.total_ms < kWorthwhile * best.total_ms) best = std::move(channels_last);
    if (best.total_ms > kWorthwhile * rule.total_ms) best = rule;
    return {{"name", job_.config.name},
            {"rule_ms", rule.total_ms},
            {"tuned_ms", best.total_ms},
            {"choices", choices_json(best.choices)}};
  }

 private:
  /// A net with these choices, made anew and timed. Only one is in memory at a time.
  Measured measure(const std::string& what, const net::Choices& choices) {
    Engine engine(job_, {.choices = choices}, log_);
    Measured measured;
    for (const net::Timing& timing : time_on_random_values(job_, engine.net(), kRepeats)) {
      measured.layer_ms[timing.name] += timing.forward_ms + timing.backward_ms;
      measured.total_ms += timing.forward_ms + timing.backward_ms;
    }
    measured.choices = engine.net().choices();
    measured.alternatives = engine.net().diagnosis().alternatives();
    log_.info(poseidon::text("tune: ", what, ": ", measured.total_ms, " ms"));
    return measured;
  }

  /// Every layer's k-th alternative of algorithm is timed in one net; what gains is merged, since
  /// alternatives differ in one pass each.
  net::Choices best_algorithms(const Measured& rule) {
    net::Choices best = rule.choices;
    size_t most = 0;
    for (const auto& [layer, others] : rule.alternatives)
      most = std::max(most, same_layout(rule, layer).size());
    for (size_t k = 0; k < most; ++k) {
      net::Choices tried = rule.choices;
      for (const auto& [layer, others] : rule.alternatives)
        if (const auto usable = same_layout(rule, layer); k < usable.size())
          tried[layer] = usable[k];
      const Measured measured = measure(poseidon::text("alternative ", k + 1, " of ", most), tried);
      for (const auto& [layer, others] : rule.alternatives) {
        const auto usable = same_layout(rule, layer);
        if (k < usable.size() &&
            measured.layer_ms.at(layer) < kWorthwhile * rule.layer_ms.at(layer))
          merge(rule.choices.at(layer), usable[k], best[layer]);
      }
    }
    return best;
  }

  static std::vector<layers::Choice> same_layout(const Measured& rule, const std::string& layer) {
    std::vector<layers::Choice> usable = rule.alternatives.at(layer);
    std::erase_if(usable, [&](const layers::Choice& other) {
      return other.layout != rule.choices.at(layer).layout;
    });
    return usable;
  }

  /// Puts the field in which `other` differs from `base` into `target`.
  static void merge(const layers::Choice& base, const layers::Choice& other,
                    layers::Choice& target) {
    using layers::Choice;
    for (std::string Choice::*pass :
         {&Choice::forward, &Choice::backward_data, &Choice::backward_weights})
      if (other.*pass != base.*pass) target.*pass = other.*pass;
  }

  /// A layout concerns the neighbours, so it is tried for all layers at once.
  static net::Choices all_with_other_layout(const Measured& rule) {
    net::Choices choices = rule.choices;
    for (const auto& [layer, others] : rule.alternatives)
      for (const layers::Choice& other : others)
        if (other.layout != rule.choices.at(layer).layout) choices[layer] = other;
    return choices;
  }

  const Job& job_;
  Log& log_;
};

}  // namespace

Json tune(const Job& job, Log& log) { return Tuner(job, log).run(); }

}  // namespace poseidon::trainer
