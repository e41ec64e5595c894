// Whole jobs on emulated GPUs: the bits are the same in every order that streams and events allow.

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "tests/cuda/emulated_gpu_jobs.h"
#include "tests/support/sanitizers.h"
#include "tests/trainer/made_training.h"
#include "tests/trainer/tiny_job.h"

using namespace poseidon;
using namespace poseidon::trainer;
using poseidon::test::kIsSanitized;
using poseidon::test::make_emulated_gpu_backend;

namespace {

constexpr const char* kMixed = R"(data.train.transform.mix={"mixup": 1, "cutmix": 1})";

/// run_orders (label soak) tests thousands of orders.
constexpr uint64_t kOrders = 1;
/// With a sanitizer the test trains every ninth pair of network and cluster.
constexpr size_t kEvery = kIsSanitized ? 9 : 1;

constexpr SumTiming kTimings[] = {SumTiming::kLate, SumTiming::kLocal};

/// All values that a few steps of a single worker change.
std::vector<float> train_alone(layers::Backend backend, const Job& job, const Setup& setup,
                               int64_t staleness, SumTiming when = SumTiming::kLate) {
  Training training(std::move(backend), job, setup.options(2), -1, staleness, nullptr, when);
  for (int step = 0; step < 5; ++step) {
    training.loop.step();
    training.loop.drain_for_checkpoint();
  }
  training.loop.finish();
  training.loop.drain();
  return training.state();
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i)
    largest = std::max(largest, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  return largest;
}

}  // namespace

TEST_CASE("training on an emulated GPU is close to training on the CPU") {
  const TinyJob tiny;
  const Job job = tiny.load();
  for (const Setup& setup : kSetups)
    CHECK(largest_difference(train_alone(make_emulated_gpu_backend({}), job, setup, 0),
                             train_alone(make_backend(job), job, setup, 0)) < 1e-4);
}

TEST_CASE("training with mixup on an emulated GPU is close to training on the CPU") {
  const TinyJob tiny;
  const Job job = tiny.load({kMixed});
  CHECK(largest_difference(train_alone(make_emulated_gpu_backend({}), job, {}, 0),
                           train_alone(make_backend(job), job, {}, 0)) < 1e-4);
  CHECK(largest_difference(train_alone(make_emulated_gpu_backend({}), tiny.load(), {}, 0),
                           train_alone(make_backend(job), job, {}, 0)) > 1e-3);
}

TEST_CASE("training on an emulated GPU has the same bits in every order") {
  const TinyJob tiny;
  std::vector<Setup> setups = kSetups;
  setups.push_back({{kMixed}});
  setups.push_back({{"optimizer.type=lars", "cluster.logical_shards=2"}});
  setups.push_back({{"optimizer.average_decay=0.5", "cluster.logical_shards=2"}});
  for (const Setup& setup : setups)
    for (const int64_t staleness : {0, 2}) {
      const Job job = tiny.load(setup.overrides);
      const std::vector<float> plain =
          train_alone(make_emulated_gpu_backend({}), job, setup, staleness);
      for (const SumTiming when : kTimings)
        for (uint64_t seed = 1; seed <= kOrders; ++seed)
          CHECK(train_alone(make_emulated_gpu_backend({.seed = seed}), job, setup, staleness,
                            when) == plain);
      CHECK(train_alone(make_emulated_gpu_backend({.seed = 1}, {.graphs = cuda::Graphs::kNone}),
                        job, setup, staleness, SumTiming::kLocal) == plain);
    }
}

TEST_CASE("a loss that is not finite stops a step before any contribution and update") {
  const TinyJob tiny;
  const Job job = tiny.load(
      {"optimizer.learning_rate=1e30", "optimizer.schedule.warmup=0", "cluster.logical_shards=2"});
  for (const SumTiming when : kTimings)
    for (uint64_t seed = 0; seed <= 4; ++seed) {
      Training training(make_emulated_gpu_backend({.seed = seed}), job, {}, -1, 0, nullptr, when);
      int64_t contributions = 0;
      training.exchange.on_contribution = [&] { ++contributions; };
      std::vector<float> last;
      const std::string error = error_of<RunError>([&] {
        for (int step = 0; step < 9; ++step) {
          contributions = 0;
          training.loop.step();
          training.loop.drain();
          last = training.state();
        }
      });
      CHECK(error.find("the first layer with a value that is not finite is \"") !=
            std::string::npos);
      CHECK(contributions == 0);
      CHECK(training.loop.abandon_after(training.loop.steps_done()));
      training.loop.drain();
      const std::vector<float> kept = training.state();
      REQUIRE(kept.size() == last.size());
      // Compares bits, because a NaN is not equal to itself.
      CHECK(std::memcmp(kept.data(), last.data(), kept.size() * sizeof(float)) == 0);
    }
}

