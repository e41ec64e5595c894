#include "trainer/run/worker_computation.h"

#include <algorithm>

#include "core/error.h"
#include "trainer/step/device_parts.h"

namespace poseidon::trainer {

namespace {

using Lists = std::vector<std::vector<NamedTensor>*>;

Lists lists_of(RunTensors& tensors) {
  Lists lists{&tensors.weights, &tensors.optimizer};
  for (std::vector<NamedTensor>& of_step : tensors.sums) lists.push_back(&of_step);
  return lists;
}

/// The tensors of the first of `devices`, which are set on all of them.
RunTensors tensors_of_all(const std::vector<RunTensors*>& devices, DeviceThreads& threads) {
  RunTensors all = *devices[0];
  std::vector<Lists> of_device;
  for (RunTensors* device : devices) of_device.push_back(lists_of(*device));
  const Lists lists = lists_of(all);
  for (size_t list = 0; list < lists.size(); ++list)
    for (size_t i = 0; i < lists[list]->size(); ++i) {
      std::vector<const NamedTensor*> same;
      for (const Lists& each : of_device) same.push_back(&(*each[list])[i]);
      (*lists[list])[i].set = [same = std::move(same), &threads](std::span<const float> values) {
        threads.run([&](size_t device) { same[device]->set(values); });
      };
    }
  return all;
}

}  // namespace

WorkerComputation::WorkerComputation(const WorkerPart& part, const net::Net::Options& options,
                                     const Makers& makers, Log& log)
    : devices_(part.job.device().indices.size()), threads_(devices_.size()) {
  try {
    make(part, options, makers, log);
  } catch (...) {
    end();
    throw;
  }
  if (makers.lose) threads_.on_failure(makers.lose);
  std::vector<RunTensors*> all;
  for (const auto& device : devices_) all.push_back(&device->tensors);
  tensors_ = all.size() == 1 ? first().tensors : tensors_of_all(all, threads_);
}

WorkerComputation::~WorkerComputation() { end(); }

void WorkerComputation::make(const WorkerPart& part, const net::Net::Options& options,
                             const Makers& makers, Log& log) {
  const std::vector<comm::Part> shards =
      shards_of_devices(part.plan.assignment.shards_of(part.rank), devices_.size());
  const auto make_one = [&](size_t device) {
    WorkerPart own = part;
    if (device > 0) own.trace = nullptr;
    devices_[device] = std::make_unique<Computation>(
        makers.backend(device), options, own, shards[device],
        [&](net::Net& net, layers::Updater& updater) {
          return makers.exchange(device, net, updater);
        },
        Computation::Logs{.net = device == 0 ? log : said_by_the_first_, .data = log});
  };
  make_one(0);
  threads_.run(make_one, 1);
}

/// The first device has memory that the others read.
void WorkerComputation::end() {
  threads_.run([this](size_t device) { devices_[device].reset(); }, 1);
  devices_[0].reset();
}

StepReport WorkerComputation::step() {
  std::vector<StepReport> reports(devices_.size());
  threads_.run([&](size_t device) { reports[device] = devices_[device]->loop->step(); });
  return report_of_devices(std::move(reports), part().plan.global_batch);
}

void WorkerComputation::settle_for_checkpoint() {
  threads_.run([this](size_t device) { devices_[device]->loop->settle_for_checkpoint(); });
}

void WorkerComputation::finish() {
  threads_.run([this](size_t device) { devices_[device]->loop->finish(); });
}

void WorkerComputation::revert_incomplete() {
  threads_.run([this](size_t device) { devices_[device]->loop->revert_incomplete(); });
}

void WorkerComputation::compare_devices() {
  if (devices_.size() == 1) return;
  std::vector<std::vector<int64_t>> digests(devices_.size());
  threads_.run([&](size_t device) {
    digests[device] = tensor_digests(devices_[device]->tensors, in_flight());
  });
  const std::vector<const NamedTensor*> tensors = in_order(first().tensors, in_flight());
  for (size_t device = 1; device < devices_.size(); ++device)
    for (size_t i = 0; i < tensors.size(); ++i)
      if (digests[device][i] != digests[0][i])
        throw RunError(text("after step ", steps_done(), " the devices of worker ", part().rank,
                            " (", part().job.device().names(), ") differ: \"", tensors[i]->name,
                            "\" is another in device ", device,
                            ", counted from 0, than in the first"));
}

}  // namespace poseidon::trainer
