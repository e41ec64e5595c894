// Workers with several devices: the bits equal those of any other split of the same logical shards.
// If a device fails, there is one message.

#include <doctest/doctest.h>

#include <limits>

#include "tests/trainer/forwarding_exchange.h"
#include "tests/trainer/joined_workers.h"
#include "tests/trainer/small_networks.h"
#include "tests/trainer/tiny_job.h"
#include "trainer/measure/memory_estimate.h"
#include "trainer/member/member_job.h"
#include "trainer/step/backends.h"

using namespace poseidon;
using namespace poseidon::trainer;

namespace {

struct Split {
  int workers, devices;
};

std::string zeros(int count) {
  std::string all = "0";
  for (int i = 1; i < count; ++i) all += ",0";
  return "device.indices=[" + all + "]";
}

Job job_of_split(const TinyJob& tiny, const Split& split, std::vector<std::string> more) {
  more.insert(more.end(), {"cluster.workers=" + std::to_string(split.workers),
                           "cluster.servers=" + std::to_string(split.workers), zeros(split.devices),
                           "data.global_batch=20"});
  return tiny.load(more);
}

constexpr int64_t kJoinedSteps = 4;

std::vector<std::vector<int64_t>> bits_of(const Job& job) {
  return train_in_parallel(job, {.steps = kJoinedSteps}, [&](size_t) { return make_backend(job); });
}

class Failing final : public ForwardingExchange {
 public:
  Failing(std::unique_ptr<GradientExchange> other, int contributions)
      : ForwardingExchange(std::move(other)), left_(contributions) {}
  void contribute(std::span<const FinalGradient> gradients, int64_t shard) override {
    if (left_-- == 0) throw RunError("this device has had enough");
    ForwardingExchange::contribute(gradients, shard);
  }

 private:
  int left_;
};

/// Calls an action after a number of contributions.
class Interrupted final : public ForwardingExchange {
 public:
  Interrupted(std::unique_ptr<GradientExchange> other, int contributions,
              std::function<void()> action)
      : ForwardingExchange(std::move(other)), left_(contributions), action_(std::move(action)) {}
  void contribute(std::span<const FinalGradient> gradients, int64_t shard) override {
    ForwardingExchange::contribute(gradients, shard);
    if (--left_ == 0) action_();
  }

 private:
  int left_;
  std::function<void()> action_;
};

/// Doubles the sums that it receives.
class Misreading final : public ForwardingExchange {
 public:
  using ForwardingExchange::ForwardingExchange;
  void deliver(int layer, int64_t step, const layers::GradientSink* sink) override {
    if (sink == nullptr) return ForwardingExchange::deliver(layer, step, sink);
    const layers::GradientSink doubled = [sink](int place, int64_t first,
                                                std::span<const float> piece) {
      std::vector<float> twice(piece.begin(), piece.end());
      for (float& value : twice) value *= 2;
      (*sink)(place, first, twice);
    };
    ForwardingExchange::deliver(layer, step, &doubled);
  }
};

/// Checks that all workers of each split end with the bits of one worker with one device.
void check_splits(const char* network, const std::vector<Split>& splits,
                  const std::vector<std::string>& settings) {
  const TinyJob tiny(network);
  const auto alone = bits_of(job_of_split(tiny, {1, 1}, settings));
  for (const Split& split : splits) {
    CAPTURE(std::string(network).substr(0, 24));
    CAPTURE(settings[0]);
    CAPTURE(settings.back());
    CAPTURE(split.workers);
    CAPTURE(split.devices);
    for (const std::vector<int64_t>& worker : bits_of(job_of_split(tiny, split, settings)))
      CHECK(worker == alone[0]);
  }
}

/// The network, with factors of all convolutions that can have them.
std::string with_factors_of_convolutions(const char* text) {
  Json network = Json::parse(text);
  std::vector<std::string> shared;
  for (const Json& layer : network["layers"])
    if (layer.contains("shares")) shared.push_back(layer["shares"]);
  for (Json& layer : network["layers"])
    if (layer.value("type", "") == "convolution" && !layer.contains("shares") &&
        std::ranges::count(shared, layer["name"].get<std::string>()) == 0)
      layer["scheme"] = "sfb";
  return network.dump();
}

std::string weights_of_run(const Json& summary) {
  return summary["weights_sha256"].get<std::string>();
}

}  // namespace

TEST_CASE("any split over workers and devices gives the bits of one device") {
  for (const char* network :
       {kTinyNetwork, kSmallResNet, kSmallLenet, kSmallShapes, kSharing, kPhased})
    for (const char* scheme : {"ps", "sfb"})
      for (const char* staleness : {"0", "1"})
        for (const char* shards : {"4", "5"})
          check_splits(
              network, {{1, 2}, {1, 3}, {2, 2}},
              {std::string("comm.scheme=") + scheme, std::string("comm.staleness=") + staleness,
               std::string("cluster.logical_shards=") + shards});
}

