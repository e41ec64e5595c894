#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/exchange/worker_exchange.h"
#include "comm/membership/member.h"
#include "comm/simulation/model.h"
#include "comm/simulation/world.h"
#include "comm/step/step_limit.h"
#include "comm/step/step_machine.h"

namespace poseidon::comm {

/// A worker whose computation takes time and makes up numbers.
class SimulatedWorker final : public MemberHost, public ExchangeMemory {
 public:
  SimulatedWorker(SimulatedWorld& world, NodeId id, int node);

  Member& member() { return member_; }
  bool over() const { return over_; }
  int64_t complete_steps() const { return machine_.complete(); }
  uint32_t digest() const { return ComputeModel::digest(replica_); }
  const std::optional<Loss>& loss() const { return loss_; }
  const WorkerExchange* exchange() const { return exchange_.get(); }

  void welcomed(uint16_t rank, const Json&) override;
  void refused(const std::string&) override { over_ = true; }
  void planned(const Planned& planned) override;
  void started(uint64_t first_step) override;
  Placement place(NodeId from, const FrameHeader& header) override {
    return exchange_->place(from, header);
  }
  void received(NodeId from, const FrameHeader& header) override {
    exchange_->received(from, header);
  }
  void noted(const Note& note) override;
  int64_t offer_halt() override { return limit_.offer(); }
  void halt(int64_t step) override;
  std::string awaiting(NodeId node) override { return exchange_ ? exchange_->awaiting(node) : ""; }
  int64_t step_under_way() override { return machine_.done() + 1; }
  void failed(const Loss& loss, bool alone) override;
  void save(int64_t step) override;
  void dismissed() override { over_ = true; }

 private:
  std::span<float> sum(uint32_t layer, uint32_t tensor, uint64_t step) override {
    return sums_of(step)[layer][tensor];
  }
  std::span<float> factors(uint32_t layer, uint32_t which, uint64_t step) override {
    std::vector<std::vector<float>>& of_steps = factors_[layer][which];
    return of_steps[step % of_steps.size()];
  }
  Replica& sums_of(uint64_t step) { return sums_[step % sums_.size()]; }
  const Replica& sums_of(uint64_t step) const { return sums_[step % sums_.size()]; }

  /// The step under way, counted from 0.
  uint64_t step() const { return static_cast<uint64_t>(machine_.done()); }
  size_t layers() const { return world_.options.plan.layers.size(); }
  bool by_factors(uint32_t layer) const {
    return world_.options.plan.layers[layer].scheme == Scheme::kSfb;
  }
  void make_memory();
  Time compute_time(uint32_t layer, bool forward);
  void begin_step();
  void forward(uint32_t layer);
  void backward(uint32_t layer);
  void contribute(uint32_t layer, bool statistics);
  void contribute_own_factors(uint32_t layer);
  void end_of_step();
  void sync();
  void test(int64_t batch);
  void go_on();
  bool hangs(Work in) const { return world_.hangs({Role::kWorker, member_.rank()}, in); }
  void sign(const char* doing, int64_t done = 0, int64_t of = 0, const char* unit = "");
  void arrived(uint64_t step, uint32_t layer);
  bool open_gate(uint32_t layer);
  void make_updates();
  void update(size_t layer);
  std::vector<int64_t> digests() const;
  void send_checkpoint(int64_t step);
  void send_replica(int64_t step, uint32_t number, const Replica& replica);
  void after(Time wait, std::function<void()> action);

  SimulatedWorld& world_;
  const int node_;
  Member member_;
  std::unique_ptr<WorkerExchange> exchange_;
  StepMachine machine_;
  StepLimit limit_;
  Replica replica_, other_;    ///< current values, and those of the step before or after
  std::vector<Replica> sums_;  ///< of the steps in flight
  std::vector<std::vector<Replica>> parts_;  ///< of the same, by own part, when there are several
  /// By layer, which of the factors, step modulo steps_of_factors().
  std::vector<std::array<std::vector<std::vector<float>>, 2>> factors_;
  uint32_t checkpoints_sent_ = 0;
  std::optional<uint32_t> gate_;  ///< the layer whose forward pass waits
  bool undecided_ = false;        ///< waits for how far the job goes
  bool syncing_ = false;          ///< waits for all updates, to compare
  bool failed_ = false, over_ = false;
  std::optional<Loss> loss_;
  uint64_t random_;
};

}  // namespace poseidon::comm
