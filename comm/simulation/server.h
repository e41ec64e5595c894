#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "comm/exchange/server_shard.h"
#include "comm/membership/member.h"
#include "comm/simulation/world.h"

namespace poseidon::comm {

/// A simulated server. Its ServerShard does all the work.
class SimulatedServer final : public MemberHost, public PayloadReceiver {
 public:
  SimulatedServer(SimulatedWorld& world, NodeId id, int node);

  Member& member() { return member_; }
  bool over() const { return over_; }
  const ServerShard* shard() const { return shard_.get(); }

  void welcomed(uint16_t, const Json&) override { member_.prepared({}); }
  void refused(const std::string&) override { over_ = true; }
  void planned(const Planned& planned) override;
  void started(uint64_t) override {}
  Destination destination(NodeId from, const FrameHeader& header) override {
    return shard_->destination(from.rank, header);
  }
  std::string received(NodeId from, const FrameHeader& header) override {
    return shard_->received(from.rank, header);
  }
  void forgotten(NodeId from) override;
  std::string awaiting(NodeId node) const override;
  void noted(const Note&) override {}
  void concluded() override {
    if (!world_.hangs({Role::kServer, member_.rank()}, Work::kConcluding)) member_.finished(0);
  }
  int64_t step_under_way() override { return 0; }
  void reconfigure(const NodeFailure&) override { member_.coordinator().left_view(0, 0); }
  void failed(const NodeFailure&, bool alone) override;
  void dismissed() override { over_ = true; }

 private:
  SimulatedWorld& world_;
  Member member_;
  std::unique_ptr<ServerShard> shard_;
  bool over_ = false;
};

}  // namespace poseidon::comm
