#include "trainer/run/worker_computation.h"

#include <algorithm>

#include "core/error.h"
#include "trainer/step/device_reducer.h"

namespace poseidon::trainer {

namespace {

using Lists = std::vector<std::vector<NamedTensor>*>;

Lists lists_of(RunTensors& tensors) {
  Lists lists{&tensors.weights, &tensors.optimizer};
  for (std::vector<NamedTensor>& of_step : tensors.sums) lists.push_back(&of_step);
  return lists;
}

/// The tensors of the first of `devices`; setting a tensor sets it on all devices.
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
                                     Makers makers, Log& log)
    : makers_(std::move(makers)),
      log_(log),
      devices_(part.job.device().indices.size()),
      threads_(devices_.size()) {
  try {
    make(part, options);
    plan(part);
  } catch (...) {
    end();
    throw;
  }
  std::vector<RunTensors*> all;
  for (const auto& device : devices_) all.push_back(&device->tensors);
  tensors_ = all.size() == 1 ? first().tensors : tensors_of_all(all, threads_);
}

WorkerComputation::~WorkerComputation() { end(); }

/// Only the first device logs the warnings of the net, which are the same for all devices.
void WorkerComputation::make(const WorkerPart& part, const net::Net::Options& options) {
  const auto make_one = [&](size_t device) {
    devices_[device] = std::make_unique<Computation>(makers_.backend(device), options, part,
                                                     device == 0 ? log_ : silent_log_);
  };
  make_one(0);
  threads_.run(make_one, 1);
}

/// Does not report failures until all devices have an exchange, because set_failed() accesses the
/// exchanges of all devices. Device 0 is planned first: it owns memory that the other devices read.
void WorkerComputation::plan(const WorkerPart& with) {
  part_ = std::make_unique<const WorkerPart>(with);
  threads_.on_failure([](const std::string&) {});
  const std::vector<comm::Part> shards =
      shards_of_devices(part().plan.assignment.shards_of(part().rank), devices_.size());
  const auto plan_one = [&](size_t device) {
    WorkerPart own = part();
    if (device > 0) {
      own.trace = nullptr;
      own.between_passes = nullptr;
    }
    devices_[device]->plan(
        own, shards[device],
        [&](net::Net& net, layers::Updater& updater) {
          return makers_.exchange(device, net, updater);
        },
        log_);
  };
  plan_one(0);
  threads_.run(plan_one, 1);
  if (makers_.set_failed) threads_.on_failure(makers_.set_failed);
}

/// Device 0 ends last: the other devices read its memory.
void WorkerComputation::end_plan(std::optional<int64_t> step) {
  threads_.on_failure([](const std::string&) {});
  threads_.run([&](size_t device) { devices_[device]->end_plan(step); }, 1);
  devices_[0]->end_plan(step);
}

void WorkerComputation::restore_initial_values() {
  threads_.run([this](size_t device) { devices_[device]->restore_initial_values(part().job); });
}

void WorkerComputation::end() {
  threads_.run([this](size_t device) { devices_[device].reset(); }, 1);
  devices_[0].reset();
}

StepReport WorkerComputation::step() {
  std::vector<StepReport> reports(devices_.size());
  threads_.run([&](size_t device) { reports[device] = devices_[device]->steps.loop->step(); });
  return report_of_devices(std::move(reports), part().plan.global_batch);
}

void WorkerComputation::drain_for_checkpoint() {
  threads_.run([this](size_t device) { devices_[device]->steps.loop->drain_for_checkpoint(); });
}

void WorkerComputation::finish() {
  threads_.run([this](size_t device) { devices_[device]->steps.loop->finish(); });
}

void WorkerComputation::revert_to(int64_t step) {
  threads_.run([&](size_t device) { devices_[device]->revert_to(step); });
}

/// Uses the smallest number of steps done, because a device may have finished the step in which
/// another device has failed.
std::optional<int64_t> WorkerComputation::abandon_step() {
  const auto done_by = [](const auto& device) { return device->steps.loop->steps_done(); };
  const int64_t step = done_by(*std::ranges::min_element(devices_, {}, done_by));
  std::vector<char> whole(devices_.size());
  threads_.run(
      [&](size_t device) { whole[device] = devices_[device]->steps.loop->abandon_after(step); });
  if (std::ranges::count(whole, 0) > 0) return std::nullopt;
  return step;
}

RunState WorkerComputation::state_after(int64_t step) {
  return run_state(part().job, part().published, first().schedule, step,
                   first().engine.net().choices(), part().data.dataset->fingerprint());
}

int64_t WorkerComputation::last_complete_step() const {
  const auto step_of = [](const auto& device) { return device->last_complete_step(); };
  return step_of(*std::ranges::min_element(devices_, {}, step_of));
}

int64_t WorkerComputation::earliest_revertible_step() const {
  const auto step_of = [](const auto& device) { return device->earliest_revertible_step(); };
  return step_of(*std::ranges::max_element(devices_, {}, step_of));
}

void WorkerComputation::with_ema(const std::function<void()>& use) {
  Ema* averages = first().optimizer.averages();
  if (averages != nullptr && steps_done() > in_flight())
    averages->with_ema(use);
  else
    use();
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
                            " (", part().job.device().names(), ") have different values of \"",
                            tensors[i]->name, "\": device ", device,
                            " (counted from 0) differs from device 0"));
}

}  // namespace poseidon::trainer