TEST_CASE("with factors of convolutions, any split gives the bits of one device") {
  for (const char* network : {kTinyNetwork, kSmallLenet, kSmallShapes})
    for (const char* wire : {"fp32", "int8"})
      for (const char* staleness : {"0", "1"})
        check_splits(with_factors_of_convolutions(network).c_str(), {{1, 2}, {2, 2}, {3, 1}},
                     {std::string("comm.wire=") + wire, std::string("comm.staleness=") + staleness,
                      "cluster.logical_shards=5"});
}

TEST_CASE("with wire int8, any split over workers and devices gives the bits of one device") {
  for (const char* network : {kTinyNetwork, kSmallResNet, kSmallShapes, kSharing})
    for (const char* scheme : {"ps", "sfb"})
      for (const char* staleness : {"0", "1"})
        check_splits(network, {{1, 2}, {1, 3}, {2, 1}, {2, 2}, {3, 1}, {5, 1}},
                     {"comm.wire=int8", std::string("comm.scheme=") + scheme,
                      std::string("comm.staleness=") + staleness, "cluster.logical_shards=5"});
}

TEST_CASE("functions, normalizations and losses: two and three workers give the bits of one") {
  for (const char* network : {kSmallFunctions, kSmallLosses})
    for (const char* scheme : {"ps", "sfb"})
      check_splits(network, {{2, 1}, {3, 1}, {1, 2}},
                   {std::string("comm.scheme=") + scheme, "cluster.logical_shards=5"});
}

TEST_CASE("several devices keep the bits with scheme auto, clipping, lars and each overlap") {
  const TinyJob tiny;
  for (const std::vector<std::string>& settings :
       std::vector<std::vector<std::string>>{{"comm.scheme=auto"},
                                             {"comm.scheme=auto", "comm.staleness=2"},
                                             {"comm.scheme=auto", "comm.wire=bf16"},
                                             {"optimizer.clip_norm=0.1"},
                                             {"optimizer.type=lars"},
                                             {"comm.overlap=none"},
                                             {"comm.overlap=barrier"}}) {
    CAPTURE(settings[0]);
    for (const int workers : {1, 2}) {
      std::vector<std::string> with_shards = settings;
      with_shards.push_back("cluster.logical_shards=4");
      const auto one = bits_of(job_of_split(tiny, {workers, 1}, with_shards));
      CHECK(bits_of(job_of_split(tiny, {workers, 2}, with_shards)) == one);
    }
  }
}

TEST_CASE("the default number of logical shards is one for each device") {
  const TinyJob tiny;
  const Job job = tiny.load({"cluster.workers=2", zeros(3), "data.global_batch=12"});
  CHECK(job.config.logical_shards() == 6);
  CHECK(job.config.shard_batch() == 2);
}

TEST_CASE("a run on several devices has the bits of one, and resumes on any number of devices") {
  for (const char* scheme : {"ps", "sfb"})
    for (const char* staleness : {"0", "1"}) {
      const std::vector<std::string> settings{"cluster.logical_shards=4",
                                              std::string("comm.staleness=") + staleness,
                                              std::string("comm.scheme=") + scheme};
      const auto with = [&](int devices) {
        std::vector<std::string> all = settings;
        all.push_back(zeros(devices));
        return all;
      };
      const TinyJob tiny;
      const Json one = tiny.run("one", with(1));
      const Json three = tiny.run("three", with(3));
      CHECK(one["device"] == "cpu");
      CHECK(three["device"] == "cpu, cpu, cpu");
      CHECK(weights_of_run(three) == weights_of_run(one));
      CHECK(three["train_loss"] == one["train_loss"]);
      CHECK(three["test_top1"] == one["test_top1"]);
      const Json plan = Json::parse(read_text(tiny.folder / "three/plan.json"));
      CHECK(plan["devices"][0]["devices"] == "cpu, cpu, cpu");
      CHECK(weights_of_run(tiny.run("stopped", with(2), {.max_steps = 4})) != weights_of_run(one));
      CHECK(weights_of_run(tiny.run("on", with(3), {.resume = tiny.folder / "stopped"})) ==
            weights_of_run(one));
      CHECK(weights_of_run(tiny.run("alone", with(1), {.resume = tiny.folder / "stopped"})) ==
            weights_of_run(one));
    }
}