TEST_CASE("workers on emulated GPUs have the same bits in every order, with every scheme") {
  size_t number = 0;
  for (const EmulatedGpuNetwork& network : kEmulatedGpuNetworks) {
    const EmulatedGpuJob gpu_job(network);
    for (const Cluster& cluster : kClusters) {
      if (number++ % kEvery != 0) continue;
      CAPTURE(std::string(network.network).substr(0, 24));
      CAPTURE(std::string(cluster.scheme));
      CAPTURE(cluster.workers);
      CAPTURE(cluster.devices);
      CAPTURE(cluster.with_cpus);
      CAPTURE(cluster.staleness);
      const std::vector<int64_t> plain = train_on_emulated_gpu(gpu_job, cluster, 0);
      for (uint64_t seed = 1; seed <= kOrders; ++seed)
        CHECK(train_on_emulated_gpu(gpu_job, cluster, seed) == plain);
    }
  }
}

TEST_CASE("a step allocates no memory, and the host waits only for losses") {
  const TinyJob tiny;
  for (const Setup& setup : kSetups) {
    const Job job = tiny.load(setup.overrides);
    if (job.config.optimizer.clip_norm > 0)
      continue;  // clipping waits for the norm of the gradients
    for (const SumTiming when : kTimings) {
      std::atomic<int64_t> allocations = 0, host_waits = 0;
      Training training(
          make_emulated_gpu_backend({.allocations = &allocations, .host_waits = &host_waits}), job,
          setup.options(2), -1, 0, nullptr, when);
      for (int step = 0; step < 2; ++step) training.loop.step();
      const int64_t taken = allocations, waited = host_waits;
      constexpr int kSteps = 6;
      for (int step = 0; step < kSteps; ++step) training.loop.step();
      CHECK(allocations == taken);
      CHECK(host_waits - waited == kSteps * job.config.logical_shards());
      training.loop.drain();
    }
  }
}

TEST_CASE("kernels access device memory only") {
  for (const cuda::Precision precision : {cuda::Precision::kFp32, cuda::Precision::kBf16}) {
    std::atomic<int64_t> bytes = 0;
    const auto make = [&](size_t) {
      return make_emulated_gpu_backend({.kernel_staging_bytes = &bytes}, {.precision = precision});
    };
    for (const char* network : {kSmallResNet, kSmallLenet}) {
      const EmulatedGpuJob gpu_job({network});
      const Job job = gpu_job.load();
      Training alone(make(0), job);
      for (int step = 0; step < 3; ++step) alone.loop.step();
      alone.loop.drain();
      alone.state();
      CHECK(bytes.exchange(0) == 0);
      for (const Cluster& cluster : {Cluster{"ps", 2, 1, 0}, Cluster{"sfb", 2, 1, 0},
                                     Cluster{"ps", 2, 1, 1, 5, 2}, Cluster{"sfb", 1, 0, 1, 5, 2}}) {
        CAPTURE(std::string(cluster.scheme));
        CAPTURE(cluster.devices);
        train_in_parallel(job_of(gpu_job, cluster), {.steps = 3}, make);
        CHECK(bytes.exchange(0) == 0);
      }
    }
  }
}

TEST_CASE("one copy moves the neighboring gradients or statistics of a layer") {
  const auto copies = [](int64_t steps) {
    std::atomic<int64_t> count = 0;
    train_in_parallel(
        job_of(EmulatedGpuJob({kSmallResNet}), {"ps", 2, 1, 0}), {.steps = steps},
        [&](size_t) { return make_emulated_gpu_backend({.copies_to_staging = &count}); });
    return count.load();
  };
  // Copies of each worker: one for each of two convolutions, two for each of two batch norms
  // (gradients, statistics), one for a linear layer with two gradients, and one for the loss.
  CHECK(copies(4) - copies(3) == 2 * (2 + 2 * 2 + 1 + 1));
}

