// The training loop with two versions of parameters, optimizer state and statistics, and its revert
// after a failed exchange.

#include "trainer/step/training_loop.h"

#include <doctest/doctest.h>
#include <malloc.h>

#include <numeric>

#include "tests/trainer/made_training.h"
#include "tests/trainer/tiny_job.h"

using namespace poseidon;
using namespace poseidon::trainer;

namespace {

/// The state after each step, from step 0 on.
std::vector<std::vector<float>> undisturbed(const Job& job, const net::Net::Options& options,
                                            int64_t steps) {
  Training training(job, options);
  std::vector<std::vector<float>> states{training.state()};
  for (int64_t step = 0; step < steps; ++step) {
    training.loop.step();
    training.loop.drain();
    states.push_back(training.state());
  }
  return states;
}

}  // namespace

TEST_CASE("two versions of the values give the bits of one") {
  const TinyJob tiny;
  for (const Setup& setup : kSetups) {
    const Job job = tiny.load(setup.overrides);
    const std::vector<std::vector<float>> expected = undisturbed(job, setup.options(1), 4);
    Training training(job, setup.options(2));
    for (int step = 0; step < 4; ++step) training.loop.step();
    training.loop.drain();
    CHECK(training.loop.last_complete_step() == 4);
    CHECK(training.state() == expected[4]);
  }
}

TEST_CASE("after a failure of the exchange at any point the last complete step can be restored") {
  constexpr int64_t kSteps = 4;
  const TinyJob tiny;
  for (const Setup& setup : kSetups) {
    const Job job = tiny.load(setup.overrides);
    const std::vector<std::vector<float>> expected = undisturbed(job, setup.options(1), kSteps);
    int64_t failures = 0;
    for (int64_t arrivals = 0;; ++arrivals) {
      Training training(job, setup.options(2), arrivals);
      const std::string error = error_of<RunError>([&] {
        for (int64_t step = 0; step < kSteps; ++step) training.loop.step();
        training.loop.drain();
      });
      if (error.empty()) break;
      ++failures;
      const int64_t layers =
          static_cast<int64_t>(training.engine.net().parameters().summed_layers().size());
      training.loop.revert_to(training.loop.last_complete_step());
      CHECK(training.loop.last_complete_step() == arrivals / layers);
      CHECK(training.loop.steps_done() == arrivals / layers);
      CHECK(training.state() == expected[static_cast<size_t>(arrivals / layers)]);
      training.loop.revert_to(training.loop.steps_done());  // a second revert has no effect
      CHECK(training.state() == expected[static_cast<size_t>(arrivals / layers)]);
    }
    CHECK(failures == kSteps * 3);  // three layers have sums
  }
}

TEST_CASE("with one version a failed step can be abandoned only if it changed nothing") {
  constexpr int64_t kSteps = 3;
  const TinyJob tiny;
  int64_t whole = 0, torn = 0;
  for (const Setup& setup : kSetups) {
    const Job job = tiny.load(setup.overrides);
    const std::vector<std::vector<float>> expected = undisturbed(job, setup.options(1), kSteps);
    for (int64_t contributions = 0;; ++contributions) {
      Training training(job, setup.options(1));
      training.exchange.fail_after(contributions);
      const std::string error = error_of<RunError>([&] {
        for (int64_t step = 0; step < kSteps; ++step) training.loop.step();
      });
      if (error.empty()) break;
      const int64_t done = training.loop.steps_done();
      if (!training.loop.abandon_after(done)) {
        ++torn;
        continue;
      }
      ++whole;
      training.loop.drain();
      CHECK(training.state() == expected[static_cast<size_t>(done)]);
    }
  }
  CHECK(whole > 0);
  CHECK(torn > 0);
}

TEST_CASE("a loop that reverts to a complete step continues to the bits of an undisturbed run") {
  constexpr int64_t kSteps = 4;
  const TinyJob tiny;
  for (const Setup& setup : kSetups) {
    const Job job = tiny.load(setup.overrides);
    const std::vector<std::vector<float>> expected = undisturbed(job, setup.options(1), kSteps);
    int64_t steps_taken_back = 0;
    for (int64_t arrivals = 0; arrivals < kSteps * 3; ++arrivals)
      for (const bool least : {true, false}) {
        Training training(job, setup.options(2), arrivals);
        CHECK(error_of<RunError>([&] {
                for (int64_t step = 0; step < kSteps; ++step) training.loop.step();
                training.loop.drain();
              }) == "a peer is lost");
        const int64_t complete = training.loop.last_complete_step();
        const int64_t step = least ? training.loop.earliest_revertible_step() : complete;
        steps_taken_back += complete - step;
        training.loop.revert_to(step);
        CHECK(training.state() == expected[static_cast<size_t>(step)]);
        LaterView later(training, job, step);
        while (later.loop.steps_done() < kSteps) later.loop.step();
        later.loop.drain();
        CHECK(training.state() == expected[kSteps]);
      }
    // A step can be taken back until the first update of the next step: at its first sum, or at any
    // sum with clipping.
    CHECK(steps_taken_back >= kSteps - 1);
  }
}

