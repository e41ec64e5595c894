#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "comm/exchange/server_shard.h"
#include "core/error.h"
#include "core/mutex.h"
#include "layers/backend.h"
#include "trainer/plan/sync_plan.h"
#include "trainer/run/computation.h"
#include "trainer/step/cluster_exchange.h"

/// The workers and servers of a job in one process, for tests of what they compute.
namespace poseidon::trainer {

/// Members of a job in this process: what they do at once in place of an I/O thread, under one
/// lock, and frames that arrive when their sender is done.
class Hub {
 public:
  explicit Hub(const comm::Plan& plan) {
    for (uint32_t rank = 0; rank < plan.servers(); ++rank) {
      outlets_.push_back(
          std::make_unique<Wire>(*this, comm::NodeId{comm::Role::kServer, uint16_t(rank)}));
      servers_.push_back(std::make_unique<comm::ServerShard>(
          plan, rank, comm::ServerShard::Options{.view = 1}, *outlets_.back()));
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

/// CRC-32C of each tensor, by worker, after `steps` steps.
inline std::vector<std::vector<int64_t>> train_together(
    const Job& job, int64_t steps, const std::function<layers::Backend()>& backend) {
  SilentLog log;
  const comm::Plan plan = sync_plan(job, plan_request(job));
  const PreparedData data = open_data(job, DataPart::kTrain, log);
  const PublishedPlan published{.plan = comm::to_json(plan), .steps = steps, .last_step = steps};
  Hub hub(plan);
  const auto workers = static_cast<size_t>(plan.workers());
  std::vector<std::unique_ptr<Computation>> computations;
  for (uint32_t rank = 0; rank < workers; ++rank) {
    ClusterExchange* exchange = nullptr;
    computations.push_back(std::make_unique<Computation>(
        backend(), net_options(job, published, plan, 2),
        WorkerPart{.job = job, .published = published, .plan = plan, .data = data, .rank = rank},
        [&](net::Net& net, layers::Updater& updater) {
          auto made = std::make_unique<ClusterExchange>(
              net, updater, plan, rank, 0,
              [&hub](const std::function<void()>& task) { hub.post(task); });
          exchange = made.get();
          return made;
        },
        log));
    hub.join(*exchange);
  }
  std::vector<std::vector<int64_t>> digests(workers);
  Mutex mutex;
  std::exception_ptr failure;
  {
    std::vector<std::jthread> threads;
    for (size_t rank = 0; rank < workers; ++rank)
      threads.emplace_back([&, rank] {
        try {
          Computation& mine = *computations[rank];
          for (int64_t step = 0; step < steps; ++step) mine.loop->step();
          mine.loop->finish();
          digests[rank] = tensor_digests(mine.tensors, 0);
        } catch (const std::exception& error) {
          MutexLock lock(mutex);
          if (failure == nullptr) failure = std::current_exception();
          hub.lose(error.what());
        }
      });
  }
  if (failure != nullptr) std::rethrow_exception(failure);
  return digests;
}

}  // namespace poseidon::trainer
