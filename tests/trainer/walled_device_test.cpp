// Net, loop and exchanges on a device whose memory is out of reach: the same bits as on the CPU.

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <deque>
#include <thread>

#include "comm/exchange/server_shard.h"
#include "core/mutex.h"
#include "tests/support/walled_device.h"
#include "tests/trainer/made_training.h"
#include "tests/trainer/tiny_job.h"
#include "trainer/plan/sync_plan.h"
#include "trainer/run/computation.h"
#include "trainer/step/cluster_exchange.h"
#include "trainer/step/evaluation.h"

using namespace poseidon;
using namespace poseidon::trainer;
using poseidon::testing::make_walled_backend;

TEST_CASE("who reaches behind the wall does not live to tell") {
  const layers::Backend backend = make_walled_backend();
  const Buffer memory = backend.device->allocate(64, Place::kDevice, "a test");
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGSEGV, SIG_DFL);  // without the words of the test program
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

TEST_CASE("a training behind the wall has the bits of the CPU") {
  const TinyJob tiny;
  std::vector<Setup> setups = kSetups;
  setups.push_back({{"optimizer.type=lars", "cluster.logical_shards=2"}});
  for (const Setup& setup : setups)
    for (const int64_t staleness : {0, 2}) {
      const Job job = tiny.load(setup.overrides);
      Training open(job, setup.options(2), -1, staleness);
      Training walled(make_walled_backend(), job, setup.options(2), -1, staleness);
      for (int step = 0; step < 4; ++step) {
        CHECK(walled.loop.step().loss == open.loop.step().loss);
        open.loop.settle_for_checkpoint();
        walled.loop.settle_for_checkpoint();
      }
      CHECK(walled.state() == open.state());
      walled.loop.finish();
      open.loop.finish();
      walled.loop.settle();
      CHECK(walled.state() == open.state());
    }
}

TEST_CASE("a test behind the wall has the figures of the CPU") {
  const TinyJob tiny;
  const Job job = tiny.load();
  SilentLog log;
  Training open(job), walled(make_walled_backend(), job);
  const PreparedData data = open_test_data(job, open.data, log);
  const std::optional<TestResult> here = evaluate(open.engine.net(), data, {.seed = 3}, log),
                                  there = evaluate(walled.engine.net(), data, {.seed = 3}, log);
  REQUIRE(there);
  CHECK(there->loss == here->loss);
  CHECK(there->top1 == here->top1);
}

TEST_CASE("a layer with values that are not finite is named behind the wall too") {
  const TinyJob tiny;
  const Job job = tiny.load({"optimizer.learning_rate=1e30", "optimizer.schedule.warmup=0"});
  const auto failure = [](Training& training) {
    return error_of<RunError>([&] {
      for (int step = 0; step < 9; ++step) training.loop.step();
    });
  };
  Training open(job), walled(make_walled_backend(), job);
  const std::string expected = failure(open);
  CHECK(expected.find("is not finite is \"") != std::string::npos);
  CHECK(failure(walled) == expected);
}

namespace {

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
std::vector<std::vector<int64_t>> train_together(const Job& job, int64_t steps, bool walled) {
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
        walled ? make_walled_backend() : make_backend(job), net_options(job, published, plan, 2),
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
  {
    std::vector<std::jthread> threads;
    for (size_t rank = 0; rank < workers; ++rank)
      threads.emplace_back([&, rank] {
        Computation& mine = *computations[rank];
        for (int64_t step = 0; step < steps; ++step) mine.loop->step();
        mine.loop->finish();
        digests[rank] = tensor_digests(mine.tensors, 0);
      });
  }
  return digests;
}

}  // namespace

TEST_CASE("workers behind walls have the bits of workers on the CPU, by servers and by factors") {
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
        const auto open = train_together(job, 4, false), walled = train_together(job, 4, true);
        CHECK(open[0] == open[1]);
        CHECK(walled[0] == open[0]);
        CHECK(walled[1] == open[0]);
      }
}