namespace {

/// While this object lives, malloc fills new memory with nonzero bytes.
struct DirtyMemory {
  DirtyMemory() { mallopt(M_PERTURB, 1); }
  ~DirtyMemory() { mallopt(M_PERTURB, 0); }
};

/// A network with one linear layer that learns, "f", between layers without parameters that learn.
std::string with_idle_layers(const std::string& before, const std::string& after,
                             const std::string& reads = "") {
  return R"({"name": "idle", "input": {"channels": 2, "height": 6, "width": 6}, "layers": [)" +
         before + R"({"name": "f", "type": "linear")" + reads + R"(, "outputs": 3})" + after +
         R"(, {"name": "loss", "type": "softmax_loss"}]})";
}

}  // namespace

TEST_CASE("layers without trained parameters may be at any position") {
  const std::string frozen = R"("type": "linear", "outputs": 3, "learning_rate_multipliers": [0, 0],
                                "weight_filler": {"type": "xavier"}})";
  const std::string unread = R"("type": "linear", "outputs": 2, "input": "input"})";
  const std::string norm = R"("type": "batch_norm", "learning_rate_multipliers": [0, 0]})";
  const DirtyMemory dirty;
  for (const std::string& network :
       {with_idle_layers(R"({"name": "first", )" + frozen + ",", ""),
        with_idle_layers("", R"(, {"name": "last", )" + frozen),
        with_idle_layers(R"({"name": "first", )" + unread + ",", "", R"(, "input": "input")"),
        with_idle_layers("", R"(, {"name": "last", )" + unread +
                                 R"(, {"name": "read", "type": "relu", "input": "f"})"),
        with_idle_layers(R"({"name": "first", )" + norm + ",", R"(, {"name": "last", )" + norm)})
    for (const char* rule : {"sgd", "adam"}) {
      CAPTURE(network);
      const TinyJob tiny(network.c_str());
      const Job job = tiny.load({std::string("optimizer.type=") + rule});
      Training training(job);
      std::vector<std::vector<float>> before, after;
      for (const net::Parameter& each : training.engine.net().parameters())
        before.push_back(training.engine.net().values().canonical(each));
      for (int step = 0; step < 3; ++step) training.loop.step();
      training.loop.drain();
      for (size_t i = 0; i < before.size(); ++i) {
        const net::Parameter& each = training.engine.net().parameters()[i];
        CAPTURE(each.name);
        const bool changed = training.engine.net().values().canonical(each) != before[i];
        CHECK(changed == each.name.starts_with("f."));
      }
    }
}

TEST_CASE("a frozen bias does not change when the weight's gradient comes from factors") {
  const TinyJob tiny(R"({"name": "n", "input": {"channels": 2, "height": 6, "width": 6}, "layers": [
      {"name": "ip", "type": "linear", "outputs": 3, "learning_rate_multipliers": [1, 0]},
      {"name": "loss", "type": "softmax_loss"}]})");
  for (const char* rule : {"sgd", "adam", "rmsprop"}) {
    const Job job = tiny.load({std::string("optimizer.type=") + rule});
    Training training(job, {.factored = {"ip"}, .factor_rows = 8});
    for (int step = 0; step < 2; ++step) training.loop.step();
    training.loop.drain();
    const std::span<net::Parameter> parameters = training.engine.net().parameters();
    const std::vector<float> bias = training.engine.net().values().canonical(parameters[1]);
    CHECK(parameters[1].name == "ip.bias");
    CHECK(bias == std::vector<float>(3));
  }
}

