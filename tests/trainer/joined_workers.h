#pragma once

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
#include "trainer/run/computation.h"
#include "trainer/state/checkpoint.h"
#include "trainer/step/cluster_exchange.h"

/// The workers and servers of a job in one process, for tests of what they compute.
namespace poseidon::trainer {

/// Members of a job in this process: what they do at once in place of an I/O thread, under one
/// lock, and frames that arrive when their sender is done.
class Hub {
 public:
  explicit Hub(const comm::Plan& plan, int64_t first_step = 0) {
    for (uint32_t rank = 0; rank < plan.servers(); ++rank) {
      outlets_.push_back(
          std::make_unique<Wire>(*this, comm::NodeId{comm::Role::kServer, uint16_t(rank)}));
      servers_.push_back(std::make_unique<comm::ServerShard>(
          plan, rank,
          comm::ServerShard::Options{.view = 1, .first_step = static_cast<uint64_t>(first_step)},
          *outlets_.back()));
    }
  }

  void join(ClusterExchange& exchange) {
    const comm::NodeId self{comm::Role::kWorker, uint16_t(workers_.size())};
    outlets_.push_back(std::make_unique<Wire>(*this, self));
    exchange.open(1, *outlets_.back());
    workers_.push_back(&exchange);
  }
  /// From any thread: nobody need wait for anything any more.
  void lose(const std::string& why) {
    for (ClusterExchange* worker : workers_) worker->lose(why);
  }
  /// From any thread.
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
    Wire(Hub& hub, comm::NodeId self) : hub_(hub), self_(self) {}
    void send(comm::NodeId to, const comm::FrameHeader& header, comm::Payload payload,
              comm::Priority) override {
      hub_.frames_.push_back({self_, to, header, std::move(payload)});
      hub_.frames_.back().header.length = hub_.frames_.back().payload.bytes.size();
    }

   private:
    Hub& hub_;
    comm::NodeId self_;
  };

  void deliver(const Frame& frame) {
    const auto take = [&](auto& end, auto from) {
      const comm::Placement placement = end.place(from, frame.header);
      check(placement.accepted, placement.fault.c_str());
      std::ranges::copy(frame.payload.bytes, placement.memory.begin());
      end.received(from, frame.header);
    };
    if (frame.to.role == comm::Role::kServer)
      take(*servers_[frame.to.rank], static_cast<uint32_t>(frame.from.rank));
    else
      take(workers_[frame.to.rank]->exchange(), frame.from);
  }

  Mutex mutex_;
  std::deque<Frame> frames_;  ///< under the lock
  std::vector<std::unique_ptr<Wire>> outlets_;
  std::vector<std::unique_ptr<comm::ServerShard>> servers_;
  std::vector<ClusterExchange*> workers_;
};

/// A run of `steps` steps, or what lies between two of its stops.
struct RunPart {
  int64_t steps = 0;
  int64_t stop = steps;                 ///< after so many of them
  std::filesystem::path folder = {};    ///< where the checkpoint goes that it ends with, if any
  const Checkpoint* resumed = nullptr;  ///< what it begins with; null: it begins anew
  std::optional<comm::Assignment> assignment = {};  ///< none: as even as can be
  /// Called by each worker's thread after each step, as if a checkpoint was due: with the digests
  /// of all that it would hold. Null: steps follow one another as in a run without.
  std::function<void(size_t worker, const std::vector<int64_t>& digests, const StepReport& report)>
      settled = nullptr;
};

/// The workers of a part of a run, with what they are given.
class JoinedWorkers {
 public:
  JoinedWorkers(const Job& job, const RunPart& part,
                const std::function<layers::Backend()>& backend)
      : job_(job),
        part_(part),
        plan_(plan_for(job, part)),
        data_(open_data(job, DataPart::kTrain, log_)),
        published_{.plan = comm::to_json(plan_),
                   .steps = part.steps,
                   .first_step = part.resumed != nullptr ? part.resumed->state().step : 0,
                   .last_step = part.stop,
                   .in_flight = part.resumed != nullptr ? part.resumed->state().in_flight : 0},
        hub_(plan_, published_.first_step) {
    for (uint32_t rank = 0; rank < static_cast<uint32_t>(plan_.workers()); ++rank)
      add(rank, backend());
  }

  /// CRC-32C of each tensor, by worker.
  std::vector<std::vector<int64_t>> train() {
    std::vector<std::vector<int64_t>> digests(workers_.size());
    Mutex mutex;
    std::exception_ptr failure;
    {
      std::vector<std::jthread> threads;
      for (size_t rank = 0; rank < workers_.size(); ++rank)
        threads.emplace_back([&, rank] {
          try {
            digests[rank] = train(*workers_[rank]);
          } catch (const std::exception& error) {
            MutexLock lock(mutex);
            if (failure == nullptr) failure = std::current_exception();
            hub_.lose(error.what());
          }
        });
    }
    if (failure != nullptr) std::rethrow_exception(failure);
    return digests;
  }

 private:
  static comm::Plan plan_for(const Job& job, const RunPart& part) {
    comm::PlanRequest request = plan_request(job);
    request.assignment = part.assignment;
    return sync_plan(job, request);
  }

  void add(uint32_t rank, layers::Backend backend) {
    ClusterExchange* exchange = nullptr;
    workers_.push_back(std::make_unique<Computation>(
        std::move(backend), net_options(job_, published_, plan_, 2),
        WorkerPart{
            .job = job_, .published = published_, .plan = plan_, .data = data_, .rank = rank},
        [&](net::Net& net, layers::Updater& updater) {
          auto made = std::make_unique<ClusterExchange>(
              net, updater, plan_, rank, static_cast<uint64_t>(published_.first_step),
              [this](const std::function<void()>& task) { hub_.post(task); });
          exchange = made.get();
          return made;
        },
        log_));
    hub_.join(*exchange);
    if (part_.resumed != nullptr) part_.resumed->restore(workers_.back()->tensors);
  }

  std::vector<int64_t> train(Computation& worker) {
    while (worker.loop->steps_done() < part_.stop) {
      const StepReport report = worker.loop->step();
      if (part_.settled == nullptr) continue;
      worker.loop->settle_for_checkpoint();
      part_.settled(worker.part.rank, tensor_digests(worker.tensors, worker.sums.steps()), report);
    }
    if (part_.stop == part_.steps) worker.loop->finish();
    if (!part_.folder.empty()) {
      worker.loop->settle_for_checkpoint();
      if (worker.part.rank == 0) write(worker);
    }
    return tensor_digests(worker.tensors, part_.stop == part_.steps ? 0 : worker.sums.steps());
  }
  void write(Computation& worker) {
    RunState state = worker.state_after(part_.stop);
    state.in_flight = worker.sums.steps();
    write_checkpoint(part_.folder, state, worker.tensors);
  }

  SilentLog log_;
  const Job& job_;
  const RunPart part_;
  const comm::Plan plan_;
  const PreparedData data_;
  const PublishedPlan published_;
  Hub hub_;
  std::vector<std::unique_ptr<Computation>> workers_;
};

/// CRC-32C of each tensor, by worker, after a part of a run.
inline std::vector<std::vector<int64_t>> train_together(
    const Job& job, const RunPart& part, const std::function<layers::Backend()>& backend) {
  return JoinedWorkers(job, part, backend).train();
}

}  // namespace poseidon::trainer
