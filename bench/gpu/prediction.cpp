#include "bench/gpu/prediction.h"

#include <algorithm>

#include "bench/gpu/cost_model_driver.h"
#include "bench/gpu/counted_layers.h"
#include "bench/gpu/counted_products.h"
#include "layers/cuda/cuda_layer.h"
#include "layers/cuda/update.h"
#include "trainer/plan/sync_plan.h"
#include "trainer/step/backends.h"
#include "trainer/step/device_exchange.h"
#include "trainer/step/engine.h"
#include "trainer/step/layer_updates.h"

namespace poseidon::bench {

namespace {

/// Creates an emulated GPU that counts operations. Turns graphs off: a graph issues the operations
/// of several layers at once, so the counter could not assign the operations to layers.
layers::Backend make_counting_backend(cuda::Settings settings, CostCounter& cost_counter) {
  settings.graphs = cuda::Graphs::kNone;
  auto device =
      std::make_unique<cuda::CudaDevice>(std::make_unique<CostModelDriver>(cost_counter), settings);
  auto factory =
      make_counted_factory(layers::cuda::make_cuda_factory(
                               *device, std::make_unique<CountedProducts>(settings.precision)),
                           cost_counter);
  auto updater = layers::cuda::make_cuda_updater(*device);
  return {std::move(device), std::move(factory), std::move(updater)};
}

/// The exchange of a job's first worker. With several workers, a layer's sums arrive as soon as
/// this worker has contributed to them. The values of the sums do not matter, because the driver
/// executes nothing.
class CountedExchange {
 public:
  CountedExchange(trainer::Engine& engine, const comm::Plan& plan)
      : plan_(plan), contributed_(plan.layers.size()) {
    if (plan.workers() == 1)
      exchange_ = std::make_unique<trainer::LocalExchange>(engine.net(), engine.updater(),
                                                           plan.logical_shards());
    else
      exchange_ = make_device_exchange(engine);
  }

  trainer::GradientExchange& get() { return *exchange_; }

 private:
  std::unique_ptr<trainer::DeviceExchange> make_device_exchange(trainer::Engine& engine) {
    auto exchange = std::make_unique<trainer::DeviceExchange>(
        engine.net(), engine.updater(), plan_, trainer::OwnShards(plan_, 0, 0, 1),
        trainer::ExchangeStart{}, nullptr, [this](const auto& parts) { take(parts); },
        trainer::DeviceExchange::ActivityCallbacks{});
    device_ = exchange.get();
    return exchange;
  }
  void take(const std::vector<trainer::DeviceContribution>& parts) {
    for (const trainer::DeviceContribution& part : parts) {
      const comm::LayerPlan& layer = plan_.layers[part.layer];
      const size_t whole =
          comm::traits_of(layer.scheme).rebuilds() ? 1 : layer.traffic.tensors.size();
      if (++contributed_[part.layer] < whole) continue;
      contributed_[part.layer] = 0;
      device_->has_arrived(part.layer);
    }
  }

  const comm::Plan& plan_;
  std::vector<size_t> contributed_;  ///< by layer: contributions to the step in progress
  trainer::DeviceExchange* device_ = nullptr;
  std::unique_ptr<trainer::GradientExchange> exchange_;
};

net::Net::Options net_options(const comm::Plan& plan) {
  if (plan.workers() == 1) return {};
  return {
      .versions = 2, .factored = trainer::factored_layers(plan), .factor_rows = plan.global_batch};
}

/// The first worker of a job. The parts of a step have the same order as in trainer::TrainingLoop.
class CountedWorker {
 public:
  CountedWorker(const trainer::Job& job, const GpuRates& rates, CostCounter& cost_counter)
      : cost_counter_(cost_counter),
        plan_(trainer::plan_of(job, nullptr, false)),
        engine_(make_counting_backend(trainer::gpu_of(job.config.device).settings, cost_counter),
                job, net_options(plan_), log_),
        optimizer_(job.config.optimizer, engine_.net(), engine_.updater()),
        exchange_(engine_, plan_),
        schedule_(job.config.optimizer.schedule, 0.01, 2, 1, "/optimizer/schedule"),
        updates_(engine_.net(), optimizer_, exchange_.get(), schedule_, nullptr,
                 plan_.logical_shards()),
        input_(static_cast<size_t>(engine_.net().input_shape().count())),
        extras_(static_cast<size_t>(engine_.net().input_shape().samples() *
                                    count_of(engine_.net().batch_receiver().extras()))),
        labels_(static_cast<size_t>(job.config.shard_batch())),
        memory_bytes_(static_cast<size_t>(rates.memory_bytes) -
                      engine_.net().device().available()) {}

  size_t memory_bytes() const { return memory_bytes_; }

  void step(int64_t number) {
    const CostCounter::Part part(cost_counter_, kOtherPart);
    upload();
    net::Net& net = engine_.net();
    const layers::StepParameters numbers{.step = number};
    const layers::StepContext context{.numbers = &numbers, .labels = labels_};
    net.forward(context);
    exchange_.get().begin_backward(0);
    bool contributed = false;
    const auto contribute = [&](int layer) {
      if (!std::exchange(contributed, true)) exchange_.get().contribute_statistics(0);
      const trainer::FinalGradient gradient{layer, net.device().record()};
      exchange_.get().contribute({&gradient, 1}, 0);
    };
    net.backward(context, contribute, [&] { update(number); });
    update(number);
  }

 private:
  void upload() {
    const CostCounter::Part part(cost_counter_, kUploadPart);
    engine_.net().set_input(input_, extras_);
  }
  void update(int64_t number) {
    const CostCounter::Part part(cost_counter_, kUpdatePart);
    while (const auto layer = exchange_.get().arrived()) updates_.make({&*layer, 1}, number);
  }

  CostCounter& cost_counter_;
  const comm::Plan plan_;
  SilentLog log_;
  trainer::Engine engine_;
  trainer::Optimizer optimizer_;
  CountedExchange exchange_;
  trainer::Schedule schedule_;
  trainer::LayerUpdates updates_;
  std::vector<float> input_, extras_;
  std::vector<int32_t> labels_;
  const size_t memory_bytes_;
};

}  // namespace

Prediction predict(const trainer::Job& job, const GpuRates& rates) {
  Prediction prediction{.network = job.network->name(),
                        .precision = job.config.device.precision,
                        .batch = job.config.shard_batch(),
                        .workers = job.config.cluster.workers,
                        .cost_counter = CostCounter(rates)};
  CountedWorker worker(job, rates, prediction.cost_counter);
  worker.step(0);
  // The prediction does not contain the work that only a first step does.
  prediction.cost_counter.clear();
  worker.step(1);
  prediction.memory_bytes = worker.memory_bytes();
  return prediction;
}

double Prediction::compute_seconds() const {
  double seconds = 0;
  for (const auto& [key, work] : cost_counter.works())
    if (key != std::pair<std::string, std::string>(kUploadPart, kUploadKernel))
      seconds += work.seconds;
  return seconds;
}

double Prediction::upload_seconds() const {
  const auto& works = cost_counter.works();
  const auto upload = works.find({kUploadPart, kUploadKernel});
  return upload == works.end() ? 0 : upload->second.seconds;
}

}  // namespace poseidon::bench
