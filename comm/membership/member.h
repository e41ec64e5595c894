#pragma once

#include <string>
#include <vector>

#include "comm/membership/departure.h"
#include "comm/membership/joining.h"
#include "comm/membership/meeting.h"
#include "comm/membership/membership.h"
#include "comm/wire/messages.h"
#include "comm/wire/transport.h"

namespace poseidon::comm {

/// A worker's or server's part in a job without the payload: it joins, connects to its peers,
/// watches them, and ends with the others whatever happens. It is a state machine; all calls are
/// made in one thread. Each part of it does one of these things; the member itself gives each
/// message to the part that it is for.
class Member final : public Machine {
 public:
  using Options = JoiningOptions;

  /// `transport`, `host` and `payload` must outlive it.
  Member(const Options& options, Transport& transport, MemberHost& host, PayloadReceiver& payload);

  /// Begins to look for the coordinator.
  void join();
  void prepared(const std::vector<Fact>& facts) { meeting_.prepared(facts); }
  /// `meets_workers`: whether the plan moves factors between workers.
  void ready(const std::vector<int64_t>& digest, bool meets_workers) {
    meeting_.ready(digest, meets_workers);
  }
  /// All steps are done; only the coordinator matters from here on.
  void finished(int64_t step) { departure_.finished(step); }
  /// Reports an error of this node's own, by which the job fails.
  void report_error(const std::string& why) { departure_.report_error(why); }
  /// Ends without a message, since nobody is left to receive one.
  void leave() { me_.end(); }
  /// Ends this node on request: at once if there is no plan yet; else the job goes on without it,
  /// or fails by this.
  void leave(const std::string& why) { departure_.leave(why); }

  uint16_t rank() const { return me_.rank(); }
  uint32_t view() const { return me_.view(); }
  /// The job that it takes part in, or asked to last; zeros before.
  const JobId& job() const { return me_.self().job; }
  /// Takes what this node sends to the coordinator.
  CoordinatorLink& coordinator() { return me_.coordinator; }
  /// Takes frames for the other members.
  Outlet& peers() { return me_.peers; }

  std::string refusal(const PeerIdentity& caller) const override;
  void opened(ConnectionId connection, const PeerIdentity& peer) override;
  std::span<std::byte> place(ConnectionId from, const FrameHeader& header) override;
  void received(ConnectionId from, const FrameHeader& header,
                std::span<const std::byte> body) override;
  void heard(ConnectionId from) override { me_.liveness.heard(from, me_.now()); }
  void closed(ConnectionId connection, const std::string& why) override;
  void wake() override;

 private:
  void control(std::span<const std::byte> body);
  void control(const ControlMessage& message);
  void lose_coordinator(const std::string& why);
  void lose_peer(ConnectionId connection, const std::string& why);
  void hear_nothing_of(ConnectionId connection);

  Membership me_;
  Joining joining_;
  Departure departure_;
  Meeting meeting_;
};

}  // namespace poseidon::comm