TEST_CASE("several GPUs of one worker have the bits of the same number of workers") {
  const EmulatedGpuJob tiny({kSmallResNet});
  for (const char* scheme : {"ps", "sfb"})
    for (const int staleness : {0, 1}) {
      const std::vector<int64_t> apart = train_on_emulated_gpu(tiny, {scheme, 4, 2, staleness}, 1);
      CHECK(train_on_emulated_gpu(tiny, {scheme, 1, 0, staleness, 4, 4}, 2) == apart);
      CHECK(train_on_emulated_gpu(tiny, {scheme, 2, 1, staleness, 4, 2}, 3) == apart);
    }
}

TEST_CASE("with wire int8, GPUs have the bits of any number of workers and devices") {
  const EmulatedGpuJob tiny({kSmallResNet});
  const auto bits = [&](int workers, int devices, uint64_t order) {
    return train_on_emulated_gpu(
        tiny, {"ps", workers, workers > 1 ? 2 : 0, 0, 5, devices, false, "int8"}, order);
  };
  const std::vector<int64_t> alone = bits(1, 1, 1);
  CHECK(bits(1, 2, 2) == alone);
  CHECK(bits(2, 1, 3) == alone);
  CHECK(bits(2, 2, 4) == alone);
  CHECK(bits(5, 1, 5) == alone);
}

namespace {

/// The number of stream waits of GPU `gpu`, an index among those of all workers. `dropped`: the
/// wait to leave out; -1: none.
int64_t count_waits(const EmulatedGpuJob& gpu_job, const Cluster& cluster, size_t gpu,
                    int64_t dropped, std::string& said) {
  std::atomic<int64_t> waits = 0;
  said = error_of<LogicError>([&] {
    train_in_parallel(job_of(gpu_job, cluster), {.steps = 3}, [&](size_t device) {
      if (device != gpu) return emulated_gpu_device(cluster, device, {});
      return make_emulated_gpu_backend({.dropped_wait = dropped, .waits = &waits});
    });
  });
  return waits;
}

}  // namespace

TEST_CASE("every missing wait of a stream is detected") {
  const EmulatedGpuJob floats({kSmallResNet}), pixels({kOfImages, kImages});
  for (const EmulatedGpuJob* gpu_job : {&floats, &pixels})
    for (const Cluster& cluster : kClusters) {
      CAPTURE(std::string(cluster.scheme));
      CAPTURE(cluster.workers);
      CAPTURE(cluster.devices);
      CAPTURE(cluster.with_cpus);
      CAPTURE(cluster.staleness);
      // The first GPU of a worker does more than the others.
      for (size_t gpu = 0; gpu < static_cast<size_t>(cluster.devices); ++gpu) {
        CAPTURE(gpu);
        std::string said;
        const int64_t waits = count_waits(*gpu_job, cluster, gpu, -1, said);
        CHECK(said == "");
        CHECK(waits > 10);
        for (int64_t wait = 0; wait < waits; wait += kIsSanitized ? 199 : 1) {
          CAPTURE(wait);
          // A wait is not needed if the host already knows that the work is done. So another run
          // can have fewer waits.
          if (count_waits(*gpu_job, cluster, gpu, wait, said) > wait) CHECK(said != "");
        }
      }
    }
}

TEST_CASE("every missing wait of a single worker's stream is detected") {
  const TinyJob tiny(kSmallResNet);
  for (const Setup& setup : {Setup{}, Setup{{"cluster.logical_shards=4"}}}) {
    const Job job = tiny.load(setup.overrides);
    std::string said;
    const auto count = [&](int64_t dropped) {
      std::atomic<int64_t> waits = 0;
      said = error_of<LogicError>([&] {
        train_alone(make_emulated_gpu_backend({.dropped_wait = dropped, .waits = &waits}), job,
                    setup, 0, SumTiming::kLocal);
      });
      return waits.load();
    };
    const int64_t waits = count(-1);
    CHECK(said == "");
    CHECK(waits > 10);
    for (int64_t wait = 0; wait < waits; wait += kIsSanitized ? 7 : 1) {
      CAPTURE(wait);
      if (count(wait) > wait) CHECK(said != "");
    }
  }
}
