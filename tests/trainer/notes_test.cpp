#include "trainer/messages/notes.h"

// Messages of members: parsing, and checks against the job to which they belong.

#include <doctest/doctest.h>

#include "tests/trainer/tiny_job.h"
#include "trainer/messages/facts.h"
#include "trainer/messages/job_message.h"
#include "trainer/plan/published_plan.h"
#include "trainer/plan/sync_plan.h"
#include "trainer/state/run_tensors.h"
#include "trainer/state/tensor_check.h"
#include "trainer/state/tensor_store.h"
#include "trainer/step/engine.h"
#include "trainer/step/optimizer.h"

using namespace poseidon;
using namespace poseidon::trainer;

namespace {

/// The tensor list of a worker of `job`, with space for the sums of `steps` steps.
Json list_of(const Job& job, int64_t steps) {
  SilentLog log;
  Engine engine(job, {.choices = {}, .versions = 2}, log);
  Optimizer optimizer(job.config.optimizer, engine.net(), engine.updater());
  SumsInFlight sums(engine.net(), steps);
  return tensor_list(tensors_of(engine.net(), optimizer, sums));
}

PublishedPlan published_for(const Job& job) {
  return {.plan = comm::to_json(plan_of(job, nullptr, false)),
          .choices = Json::object(),
          .steps = 9,
          .last_step = 9};
}

}  // namespace

TEST_CASE("a note is dispatched by its kind, and an unexpected kind is refused") {
  const comm::Note note = write_note(TrafficNote{{{.sent = 1, .received = 2}}}, 7);
  CHECK(note.about == "traffic");
  CHECK(note.step == 7);
  int taken = 0;
  dispatch<ClockNote, TrafficNote>(note, [&](const auto& content) {
    if constexpr (requires { content.layers; }) taken += content.layers[0].received == 2 ? 1 : 0;
  });
  CHECK(taken == 1);
  CHECK(error_of<ConfigError>([&] { dispatch<ClockNote>(note, [](const auto&) {}); }) ==
        "a note of \"traffic\", which is not expected here");
}

TEST_CASE("a note with missing, unknown or wrong fields is refused") {
  const auto refusal = [](const Json& content) {
    const comm::Note note{.about = "clock", .step = 0, .content = content};
    return error_of<ConfigError>([&] { read_note<ClockNote>(note); });
  };
  CHECK(refusal({{"asked_ns", 1}, {"there_ns", 2}}) == "");
  for (const Json& content : {Json::array({1}), Json(), Json::object(), Json{{"asked_ns", "1"}},
                              Json{{"asked_ns", -1}}, Json{{"asked_ns", 1}, {"mood", 1}}}) {
    CAPTURE(content.dump());
    CHECK(refusal(content).starts_with("a note of \"clock\": "));
  }
}

TEST_CASE("class names survive writing and reading, also none and one") {
  for (const std::vector<std::string>& classes :
       {std::vector<std::string>{}, {"cat"}, {"cat", "a dog\n", ""}})
    CHECK(read_note<ClassesNote>(write_note(ClassesNote{classes})).classes == classes);
}

TEST_CASE("a worker's list of tensors matches its network and optimizer") {
  const TinyJob tiny;
  for (const char* type : {"sgd", "adam", "rmsprop"})
    for (const int64_t steps : {0, 2}) {
      CAPTURE(type);
      const Job job = tiny.load(
          {"optimizer={\"type\": \"" + std::string(type) + "\", \"learning_rate\": 0.1}"});
      const Json list = list_of(job, steps);
      CHECK_NOTHROW(check_tensors(list, *job.network, job.config.optimizer, steps));
      if (steps > 0)
        CHECK_THROWS_AS(check_tensors(list, *job.network, job.config.optimizer, 1), ConfigError);
    }
}

TEST_CASE("a wrong list of tensors is refused before any allocation") {
  const TinyJob tiny;
  const Job job = tiny.load();
  const Json good = list_of(job, 1);
  const auto refused = [&](const std::function<void(Json&)>& change) {
    Json list = good;
    change(list);
    return !error_of<ConfigError>([&] {
              check_tensors(list, *job.network, job.config.optimizer, 1);
            }).empty();
  };
  CHECK_FALSE(refused([](Json&) {}));
  CHECK(refused([](Json& list) { list["weights"][0]["shape"] = {1 << 20, 1 << 11}; }));
  CHECK(refused([](Json& list) { list["weights"][0]["name"] = "other"; }));
  CHECK(refused([](Json& list) { list["weights"].erase(0); }));
  CHECK(refused([](Json& list) { list["parameters"] = 1; }));
  CHECK(refused([](Json& list) { list["optimizer"][0]["shape"] = {1 << 20, 1 << 11}; }));
  CHECK(refused([](Json& list) { list["optimizer"].push_back(list["optimizer"][0]); }));
  CHECK(refused([](Json& list) { list["sums"].push_back(list["sums"][0]); }));
  CHECK(refused([](Json& list) { list["sums"][0]["name"] = "sum.7.conv.weight"; }));
  CHECK(refused([](Json& list) { list = Json::array(); }));
}

