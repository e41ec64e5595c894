// Launches and waits of training steps on GPUs, counted by a driver that executes nothing.

#include <doctest/doctest.h>

#include <memory>
#include <utility>

#include "bench/gpu/cost_model_driver.h"
#include "bench/gpu/counted_products.h"
#include "core/cuda/cuda_device.h"
#include "layers/cuda/cuda_layer.h"
#include "layers/cuda/update.h"
#include "tests/support/folders.h"
#include "tests/trainer/joined_workers.h"
#include "tests/trainer/made_training.h"
#include "tests/trainer/small_networks.h"
#include "tests/trainer/tiny_job.h"
#include "trainer/step/backends.h"

using namespace poseidon;
using namespace poseidon::bench;
using namespace poseidon::trainer;

namespace {

/// A GPU whose calls are counted. It must outlive its backend.
class CountedGpu {
 public:
  layers::Backend backend(const Job& job) {
    const cuda::Settings settings = gpu_of(job.config.device).settings;
    auto device = std::make_unique<cuda::CudaDevice>(
        std::make_unique<CostModelDriver>(cost_counter_, calls_), settings);
    auto factory = layers::cuda::make_cuda_factory(
        *device, std::make_unique<CountedProducts>(settings.precision));
    auto updater = layers::cuda::make_cuda_updater(*device);
    return {std::move(device), std::move(factory), std::move(updater)};
  }
  const DriverCalls& calls() const { return *calls_; }

 private:
  CostCounter cost_counter_{kH200};
  const std::shared_ptr<DriverCalls> calls_ = std::make_shared<DriverCalls>();
};

struct Calls {
  double launches = 0, stream_waits = 0, host_waits = 0;

  Calls& add(const DriverCalls& calls, double weight) {
    launches += weight * static_cast<double>(calls.launches);
    stream_waits += weight * static_cast<double>(calls.stream_waits);
    host_waits += weight * static_cast<double>(calls.host_waits);
    return *this;
  }
  double all() const { return launches + stream_waits + host_waits; }
};

constexpr int kWarmUp = 6;  ///< steps until all recurring work is captured
constexpr int kSteps = 4;

Job job_of(const std::string& name, std::vector<std::string> overrides) {
  overrides.insert(overrides.end(), {"device.type=cuda", "device.precision=bf16"});
  SilentLog log;
  return load_job(
      {.file = std::filesystem::path(test::source_folder()) / "configs" / (name + "-random.json"),
       .overrides = overrides},
      log);
}

/// The calls in one step of a single worker.
Calls calls_of_one(const std::string& name, std::vector<std::string> overrides = {}) {
  overrides.emplace_back("data.batch_per_worker=1");
  const Job job = job_of(name, std::move(overrides));
  CountedGpu gpu;
  Training training(gpu.backend(job), job, {}, -1, 0, nullptr, SumTiming::kLocal);
  for (int step = 0; step < kWarmUp; ++step) training.loop.step();
  Calls calls = Calls().add(gpu.calls(), -1.0 / kSteps);
  for (int step = 0; step < kSteps; ++step) training.loop.step();
  return calls.add(gpu.calls(), 1.0 / kSteps);
}

/// The calls in one step of one of two workers, from the difference between a longer and a shorter
/// run. The numbers depend slightly on the timing of the workers.
Calls calls_of_two(const std::string& name) {
  const Job job = job_of(name, {"cluster.workers=2", "cluster.servers=2", "data.global_batch=2"});
  Calls calls;
  for (const int steps : {kWarmUp, kWarmUp + kSteps}) {
    std::array<CountedGpu, 2> gpus;
    train_in_parallel(job, {.steps = steps},
                      [&](size_t number) { return gpus[number].backend(job); });
    for (const CountedGpu& gpu : gpus)
      calls.add(gpu.calls(), (steps == kWarmUp ? -0.5 : 0.5) / kSteps);
  }
  return calls;
}

}  // namespace

TEST_CASE("launches: ResNet-50 on one worker issues few graphs in a step, and few other calls") {
  const Calls calls = calls_of_one("resnet50");
  CAPTURE(calls.launches);
  CAPTURE(calls.stream_waits);
  CHECK(calls.all() <= 30);
  CHECK(calls.host_waits == 1);
}

TEST_CASE("launches: the loop waits for the loss after it has issued several gradients") {
  const TinyJob tiny(kSmallResNet);
  const Job job = tiny.load({"device.type=cuda"});
  for (const SumTiming when : {SumTiming::kLate, SumTiming::kLocal}) {
    CountedGpu gpu;
    Training training(gpu.backend(job), job, {}, -1, 0, nullptr, when);
    std::vector<int64_t> launches;
    training.exchange.on_begin = [&] { launches = {gpu.calls().launches}; };
    training.exchange.on_contribution = [&] { launches.push_back(gpu.calls().launches); };
    for (int step = 0; step < kWarmUp; ++step) {
      const int64_t waits = gpu.calls().host_waits;
      training.loop.step();
      CHECK(gpu.calls().host_waits == waits + 1);
    }
    // After the wait, the loop contributes the statistics and the issued gradients, without a
    // launch between these contributions.
    const auto first = std::ranges::count(launches, launches[1]);
    if (when == SumTiming::kLocal) {
      CHECK(launches.size() == 1 + 3);
      CHECK(launches[1] == launches[0] + 1);  // the graph of half of the backward pass
      CHECK(first == 2);
    } else {
      CHECK(launches.size() > 6);
      CHECK(first == 1 + 4);
    }
  }
}

TEST_CASE("launches: one small layer joins the group of its neighbor, unless there is a trace") {
  const TinyJob tiny;
  const Job job = tiny.load({"device.type=cuda"});
  CountedGpu gpu;
  Training training(gpu.backend(job), job);
  net::Net& net = training.engine.net();
  // The layers of the callbacks in order, with "|" before a callback if work was issued since the
  // previous one.
  std::string order;
  int64_t launches = 0;
  const auto called = [&](int layer) {
    if (std::exchange(launches, gpu.calls().launches) != gpu.calls().launches) order += "| ";
    order += net.layer_name(layer) + " ";
  };
  const auto order_of_passes = [&] {
    const std::vector<int32_t> labels(8);
    const layers::StepParameters numbers;
    const layers::StepContext context{.numbers = &numbers, .labels = labels};
    net.set_input(std::vector<float>(static_cast<size_t>(net.input_shape().count())));
    order.clear();
    net.forward(context, called);
    net.backward(context, called);
    return order;
  };
  CHECK(order_of_passes() == "| conv bn | ip | ip bn | conv ");
  TraceRecorder trace;
  net.set_trace(&trace);
  CHECK(order_of_passes() == "| conv | bn | ip | ip | bn | conv ");
}

/// Prints launches and waits in a step: test_cuda --no-skip -tc="launches: table".
TEST_CASE("launches: table" * doctest::skip()) {
  const auto row = [](const std::string& name, const std::string& workers, const Calls& calls) {
    MESSAGE("| ", name, " | ", workers, " | ", calls.launches, " | ", calls.stream_waits, " | ",
            calls.host_waits, " |");
  };
  for (const char* name : {"resnet50", "vgg19", "cifar10_quick"}) {
    row(name, "1", calls_of_one(name));
    row(name, "1, no graphs", calls_of_one(name, {"device.graphs=false"}));
    row(name, "2", calls_of_two(name));
  }
}
