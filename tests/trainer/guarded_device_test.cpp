// Net, loop and exchanges on a device with guarded memory: the bits equal those of the CPU.

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/guarded_device.h"
#include "tests/trainer/joined_workers.h"
#include "tests/trainer/made_training.h"
#include "tests/trainer/small_networks.h"
#include "tests/trainer/tiny_job.h"
#include "trainer/step/evaluation.h"

using namespace poseidon;
using namespace poseidon::trainer;
using poseidon::testing::make_guarded_backend;

TEST_CASE("guarded device: a host access to device memory ends the process, and copies work") {
  const layers::Backend backend = make_guarded_backend();
  const Buffer memory = backend.device->allocate(64, MemoryKind::kDevice, "a test");
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGSEGV, SIG_DFL);  // without the message of doctest's signal handler
    memory.as<float>()[0] = 1;
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK_FALSE((WIFEXITED(status) && WEXITSTATUS(status) == 0));
  const std::vector<float> there{3, 4}, none{0, 0};
  std::vector<float> here(2);
  const std::span<float> two = memory.as<float>().first(2);
  backend.device->read(std::as_bytes(two), std::as_writable_bytes(std::span(here)));
  CHECK(here == none);
  backend.device->write(std::as_bytes(std::span(there)), std::as_writable_bytes(two));
  backend.device->read(std::as_bytes(two), std::as_writable_bytes(std::span(here)));
  CHECK(here == there);
}

TEST_CASE("guarded device: training gives the bits of the CPU") {
  const TinyJob tiny;
  std::vector<Setup> setups = kSetups;
  setups.push_back({{"optimizer.type=lars", "cluster.logical_shards=2"}});
  for (const Setup& setup : setups)
    for (const int64_t staleness : {0, 2}) {
      const Job job = tiny.load(setup.overrides);
      Training open(job, setup.options(2), -1, staleness);
      Training guarded(make_guarded_backend(), job, setup.options(2), -1, staleness);
      for (int step = 0; step < 4; ++step) {
        CHECK(guarded.loop.step().mean.loss == open.loop.step().mean.loss);
        open.loop.drain_for_checkpoint();
        guarded.loop.drain_for_checkpoint();
      }
      CHECK(guarded.state() == open.state());
      guarded.loop.finish();
      open.loop.finish();
      guarded.loop.drain();
      CHECK(guarded.state() == open.state());
    }
}

TEST_CASE("guarded device: a test gives the results of the CPU") {
  for (const char* network : {kTinyNetwork, kPhased}) {
    const TinyJob tiny(network);
    const Job job = tiny.load();
    SilentLog log;
    const net::Net::Options two_versions{.versions = 2};
    Training open(job, two_versions), guarded(make_guarded_backend(), job, two_versions);
    const PreparedData data = open_test_data(job, open.data, log);
    for (int step = 0; step < 3; ++step) {
      for (Training* each : {&open, &guarded}) {
        each->loop.step();
        each->loop.drain();
      }
      const std::optional<TestResult> here = evaluate(open.engine.net(), data, {.seed = 3}, log),
                                      there =
                                          evaluate(guarded.engine.net(), data, {.seed = 3}, log);
      REQUIRE(there);
      CHECK(there->mean.loss == here->mean.loss);
      CHECK(there->mean.scalars == here->mean.scalars);
    }
    CHECK(guarded.state() == open.state());
  }
}

TEST_CASE("guarded device: the error names the layer with values that are not finite") {
  const TinyJob tiny;
  const Job job = tiny.load({"optimizer.learning_rate=1e30", "optimizer.schedule.warmup=0"});
  const auto failure = [](Training& training) {
    return error_of<RunError>([&] {
      for (int step = 0; step < 9; ++step) training.loop.step();
    });
  };
  Training open(job), guarded(make_guarded_backend(), job);
  const std::string expected = failure(open);
  CHECK(expected.find("is not finite is \"") != std::string::npos);
  CHECK(failure(guarded) == expected);
}

TEST_CASE("guarded device: workers give the bits of workers on the CPU, with ps and sfb") {
  const TinyJob tiny;
  for (const char* scheme : {"ps", "sfb"})
    for (const char* shards : {"2", "5"})
      for (const char* staleness : {"0", "1"}) {
        CAPTURE(scheme);
        CAPTURE(shards);
        CAPTURE(staleness);
        const Job job = tiny.load(
            {"cluster.workers=2", "cluster.servers=1", std::string("comm.scheme=") + scheme,
             std::string("cluster.logical_shards=") + shards,
             std::string("comm.staleness=") + staleness, "data.global_batch=20"});
        const auto open =
            train_in_parallel(job, {.steps = 4}, [&](size_t) { return make_backend(job); });
        const auto guarded =
            train_in_parallel(job, {.steps = 4}, [](size_t) { return make_guarded_backend(); });
        CHECK(open[0] == open[1]);
        CHECK(guarded[0] == open[0]);
        CHECK(guarded[1] == open[0]);
      }
}