TEST_CASE("a plan is checked against the job and against its reader's role") {
  const TinyJob tiny;
  const Job job = tiny.load({"cluster.workers=2", "cluster.servers=1"});
  const comm::NodeId worker{comm::Role::kWorker, 1}, server{comm::Role::kServer, 0};
  const PublishedPlan good = published_for(job);
  CHECK_NOTHROW(read_sync_plan(good, job, worker));
  CHECK_NOTHROW(read_sync_plan(good, job, server));
  const auto refusal = [&](const char* key, const Json& value, comm::NodeId self) {
    PublishedPlan published = good;
    if (*key != 0) published.plan[key] = value;
    return error_of<ConfigError>([&] { read_sync_plan(published, job, self); });
  };
  CHECK(refusal("", {}, {comm::Role::kWorker, 2}) ==
        "the plan: /: expected a rank below 2, got worker 2");
  CHECK(refusal("", {}, {comm::Role::kServer, 1}) ==
        "the plan: /: expected a rank below 1, got server 1");
  CHECK(refusal("global_batch", 1 << 20, worker) ==
        "the plan: /global_batch: expected 16 as in the job, got 1048576");
  CHECK(refusal("logical_shards", 1 << 20, worker).starts_with("the plan: /logical_shards: "));
  CHECK(refusal("workers", 1, worker) != "");
  CHECK(refusal("servers", 7, worker) != "");
  CHECK(refusal("staleness", 3, worker) != "");
  CHECK(refusal("wire", "bf16", worker) != "");
}

TEST_CASE("a plan with wrong step order or with a folder is refused") {
  const TinyJob tiny;
  const Json good = write_published_plan(published_for(tiny.load()));
  const auto refusal = [&](const char* key, const Json& value) {
    Json json = good;
    json[key] = value;
    return error_of<ConfigError>([&] { read_published_plan(json); });
  };
  CHECK(refusal("steps", 9) == "");
  CHECK(refusal("last_step", 10) == "the plan: /last_step: expected at most 9, got 10");
  CHECK(refusal("first_step", 10) == "the plan: /first_step: expected at most 9, got 10");
  CHECK(refusal("in_flight", 1) == "the plan: /in_flight: expected at most 0, got 1");
  CHECK(refusal("run_directory", "/tmp").starts_with("the plan: /run_directory: unknown key"));
}

TEST_CASE("the number of samples that workers report must be a positive integer") {
  const auto told = [](const std::string& value) {
    return training_samples({{"the number of training samples", value}});
  };
  CHECK(told("60000") == 60000);
  for (const char* value : {"", "abc", "-1", "0", "1x", " 1", "1e3", "9999999999999999999999"}) {
    CAPTURE(value);
    CHECK_THROWS_AS(told(value), ConfigError);
  }
  CHECK_THROWS_AS(training_samples({}), ConfigError);
}

TEST_CASE("a logical shard with another device kind or arithmetic is reported") {
  const TinyJob files;
  const Job job = files.load({"cluster.workers=2", "cluster.servers=1", "comm.scheme=ps"});
  const DeviceNote usual{
      .kind = "cpu", .arithmetic = "oneDNN 2.6, v3", .threads = 2, .devices = "cpu"};
  const auto plan_with = [&](const DeviceNote& device) {
    PublishedPlan published = published_for(job);
    set_devices(published, {{0, usual}, {1, device}});
    return published.plan;
  };
  const auto moved = [&](const DeviceNote& device) {
    return moved_shard(plan_with(usual), plan_with(device), job);
  };
  CHECK(moved(usual).empty());
  DeviceNote other = usual;
  other.devices = "cpu:1";
  other.threads = 3;
  CHECK(moved(other).empty());
  other.arithmetic = "oneDNN 2.6, v2";
  CHECK(moved(other) ==
        "logical shard 1 was computed by oneDNN 2.6, v3 until the previous view and is now "
        "computed by oneDNN 2.6, v2 on worker 1, so the result differs from that of an "
        "uninterrupted run");
  other.kind = "cuda";
  CHECK(moved(other).find("by cpu until the previous view and is now computed by cuda") !=
        std::string::npos);
  // If a plan does not describe the workers' arithmetic, only the job's device kind is known.
  CHECK(moved_shard(published_for(job).plan, plan_with(usual), job).empty());
}

TEST_CASE("the workers of the highest ranks receive values, in the number that the plan states") {
  PublishedPlan published{.plan = Json{{"workers", 3}}, .receiving = 1};
  CHECK_FALSE(published.receives_values(1));
  CHECK(published.receives_values(2));
  published.plan = Json{{"workers", "three"}};
  CHECK_FALSE(published.receives_values(2));
}
