// The search for algorithm choices that are faster than those of the fixed rule.

#include <doctest/doctest.h>

#include "core/error.h"
#include "trainer/measure/tune.h"

using namespace poseidon;
using namespace poseidon::trainer;
using layers::AlgorithmChoice;

namespace {

AlgorithmChoice choice(const char* forward, const char* data, const char* weights,
                       const char* layout = "") {
  return {.layout = layout, .forward = forward, .backward_data = data, .backward_weights = weights};
}

/// A net of two layers with a fixed time for each algorithm, plus `layout_ms` for a layout other
/// than the rule's.
class FakeTimedNet {
 public:
  TimedChoices time(const net::Choices& choices) {
    ++nets;
    TimedChoices timed;
    timed.choices = choices;
    for (const auto& [layer, one] : choices) {
      const double layer_ms = ms_of(one.forward) + ms_of(one.backward_data) +
                              ms_of(one.backward_weights) + (one.layout.empty() ? 0 : layout_ms);
      timed.layer_ms[layer] = layer_ms;
      timed.total_ms += layer_ms;
    }
    return timed;
  }

  TimedChoices best(const Alternatives& alternatives) {
    const TimedChoices found = best_choices(
        time(rule), alternatives,
        [this](const std::string&, const net::Choices& choices) { return time(choices); }, log);
    return found;
  }

  net::Choices rule{{"a", choice("rule", "rule", "rule")}, {"b", choice("rule", "rule", "rule")}};
  std::map<std::string, double> ms{{"rule", 10}, {"slow", 12}, {"quick", 6}, {"quicker", 4}};
  double layout_ms = 10;
  int nets = 0;
  SilentLog log;

 private:
  double ms_of(const std::string& algorithm) const {
    if (algorithm == "broken") throw RunError("it is broken");
    return ms.at(algorithm);
  }
};

}  // namespace

TEST_CASE("tune: the fastest alternative of each pass of each layer is chosen, in any order") {
  FakeTimedNet net;
  const Alternatives alternatives{
      {"a",
       {choice("quicker", "rule", "rule"), choice("quick", "rule", "rule"),
        choice("rule", "slow", "rule"), choice("rule", "rule", "quick")}},
      {"b", {choice("rule", "quick", "rule")}}};
  const TimedChoices best = net.best(alternatives);
  CHECK(best.choices.at("a") == choice("quicker", "rule", "quick"));
  CHECK(best.choices.at("b") == choice("rule", "quick", "rule"));
  CHECK(best.total_ms == 60 - 6 - 4 - 4);
  CHECK(net.nets == 1 + 4 + 1);
}

TEST_CASE("tune: an alternative that is faster only within the noise is not chosen") {
  FakeTimedNet net;
  net.ms["quick"] = 9.5;
  CHECK(net.best({{"a", {choice("quick", "rule", "rule")}}}).choices == net.rule);
  CHECK(net.nets == 2);
}

TEST_CASE("tune: an alternative that fails is skipped") {
  FakeTimedNet net;
  const TimedChoices best =
      net.best({{"a", {choice("broken", "rule", "rule"), choice("rule", "rule", "quick")}}});
  CHECK(best.choices.at("a") == choice("rule", "rule", "quick"));
}

TEST_CASE("tune: another layout is tried for all layers together, and chosen if it is faster") {
  FakeTimedNet net;
  const Alternatives alternatives{{"a", {choice("rule", "rule", "rule", "channels_last")}}};
  CHECK(net.best(alternatives).choices == net.rule);
  net.layout_ms = -5;
  CHECK(net.best(alternatives).choices.at("a").layout == "channels_last");
  CHECK(net.best(alternatives).choices.at("b") == net.rule.at("b"));
}
