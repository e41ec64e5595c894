#include "trainer/measure/memory_estimate.h"

#include <doctest/doctest.h>

#include "tests/trainer/tiny_job.h"
#include "trainer/plan/sync_plan.h"
#include "trainer/step/engine.h"
#include "trainer/step/optimizer.h"

using namespace poseidon;
using namespace poseidon::trainer;

namespace {

class Warnings final : public Log {
 public:
  void info(std::string_view) override {}
  void warning(std::string_view message) override { all.emplace_back(message); }
  std::vector<std::string> all;
};

MemoryEstimate estimate_of(const Job& job) {
  return estimate_memory(job, plan_of(job, nullptr, false), {});
}

}  // namespace

TEST_CASE("the estimates of state and gradients equal the allocated bytes") {
  const TinyJob tiny;
  for (const char* type : {"sgd", "adam", "averages"}) {
    CAPTURE(type);
    const Job job = tiny.load(
        {std::string_view(type) == "averages"
             ? "optimizer.average_decay=0.9"
             : "optimizer={\"type\": \"" + std::string(type) + "\", \"learning_rate\": 0.1}"});
    const MemoryEstimate told = estimate_of(job);
    SilentLog log;
    Engine engine(job, {}, log);
    Optimizer optimizer(job.config.optimizer, engine.net(), engine.updater());
    size_t states = 0, gradients = 0;
    for (const Optimizer::State& state : optimizer.states())
      states += state.versions.current().size_bytes();
    if (Ema* averages = optimizer.averages()) {
      for (size_t i = 0; i < engine.net().parameters().size(); ++i)
        states += averages->of_parameter(i).size_bytes();
      for (size_t i = 0; i < engine.net().parameters().statistics().size(); ++i)
        states += averages->of_statistic(i).size_bytes();
    }
    for (const net::Parameter& each : engine.net().parameters())
      gradients += each.gradient.size_bytes();
    // Allowed in addition: a few cache lines for each tensor.
    constexpr size_t kLines = size_t{16} << 10;
    CHECK(told.optimizer_state >= states);
    CHECK(told.optimizer_state <= states + kLines);
    CHECK(told.net.gradients >= gradients);
    CHECK(told.net.gradients <= gradients + kLines);
  }
}

TEST_CASE("a run that needs more memory than available prints a warning of one line") {
  const TinyJob tiny;
  const Job job = tiny.load();
  Warnings log;
  MemoryEstimate estimate = estimate_of(job);
  warn_of_memory(job, estimate, 1, log);
  CHECK(log.all.empty());
  estimate.data = size_t{1} << 50;
  warn_of_memory(job, estimate, 1, log);
  estimate.process = 0;
  warn_of_memory(job, estimate, 2, log);
  REQUIRE(log.all.size() == 2);
  CHECK(log.all[0].starts_with(
      "1 worker of this run will need about 1.1 PB of memory at the peak, more than the "));
  CHECK(log.all[0].ends_with(
      " available here; --check lists its parts; a smaller data.batch_per_worker needs less"));
  CHECK(log.all[1].starts_with("2 workers of this run will need about 2.3 PB"));
}
