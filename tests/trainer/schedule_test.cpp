#include "trainer/job/schedule.h"

#include <doctest/doctest.h>

#include <cmath>

#include "core/error.h"
#include "core/json.h"

using namespace poseidon;
using trainer::Schedule;
using trainer::ScheduleConfig;

namespace {

/// A schedule for 100 steps, 10 steps per epoch, with a learning rate of 2.
Schedule schedule(const char* json) {
  ScheduleConfig config;
  read_fields(parse_json(json, "job.json"), {"job.json", "/optimizer/schedule"},
              [&](Fields& fields) { config.describe(fields); });
  return {config, 2, 100, 10, "job.json: /optimizer/schedule"};
}

}  // namespace

TEST_CASE("fixed is constant and the default") {
  CHECK(schedule("{}").learning_rate(99) == 2);
  CHECK(schedule(R"({"type": "fixed"})").learning_rate(0) == 2);
}

TEST_CASE("step and multistep change at the configured steps") {
  const Schedule step = schedule(R"({"type": "step", "gamma": 0.5, "step_size": 10})");
  CHECK(step.learning_rate(9) == 2);
  CHECK(step.learning_rate(10) == 1);
  CHECK(step.learning_rate(25) == 0.5);
  const Schedule multi = schedule(R"({"type": "multistep", "gamma": 0.1, "milestones": [40, 60]})");
  CHECK(multi.learning_rate(39) == 2);
  CHECK(multi.learning_rate(40) == doctest::Approx(0.2));
  CHECK(multi.learning_rate(60) == doctest::Approx(0.02));
}

TEST_CASE("exp, inv and sigmoid follow Caffe's formulas") {
  CHECK(schedule(R"({"type": "exp", "gamma": 0.9})").learning_rate(7) ==
        doctest::Approx(2 * std::pow(0.9, 7)));
  CHECK(schedule(R"({"type": "inv", "gamma": 0.01, "power": 0.75})").learning_rate(50) ==
        doctest::Approx(2 * std::pow(1.5, -0.75)));
  CHECK(schedule(R"({"type": "sigmoid", "gamma": -0.1, "step_size": 50})").learning_rate(70) ==
        doctest::Approx(2 / (1 + std::exp(2))));
}

TEST_CASE("poly and cosine end at the job's last step") {
  const Schedule poly = schedule(R"({"type": "poly", "power": 2})");
  CHECK(poly.learning_rate(0) == 2);
  CHECK(poly.learning_rate(50) == doctest::Approx(0.5));
  CHECK(poly.learning_rate(100) == 0);
  const Schedule cosine = schedule(R"({"type": "cosine", "minimum": 0.1})");
  CHECK(cosine.learning_rate(0) == 2);
  CHECK(cosine.learning_rate(50) == doctest::Approx(1.1));
  CHECK(cosine.learning_rate(100) == doctest::Approx(0.2));
}

TEST_CASE("a warm-up rises to the full learning rate, and cosine starts after it") {
  const Schedule warm = schedule(R"({"warmup": 4})");
  CHECK(warm.learning_rate(0) == doctest::Approx(0.5));
  CHECK(warm.learning_rate(2) == doctest::Approx(1.5));
  CHECK(warm.learning_rate(3) == 2);
  CHECK(warm.learning_rate(4) == 2);
  CHECK(schedule(R"({"warmup": 4, "warmup_start": 0.5})").learning_rate(0) ==
        doctest::Approx(1.25));
  const Schedule cosine = schedule(R"({"type": "cosine", "warmup": 20})");
  CHECK(cosine.learning_rate(19) == 2);
  CHECK(cosine.learning_rate(20) == 2);
  CHECK(cosine.learning_rate(60) == doctest::Approx(1));
}

TEST_CASE("a schedule may count in epochs") {
  const Schedule schedule_in_epochs =
      schedule(R"({"type": "multistep", "milestones": [3], "unit": "epochs", "warmup": 1})");
  CHECK(schedule_in_epochs.learning_rate(0) == doctest::Approx(0.2));
  CHECK(schedule_in_epochs.learning_rate(29) == 2);
  CHECK(schedule_in_epochs.learning_rate(30) == doctest::Approx(0.2));
}

TEST_CASE("an invalid schedule is refused") {
  const auto refusal = [](const char* json) -> std::string {
    try {
      schedule(json);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  CHECK(refusal(R"({"type": "multistep", "milestones": [5, 5]})") ==
        "job.json: /optimizer/schedule/milestones: expected ascending numbers");
  CHECK(refusal(R"({"type": "step"})") ==
        "job.json: /optimizer/schedule: \"step_size\" is missing");
  CHECK(refusal(R"({"type": "cosinus"})") ==
        "job.json: /optimizer/schedule/type: expected one of \"fixed\", \"step\", \"multistep\", "
        "\"exp\", \"inv\", \"poly\", \"sigmoid\", \"cosine\", got \"cosinus\"; did you mean "
        "\"cosine\"?");
}