TEST_CASE("the largest allowed smoothing gives the update that the rule states") {
  const TinyJob tiny;
  const auto longest_step = [&](std::vector<std::string> overrides) {
    overrides.insert(overrides.end(), {"optimizer.learning_rate=0.001", "optimizer.weight_decay=0",
                                       "optimizer.epsilon=1e-30", "optimizer.schedule.warmup=0"});
    const Job job = tiny.load(overrides);
    Training training(job);
    net::Net& net = training.engine.net();
    const std::vector<float> before = net.values().canonical(net.parameters()[0]);
    training.loop.step();
    training.loop.drain();
    const std::vector<float> after = net.values().canonical(net.parameters()[0]);
    double longest = 0;
    for (size_t i = 0; i < before.size(); ++i)
      longest = std::max(longest, std::abs(static_cast<double>(after[i] - before[i])));
    return longest;
  };
  // The first step of adam is the learning rate. The first step of rmsprop is larger, by 1 / sqrt(1
  // - smoothing).
  for (const char* beta : {"0.9", "0.999", "0.9999999", "0.99999999"}) {
    CAPTURE(beta);
    const std::string both[] = {std::string("optimizer.beta1=") + beta,
                                std::string("optimizer.beta2=") + beta};
    for (const char* rule : {"optimizer.type=adam", "optimizer.type=adamw"})
      CHECK(longest_step({rule, both[0], both[1]}) == doctest::Approx(0.001).epsilon(1e-4));
    CHECK(longest_step({"optimizer.type=rmsprop", std::string("optimizer.smoothing=") + beta}) ==
          doctest::Approx(0.001 / std::sqrt(1 - std::stod(beta))).epsilon(1e-4));
    CHECK(longest_step({"optimizer.type=adadelta", std::string("optimizer.smoothing=") + beta}) ==
          doctest::Approx(0.001 * std::sqrt(1e-30 / (1 - std::stod(beta)))).epsilon(1e-4));
  }
}

TEST_CASE("factors of all shards give nearly the sum of the gradients") {
  const TinyJob tiny;
  const Job job = tiny.load({"cluster.logical_shards=4"});
  const auto by_gradients = undisturbed(job, {}, 3);
  const auto by_factors = undisturbed(job, {.factored = {"ip"}, .factor_rows = 8}, 3);
  CHECK(by_factors[0] == by_gradients[0]);
  CHECK(by_factors[3] != by_factors[0]);
  for (size_t i = 0; i < by_factors[3].size(); ++i)
    CHECK(by_factors[3][i] ==
          doctest::Approx(static_cast<double>(by_gradients[3][i])).epsilon(1e-4).scale(0.01));
}

TEST_CASE("the loss is the sum of the shards' losses in their order") {
  const TinyJob tiny;
  const Job job = tiny.load({"cluster.logical_shards=4"});
  Training training(job);
  const StepReport report = training.loop.step();
  REQUIRE(report.shards.size() == 4);
  double loss = 0;
  double hits = 0;
  for (const SampleSums& shard : report.shards) {
    CHECK(shard.loss > 0);
    loss += shard.loss;
    hits += shard.scalars.at(1);
  }
  CHECK(report.mean.loss == loss / 8);
  CHECK(report.mean.scalars.at(1) == hits / 8);
}

namespace {

/// Reference implementation of training with staleness: one shard, all sums in a list.
class PlainlyDelayed {
 public:
  PlainlyDelayed(const Job& job, int64_t staleness) : training_(job), staleness_(staleness) {}

  /// Returns the loss of each step.
  std::vector<double> train(int64_t steps) {
    std::vector<double> losses;
    for (int64_t step = 0; step < steps; ++step) {
      if (step > staleness_) apply(step - 1 - staleness_);
      losses.push_back(compute(step));
    }
    return losses;
  }
  /// Applies the sums of all steps before `steps`.
  void apply_until(int64_t steps) {
    while (applied_ < steps) apply(applied_);
  }
  std::vector<float> state() { return training_.state(); }

 private:
  using Values = std::vector<float>;

  double compute(int64_t step) {
    net::Net& net = training_.engine.net();
    const data::Batch& batch = training_.loader.next();
    net.set_input(batch.values.floats);
    const layers::StepParameters numbers{.seed = 3, .step = step};
    const layers::StepContext context{.phase = layers::Phase::kTrain,
                                      .numbers = &numbers,
                                      .labels = batch.labels,
                                      .loss_scale = 1.0F / 8};
    net.forward(context);
    double loss = 0;
    const std::vector<float> losses = net.read_scalars()[0].values;
    for (const float each : losses) loss += static_cast<double>(each);
    net.backward(context);
    gradients_.emplace_back();
    contributions_.emplace_back();
    for (const net::Parameter& parameter : net.parameters())
      gradients_.back().emplace_back(parameter.gradient.begin(), parameter.gradient.end());
    for (const net::Statistic& statistic : net.parameters().statistics())
      contributions_.back().emplace_back(statistic.contribution.begin(),
                                         statistic.contribution.end());
    return loss / 8;
  }

