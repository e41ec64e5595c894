#pragma once

#include <algorithm>
#include <barrier>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "comm/exchange/server_shard.h"
#include "core/error.h"
#include "core/mutex.h"
#include "layers/backend.h"
#include "trainer/plan/sync_plan.h"
#include "trainer/run/worker_computation.h"
#include "trainer/state/checkpoint.h"
#include "trainer/step/cluster_exchange.h"
#include "trainer/step/job_failed.h"

/// The workers and servers of a job in one process, for tests of the results.
namespace poseidon::trainer {

/// Members of a job in this process. It replaces their I/O threads: all work runs under one lock. A
/// frame is delivered after the task that sends it has returned.
class InProcessNetwork {
 public:
  explicit InProcessNetwork(const comm::Plan& plan, const ExchangeStart& start = {}) {
    for (uint32_t rank = 0; rank < plan.servers(); ++rank) {
      outlets_.push_back(
          std::make_unique<Wire>(*this, comm::NodeId{comm::Role::kServer, uint16_t(rank)}));
      servers_.push_back(std::make_unique<comm::ServerShard>(
          plan, rank,
          comm::ServerShard::Options{.view = 1, .first_step = start.first_step, .seed = start.seed},
          *outlets_.back()));
    }
  }

  void join(ClusterExchange& exchange) {
    const comm::NodeId self{comm::Role::kWorker, uint16_t(workers_.size())};
    outlets_.push_back(std::make_unique<Wire>(*this, self));
    exchange.open(1, *outlets_.back());
    workers_.push_back(&exchange);
  }
  /// Drops frames to this worker from now on. Any thread may call it, before the worker ends. A
  /// device of another worker may still process the last sum that this worker has received.
  void leave(uint32_t rank) {
    MutexLock lock(mutex_);
    workers_[rank]->close();
    workers_[rank] = nullptr;
  }
  /// Fails the job at all workers, so that no wait blocks. Any thread may call it.
  void set_failed(const std::string& why) {
    for (ClusterExchange* worker : workers_) worker->set_failed(why);
  }
  /// Runs the task and delivers its frames. Any thread may call it.
  void post(const std::function<void()>& task) {
    MutexLock lock(mutex_);
    task();
    while (!frames_.empty()) {
      const Frame frame = std::move(frames_.front());
      frames_.pop_front();
      deliver(frame);
    }
  }

 private:
  struct Frame {
    comm::NodeId from, to;
    comm::FrameHeader header;
    comm::Payload payload;
  };
  class Wire final : public comm::Outlet {
   public:
    Wire(InProcessNetwork& hub, comm::NodeId self) : hub_(hub), self_(self) {}
    void send(comm::NodeId to, const comm::FrameHeader& header, comm::Payload payload,
              comm::Priority) override {
      hub_.frames_.push_back({self_, to, header, std::move(payload)});
      hub_.frames_.back().header.length = hub_.frames_.back().payload.bytes.size();
    }

   private:
    InProcessNetwork& hub_;
    comm::NodeId self_;
  };

  void deliver(const Frame& frame) {
    const auto take = [&](auto& end, auto from) {
      const comm::Destination destination = end.destination(from, frame.header);
      check(destination.accepted, destination.fault.c_str());
      std::ranges::copy(frame.payload.bytes, destination.memory.begin());
      end.received(from, frame.header);
    };
    if (frame.to.role == comm::Role::kServer)
      take(*servers_[frame.to.rank], static_cast<uint32_t>(frame.from.rank));
    else if (workers_[frame.to.rank] != nullptr)
      take(workers_[frame.to.rank]->exchange(), frame.from);
  }

  Mutex mutex_;
  std::deque<Frame> frames_;  ///< guarded by mutex_
  std::vector<std::unique_ptr<Wire>> outlets_;
  std::vector<std::unique_ptr<comm::ServerShard>> servers_;
  std::vector<ClusterExchange*> workers_;  ///< by rank; null: it has left
};

/// A run of `steps` steps, or one of its sessions.
struct RunPart {
  int64_t steps = 0;
  int64_t stop = steps;                 ///< number of the last step of this session
  std::filesystem::path folder = {};    ///< folder for a checkpoint at the end; empty: none
  const Checkpoint* resumed = nullptr;  ///< start from this checkpoint; null: from the first values
  std::optional<comm::Assignment> assignment = {};  ///< none: as even as possible
  /// Called by each worker's thread after each step, with the digests of all tensors of a
  /// checkpoint. The loop is drained first. Null: the loop is not drained between steps.
  std::function<void(size_t worker, const std::vector<int64_t>& digests, const StepReport& report)>
      drained = nullptr;
};

/// Makes a device. `number`: index of the device among those of all workers.
using MakeBackend = std::function<layers::Backend(size_t number)>;

/// A job whose workers run in this process.
struct JoinedJob {
  JoinedJob(const Job& its, const RunPart& part)
      : job(its),
        run(part),
        plan(plan_for(job, part)),
        data(open_data(job, DataPart::kTrain, log)),
        published{.plan = comm::to_json(plan),
                  .steps = part.steps,
                  .first_step = part.resumed != nullptr ? part.resumed->state().step : 0,
                  .last_step = part.stop,
                  .in_flight = part.resumed != nullptr ? part.resumed->state().in_flight : 0},
        start{.first_step = static_cast<uint64_t>(published.first_step),
              .seed = static_cast<uint64_t>(job.config.train.seed)},
        hub(plan, start) {}

  static comm::Plan plan_for(const Job& job, const RunPart& part) {
    comm::PlanRequest request = plan_request(job);
    request.assignment = part.assignment;
    return sync_plan(job, request);
  }