TEST_CASE("a failed device ends the run with its error message") {
  const TinyJob tiny;
  for (const Split& split : {Split{1, 2}, Split{2, 2}, Split{1, 4}})
    for (const char* staleness : {"0", "2"})
      for (const int contributions : {0, 1, 5}) {
        const Job job = job_of_split(
            tiny, split, {"cluster.logical_shards=4", std::string("comm.staleness=") + staleness});
        for (const size_t failing : {0, 1}) {
          JoinedJob all(job, {.steps = 6});
          all.before = [&](size_t number, std::unique_ptr<GradientExchange> exchange) {
            if (number != failing) return exchange;
            return std::unique_ptr<GradientExchange>(
                std::make_unique<Failing>(std::move(exchange), contributions));
          };
          CHECK(error_of<RunError>([&] {
                  train_in_parallel(all, [&](size_t) { return make_backend(job); });
                }) == "this device has had enough");
        }
      }
}

TEST_CASE("a worker reports a step if the job fails after its last contribution to the step") {
  const TinyJob tiny;
  const Job job = job_of_split(tiny, {1, 1}, {"cluster.logical_shards=1"});
  JoinedJob all(job, {.steps = 3});
  std::optional<JoinedWorker> worker;
  all.before = [&](size_t, std::unique_ptr<GradientExchange> exchange) {
    const int two_steps = 2 * static_cast<int>(all.plan.layers.size());
    return std::make_unique<Interrupted>(std::move(exchange), two_steps,
                                         [&] { all.hub.set_failed("a node has failed"); });
  };
  worker.emplace(all, 0, [&](size_t) { return make_backend(job); });
  all.hub.join(worker->exchange());
  CHECK(worker->computation().step().step == 1);
  CHECK(worker->computation().step().step == 2);
  CHECK_THROWS_AS(worker->computation().step(), JobFailed);
  all.hub.leave(0);
}

TEST_CASE("a device that cannot be created ends the worker with its error, and the others stop") {
  const TinyJob tiny;
  for (const size_t failing : {0, 1, 2}) {
    const Job job = job_of_split(tiny, {1, 3}, {"cluster.logical_shards=4"});
    CHECK(error_of<ConfigError>([&] {
            train_in_parallel(job, {.steps = 1}, [&](size_t device) {
              if (device == failing) throw ConfigError("there is no such device");
              return make_backend(job);
            });
          }) == "there is no such device");
  }
}

TEST_CASE("a run of several devices ends with a single error message") {
  const TinyJob tiny;
  const auto refusal = [&](std::vector<std::string> more) {
    more.insert(more.end(), {zeros(2), "cluster.logical_shards=4"});
    return error_of<RunError>([&] { tiny.run("run" + std::to_string(more.size()), more); });
  };
  const std::string error = refusal({"optimizer.learning_rate=1e30", "optimizer.type=sgd"});
  CHECK(error.find("the loss is") != std::string::npos);
  CHECK(error.find("the loss is", error.find("the loss is") + 1) == std::string::npos);
}

TEST_CASE("devices whose values diverge are detected and named") {
  const TinyJob tiny;
  const Job job = job_of_split(tiny, {1, 2}, {"cluster.logical_shards=2"});
  JoinedJob all(job, {.steps = 1});
  all.before = [&](size_t number, std::unique_ptr<GradientExchange> exchange) {
    if (number == 0) return exchange;
    return std::unique_ptr<GradientExchange>(std::make_unique<Misreading>(std::move(exchange)));
  };
  CHECK(error_of<RunError>(
            [&] { train_in_parallel(all, [&](size_t) { return make_backend(job); }); }) ==
        "after step 1 the devices of worker 0 (cpu, cpu) have different values of \"conv.weight\": "
        "device 1 (counted from 0) differs from device 0");
}

TEST_CASE("a worker may have other devices than the job, also of another kind") {
  const TinyJob tiny;
  const JobMessage message = job_message(tiny.load({"cluster.workers=4", "data.global_batch=12"}));
  const auto opened = [&](const char* devices) {
    MemberOptions options;
    options.devices = read_device_list(devices);
    return open_job_message(message, options);
  };
  CHECK(opened("cpu,cpu,cpu").device().names() == "cpu, cpu, cpu");
  CHECK(opened("cpu,cpu,cpu").config.logical_shards() == 4);
  CHECK(opened("cuda:1,cuda:2").device().names() == "cuda:1, cuda:2");
  CHECK(opened("cuda:1").config.device.type == "cpu");
}

TEST_CASE("the memory estimate covers all devices of a worker") {
  const TinyJob tiny;
  const auto estimate = [&](int devices) {
    const Job job = job_of_split(tiny, {1, devices}, {"cluster.logical_shards=4"});
    return estimate_memory(job, plan_of(job, nullptr, false), {});
  };
  const MemoryEstimate one = estimate(1), two = estimate(2);
  CHECK(two.net.parameters == 2 * one.net.parameters);
  CHECK(two.net.activations == 2 * one.net.activations);
  CHECK(two.optimizer_state == 2 * one.optimizer_state);
  CHECK(two.batches * 2 == one.batches * 3);  // the first device also has a batch for tests
  CHECK(two.sums > 0);
}
