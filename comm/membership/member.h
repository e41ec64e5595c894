#pragma once

#include <string>
#include <vector>

#include "comm/membership/join_protocol.h"
#include "comm/membership/member_setup.h"
#include "comm/membership/member_shutdown.h"
#include "comm/membership/membership.h"
#include "comm/wire/messages.h"
#include "comm/wire/transport.h"

namespace poseidon::comm {

/// The membership of a worker or server in a job. A PayloadReceiver receives the tensors.
/// JoinProtocol joins the job, MemberSetup connects to the peers, and MemberShutdown handles the
/// end of the job. This class monitors the connections, and passes each message to one of them or
/// to the host. It is a state machine; all calls are made in one thread.
class Member final : public Machine {
 public:
  using Options = JoiningOptions;

  /// `transport`, `host` and `payload` must outlive this object.
  Member(const Options& options, Transport& transport, MemberHost& host, PayloadReceiver& payload);

  /// Starts to connect to the coordinator.
  void join();
  void prepared(const std::vector<Fact>& facts) { setup_.prepared(facts); }
  /// `meets_workers`: whether the plan moves factors between workers.
  void ready(const std::vector<int64_t>& digest, bool meets_workers) {
    setup_.ready(digest, meets_workers);
  }
  /// Reports that all steps are done. From now on the member needs only the coordinator, not its
  /// peers.
  void finished(int64_t step) { shutdown_.finished(step); }
  /// Reports a local error. The job fails, unless this node is a joiner before its first step. Then
  /// the job may continue without it.
  void report_error(const std::string& why) { shutdown_.report_error(why); }
  /// Ends this node without a message to the coordinator. Called after the coordinator has failed.
  void leave() { me_.end(); }
  /// Ends this node on request. It ends at once if there is no plan yet. Otherwise the job
  /// continues without it, or fails. Does nothing after finished().
  void leave(const std::string& why) { shutdown_.leave(why); }

  uint16_t rank() const { return me_.rank(); }
  uint32_t view() const { return me_.view(); }
  /// The job to which this node belongs, or which it last requested to join; zeros: none yet.
  const JobId& job() const { return me_.self().job; }
  /// The link for messages to the coordinator.
  CoordinatorLink& coordinator() { return me_.coordinator; }
  /// The outlet for frames to the other members.
  Outlet& peers() { return me_.peers; }

  std::string refusal(const PeerIdentity& caller) const override;
  void opened(ConnectionId connection, const PeerIdentity& peer) override;
  std::span<std::byte> destination(ConnectionId from, const FrameHeader& header) override;
  void received(ConnectionId from, const FrameHeader& header,
                std::span<const std::byte> body) override;
  void heard(ConnectionId from) override { me_.liveness.heard(from, me_.now()); }
  void closed(ConnectionId connection, const std::string& why) override;
  void wake() override;

 private:
  void control(std::span<const std::byte> body);
  void control(const ControlMessage& message);
  void coordinator_failed(const std::string& why);
  void peer_failed(ConnectionId connection, const std::string& why);
  void handle_silence(ConnectionId connection);

  Membership me_;
  JoinProtocol join_protocol_;
  MemberShutdown shutdown_;
  MemberSetup setup_;
};

}  // namespace poseidon::comm