  SilentLog log;
  const Job& job;
  const RunPart run;
  const comm::Plan plan;
  const PreparedData data;
  const PublishedPlan published;
  const ExchangeStart start;
  InProcessNetwork hub;
  /// Wraps the gradient exchange of a device. `number`: index of the device among those of all
  /// workers.
  std::function<std::unique_ptr<GradientExchange>(size_t number, std::unique_ptr<GradientExchange>)>
      before = [](size_t, std::unique_ptr<GradientExchange> exchange) { return exchange; };
};

/// One worker of the job. One thread makes and uses it.
class JoinedWorker {
 public:
  JoinedWorker(JoinedJob& all, uint32_t rank, const MakeBackend& backend)
      : exchange_(all.plan, rank, all.job.config.device.indices.size(), all.start,
                  [&all](const std::function<void()>& task) { all.hub.post(task); }),
        computation_(
            WorkerPart{.job = all.job,
                       .published = all.published,
                       .plan = all.plan,
                       .data = all.data,
                       .rank = rank},
            net_options(all.job, all.published, all.plan, 2),
            {.backend = [&](size_t device) { return backend(number_of(all, rank, device)); },
             .exchange =
                 [&](size_t device, net::Net& net, layers::Updater& updater) {
                   return all.before(number_of(all, rank, device),
                                     exchange_.make_end(device, net, updater));
                 },
             .set_failed = [this](const std::string& why) { exchange_.set_failed(why); }},
            all.log) {}

  ClusterExchange& exchange() { return exchange_; }
  WorkerComputation& computation() { return computation_; }

 private:
  static size_t number_of(const JoinedJob& all, uint32_t rank, size_t device) {
    return rank * all.job.config.device.indices.size() + device;
  }

  ClusterExchange exchange_;
  WorkerComputation computation_;
};

/// Keeps the first error of several threads. JobFailed is ignored: it is a consequence of an error
/// in another thread.
class FirstError {
 public:
  /// Runs the action. Returns false if it throws; calls `failed` if the error is not JobFailed.
  template <class Action>
  bool holds(const Action& action, const std::function<void(const char* why)>& failed) {
    try {
      action();
      return true;
    } catch (const JobFailed&) {
      return false;
    } catch (const std::exception& error) {
      {
        MutexLock lock(mutex_);
        if (first_ == nullptr) first_ = std::current_exception();
      }
      failed(error.what());
      return false;
    }
  }
  void rethrow() {
    MutexLock lock(mutex_);
    if (first_ != nullptr) std::rethrow_exception(first_);
  }

 private:
  Mutex mutex_;
  std::exception_ptr first_ GUARDED_BY(mutex_);
};

/// Runs the steps of a worker and writes the final checkpoint. Returns the CRC-32C of each tensor.
inline std::vector<int64_t> train_worker(const JoinedJob& all, WorkerComputation& worker) {
  const RunPart& part = all.run;
  if (part.resumed != nullptr) part.resumed->restore(worker.tensors());
  while (worker.steps_done() < part.stop) {
    const StepReport report = worker.step();
    if (part.drained == nullptr) continue;
    worker.drain_for_checkpoint();
    part.drained(worker.part().rank, tensor_digests(worker.tensors(), worker.in_flight()), report);
  }
  if (part.stop == part.steps) worker.finish();
  if (!part.folder.empty()) worker.drain_for_checkpoint();
  worker.compare_devices();
  if (!part.folder.empty() && worker.part().rank == 0) {
    RunState state = worker.state_after(part.stop);
    state.in_flight = worker.in_flight();
    write_checkpoint(part.folder, state, worker.tensors());
  }
  return tensor_digests(worker.tensors(), part.stop == part.steps ? 0 : worker.in_flight());
}

/// Runs a part of a run. Returns the CRC-32C of each tensor, by worker. Throws the first error of
/// any worker.
inline std::vector<std::vector<int64_t>> train_in_parallel(JoinedJob& all,
                                                           const MakeBackend& backend) {
  const auto workers = static_cast<size_t>(all.plan.workers());
  std::vector<std::unique_ptr<JoinedWorker>> joined(workers);
  std::vector<std::vector<int64_t>> digests(workers);
  FirstError errors;
  std::barrier barrier(static_cast<std::ptrdiff_t>(workers));
  {
    std::vector<std::jthread> threads;
    for (size_t rank = 0; rank < workers; ++rank)
      threads.emplace_back([&, rank] {
        const auto make = [&] {
          joined[rank] = std::make_unique<JoinedWorker>(all, uint32_t(rank), backend);
        };
        errors.holds(make, [](const char*) {});
        barrier.arrive_and_wait();
        const bool all_made =
            std::ranges::all_of(joined, [](const auto& worker) { return worker != nullptr; });
        if (all_made && rank == 0)
          for (const auto& worker : joined) all.hub.join(worker->exchange());
        barrier.arrive_and_wait();
        if (all_made)
          errors.holds([&] { digests[rank] = train_worker(all, joined[rank]->computation()); },
                       [&](const char* why) { all.hub.set_failed(why); });
        barrier.arrive_and_wait();
        if (all_made) all.hub.leave(static_cast<uint32_t>(rank));
        joined[rank].reset();
      });
  }
  errors.rethrow();
  return digests;
}

inline std::vector<std::vector<int64_t>> train_in_parallel(const Job& job, const RunPart& part,
                                                           const MakeBackend& backend) {
  JoinedJob all(job, part);
  return train_in_parallel(all, backend);
}

}  // namespace poseidon::trainer