  void apply(int64_t step) {
    net::Net& net = training_.engine.net();
    const auto index = static_cast<size_t>(step);
    training_.optimizer.begin(
        {.step = step, .learning_rate = training_.schedule.learning_rate(step)});
    for (size_t i = 0; i < net.parameters().size(); ++i) {
      std::ranges::copy(gradients_[index][i], net.parameters()[i].gradient.begin());
      training_.optimizer.update(i);
    }
    for (size_t i = 0; i < net.parameters().statistics().size(); ++i) {
      const net::Statistic& statistic = net.parameters().statistics()[i];
      std::ranges::copy(contributions_[index][i], statistic.contribution.begin());
      training_.optimizer.track(statistic, 1);
    }
    applied_ = step + 1;
  }

  Training training_;
  int64_t staleness_, applied_ = 0;
  std::vector<std::vector<Values>> gradients_, contributions_;  ///< by step and tensor
};

}  // namespace

TEST_CASE("with staleness each step uses exactly the sums that its definition states") {
  constexpr int64_t kSteps = 9;
  const TinyJob tiny;
  for (const char* rule : {"sgd", "adam"})
    for (const int64_t staleness : {0, 1, 2, 4}) {
      CAPTURE(rule);
      CAPTURE(staleness);
      const Job job = tiny.load({std::string("optimizer.type=") + rule});
      PlainlyDelayed plain(job, staleness);
      const std::vector<double> expected = plain.train(kSteps);
      Training training(job, {.versions = 2}, -1, staleness);
      std::vector<double> losses;
      for (int64_t step = 0; step < kSteps; ++step) {
        const StepReport report = training.loop.step();
        losses.push_back(report.mean.loss);
        CHECK(report.learning_rate == training.schedule.learning_rate(step));
      }
      CHECK(losses == expected);
      training.loop.drain();
      plain.apply_until(kSteps - staleness);
      CHECK(training.loop.last_complete_step() == kSteps - staleness);
      CHECK(training.state() == plain.state());
      training.loop.finish();
      plain.apply_until(kSteps);
      CHECK(training.loop.last_complete_step() == kSteps);
      CHECK(training.state() == plain.state());
    }
}

TEST_CASE("late sums change the loss of each step except the first") {
  const TinyJob tiny;
  const Job job = tiny.load();
  Training on_time(job), late(job, {}, -1, 1);
  for (int step = 0; step < 4; ++step) {
    const double loss = on_time.loop.step().mean.loss;
    const double late_loss = late.loop.step().mean.loss;
    CHECK((loss == late_loss) == (step == 0));
  }
}

TEST_CASE(
    "with staleness, after a failure of the exchange the last complete step can be restored") {
  constexpr int64_t kSteps = 5, kStaleness = 2;
  const TinyJob tiny;
  for (const Setup& setup : kSetups) {
    const Job job = tiny.load(setup.overrides);
    std::vector<std::vector<float>> expected;  // by number of applied steps
    Training undisturbed(job, setup.options(1), -1, kStaleness);
    expected.push_back(undisturbed.state());
    for (int64_t step = 0; step < kSteps; ++step) {
      undisturbed.loop.step();
      undisturbed.loop.drain();
      if (step >= kStaleness) expected.push_back(undisturbed.state());
    }
    for (int64_t arrivals = 0; arrivals < 3 * (kSteps - kStaleness); ++arrivals) {
      Training training(job, setup.options(2), arrivals, kStaleness);
      CHECK(error_of<RunError>([&] {
              for (int64_t step = 0; step < kSteps; ++step) training.loop.step();
              training.loop.drain();
            }) == "a peer is lost");
      training.loop.revert_to(training.loop.last_complete_step());
      // Sums arrive before their use is allowed. Sums of later steps count as arrivals too.
      const int64_t complete = training.loop.steps_done();
      CHECK(complete <= arrivals / 3);
      CHECK(complete >= arrivals / 3 - kStaleness);
      CHECK(training.sums.steps() == 0);
      CHECK(training.state() == expected[static_cast<size_t>(complete)]);
    }
  }
}

TEST_CASE("draining for a checkpoint in each step keeps the bits, with any staleness") {
  constexpr int64_t kSteps = 8;
  const TinyJob tiny;
  for (const Setup& setup : kSetups)
    for (const int64_t staleness : {1, 3}) {
      const Job job = tiny.load(setup.overrides);
      Training unbroken(job, setup.options(1), -1, staleness),
          kept(job, setup.options(1), -1, staleness);
      for (int64_t step = 0; step < kSteps; ++step) {
        unbroken.loop.step();
        kept.loop.step();
        kept.loop.drain_for_checkpoint();
        CHECK(kept.sums.steps() == std::min(step + 1, staleness));
      }
      unbroken.loop.finish();
      kept.loop.finish();
      kept.loop.drain_for_checkpoint();
      CHECK(kept.sums.steps() == 0);
      CHECK(kept.state() == unbroken.state());
    }
}
