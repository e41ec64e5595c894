#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "comm/membership/member.h"
#include "comm/simulation/replica.h"
#include "comm/simulation/training.h"
#include "comm/simulation/worker_payload.h"
#include "comm/simulation/world.h"

namespace poseidon::comm {

/// A simulated worker: its computation takes virtual time and makes pseudorandom values.
class SimulatedWorker final : public MemberHost {
 public:
  SimulatedWorker(SimulatedWorld& world, NodeId id, int node);

  Member& member() { return member_; }
  bool over() const { return over_; }
  /// Whether the worker has the job's values. A joiner of a running job receives them from another
  /// worker.
  bool has_values() const { return has_values_ || member_.view() <= 1; }
  const SimulatedTraining& training() const { return training_; }
  uint32_t digest() const { return replica_.digest(); }
  const std::optional<NodeFailure>& failure() const { return failure_; }
  /// The exchange of the worker's last view; null before the first view.
  const WorkerExchange* exchange() const { return payload_.exchange(); }

  void welcomed(uint16_t rank, const Json&) override;
  void refused(const std::string&) override { over_ = true; }
  void planned(const Planned& planned) override;
  void started(uint64_t first_step) override;
  void noted(const Note& note) override;
  int64_t offer_halt() override { return training_.offer_halt(); }
  void halt(int64_t step) override { training_.end_after(step, StepLimit::Next::kEnd); }
  void pause(int64_t step) override { training_.end_after(step, StepLimit::Next::kPause); }
  int64_t step_under_way() override { return training_.machine().done() + 1; }
  void reconfigure(const NodeFailure& failure) override;
  void failed(const NodeFailure& failure, bool alone) override;
  void save(int64_t step) override;
  void dismissed() override { over_ = true; }

 private:
  void ready();
  void stop(bool alone);
  void send_checkpoint(int64_t step);
  void after(Time wait, std::function<void()> action);

  SimulatedWorld& world_;
  const int node_;
  SimulatedWorkerPayload payload_;
  Member member_;
  SimulatedReplica replica_;
  SimulatedTraining training_;
  const Plan* plan_ = nullptr;  ///< of the current view
  bool has_values_ = false;     ///< has initial values, or values from another worker
  uint32_t stops_ = 0;          ///< how often it has stopped computing
  bool stopped_ = false;
  uint32_t checkpoints_sent_ = 0;
  bool over_ = false;
  std::optional<NodeFailure> failure_;
};

}  // namespace poseidon::comm
