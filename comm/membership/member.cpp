#include "comm/membership/member.h"

#include "comm/wire/reachability.h"
#include "comm/wire/texts.h"
#include "core/error.h"

namespace poseidon::comm {

namespace {

NodeId node_of(const PeerIdentity& peer) { return {peer.role, static_cast<uint16_t>(peer.rank)}; }

/// A destination for planning runs, in which bodies have only lengths. It is not empty, and never
/// written to.
std::span<std::byte> nowhere(uint64_t bytes) {
  static std::byte nothing;
  return {&nothing, bytes};
}

}  // namespace

Member::Member(const Options& options, Transport& transport, MemberHost& host,
               PayloadReceiver& payload)
    : me_(options, transport, host, payload),
      join_protocol_(me_),
      shutdown_(me_),
      setup_(me_, shutdown_) {}

void Member::join() {
  join_protocol_.begin();
  wake();
}

// ---- connections

std::string Member::refusal(const PeerIdentity& caller) const {
  const NodeId node = node_of(caller);
  if (me_.state() == MemberState::kEnded) return "the job has ended";
  if (me_.state() == MemberState::kReconfiguring)
    return name_of(me_.node()) + " is between two views";
  if (caller.view != me_.view()) return name_of(node) + " has another view";
  if (!me_.may_be_member(node)) return name_of(node) + " is not a member of this job";
  if (me_.peers.is_connected(node)) return name_of(node) + " is already connected";
  return "";
}

void Member::opened(ConnectionId connection, const PeerIdentity& peer) {
  if (me_.state() == MemberState::kEnded) return me_.transport.close(connection);
  if (me_.coordinator.is(connection) && join_protocol_.avoids(peer))
    return join_protocol_.stay_away();
  me_.liveness.add(connection, me_.now());
  if (me_.coordinator.is(connection)) return join_protocol_.found(peer);
  me_.peers.answered(connection);
  if (!refusal(peer).empty()) return me_.disconnect(connection);
  me_.peers.add(connection, node_of(peer));
  me_.begin_mtu_check(connection, node_of(peer));
  setup_.connected();
}

void Member::closed(ConnectionId connection, const std::string& why) {
  me_.liveness.remove(connection);
  if (me_.state() == MemberState::kEnded) return;
  if (!me_.coordinator.is(connection)) return peer_failed(connection, why);
  me_.coordinator.disconnected();
  coordinator_failed(why);
}

void Member::coordinator_failed(const std::string& why) {
  if (me_.state() <= MemberState::kJoining)
    join_protocol_.missed(why);
  else
    shutdown_.coordinator_failed(why);
}

void Member::peer_failed(ConnectionId connection, const std::string& why) {
  const Peers::End end = me_.peers.ended(connection, why);
  if (!end.node || end.calls_again) return;
  if (!end.was_open) return shutdown_.report_missing(*end.node, me_.unreached(*end.node, why));
  me_.mtu_check.forget(*end.node);
  if (!me_.peers.is_member(*end.node)) return;  // connected before the members were known
  me_.payload.forgotten(*end.node);
  shutdown_.suspect(*end.node, why);
}

void Member::wake() {
  if (me_.state() == MemberState::kEnded) return;
  for (const ConnectionId connection : me_.liveness.wake(me_.transport)) handle_silence(connection);
  join_protocol_.wake();
  if (me_.state() < MemberState::kSuspecting) me_.peers.call_again(me_.self());
  setup_.wake();
  shutdown_.wake();
}

void Member::handle_silence(ConnectionId connection) {
  const std::optional<NodeId> node = me_.node_of(connection);
  const std::string why = text("no heartbeat for ", seconds_text(me_.liveness.timeout()));
  me_.liveness.remove(connection);
  if (me_.coordinator.is(connection)) {
    const bool none_was_large = me_.mtu_check.is_missing(NodeId{});
    me_.coordinator.close();
    return coordinator_failed(none_was_large ? text(why, ": ", kOnlySmallMessages) : why);
  }
  if (node && me_.peers.is_member(*node))
    return shutdown_.report_missing(*node, me_.mtu_check.is_missing(*node)
                                               ? me_.unreached(*node, kOnlySmallMessages)
                                               : me_.failure_of(*node, why));
  me_.peers.ended(connection);
  me_.transport.close(connection);
}

// ---- frames

std::span<std::byte> Member::destination(ConnectionId from, const FrameHeader& header) {
  const std::optional<NodeId> node = me_.node_of(from);
  if (!node || me_.state() >= MemberState::kSuspecting) return {};
  if (MtuCheck::is_proof(header)) return me_.mtu_check.destination(header);
  const bool is_probe = setup_.is_probe(header);
  // Initial values that were in flight when the view ended are useless in the next view.
  const bool is_untimely =
      node->role == Role::kCoordinator
          ? header.view < me_.view() || me_.state() == MemberState::kReconfiguring
          : me_.state() < MemberState::kConnecting;
  if (is_untimely && !is_probe) return {};
  const Destination destination =
      is_probe ? setup_.probe_destination(*node, header) : me_.payload.destination(*node, header);
  if (!destination.fault.empty()) shutdown_.suspect(*node, text("it ", destination.fault));
  if (!destination.accepted) return {};
  return me_.options.carries_payload || is_probe ? destination.memory : nowhere(header.length);
}

void Member::received(ConnectionId from, const FrameHeader& header,
                      std::span<const std::byte> body) {
  heard(from);
  if (header.kind == FrameKind::kHeartbeat || me_.state() == MemberState::kEnded) return;
  const std::optional<NodeId> node = me_.node_of(from);
  if (!node) return;
  if (header.kind == FrameKind::kControl) {
    if (node->role == Role::kCoordinator) control(body);
  } else if (MtuCheck::is_proof(header)) {
    if (header.view == me_.view()) setup_.proof_arrived(*node);
  } else if (header.kind == FrameKind::kProbe) {
    setup_.probe_arrived(header);
  } else if (me_.state() >= MemberState::kSuspecting) {
    me_.payload.forgotten(*node);
  } else if (const std::string fault = me_.payload.received(*node, header); !fault.empty()) {
    shutdown_.suspect(*node, text("it ", fault));
  }
}

void Member::control(std::span<const std::byte> body) {
  try {
    control(ControlMessage(body));
  } catch (const ConfigError& error) {
    shutdown_.coordinator_failed(text("it sent an unreadable message: ", error.what()));
  }
}

void Member::control(const ControlMessage& message) {
  if (message.is<Refused>()) {
    join_protocol_.refused(message.as<Refused>().why);
  } else if (message.is<Welcome>()) {
    join_protocol_.welcomed(message.as<Welcome>());
  } else if (message.is<Measure>()) {
    setup_.measure(message.as<Measure>());
  } else if (message.is<Probe>()) {
    setup_.probe();
  } else if (message.is<Planned>()) {
    setup_.apply_plan(message.as<Planned>());
  } else if (message.is<Start>() && me_.state() == MemberState::kReady) {
    me_.enter(MemberState::kRunning);
    me_.host.started(static_cast<uint64_t>(message.as<Start>().first_step));
  } else if (message.is<Note>()) {
    me_.host.noted(message.as<Note>());
  } else if (message.is<HaltQuery>()) {
    me_.coordinator.send_message(HaltOffer{me_.host.offer_halt()});
  } else if (message.is<Halt>()) {
    me_.host.halt(message.as<Halt>().step);
  } else if (message.is<Pause>()) {
    me_.host.pause(message.as<Pause>().step);
  } else if (message.is<Conclude>()) {
    me_.host.concluded();
  } else if (message.is<Regroup>()) {
    shutdown_.reconfigure(message.as<Regroup>().failure);
  } else if (message.is<Failed>()) {
    shutdown_.fail(message.as<Failed>().failure);
  } else if (message.is<Save>() && me_.state() == MemberState::kFailing) {
    me_.host.save(message.as<Save>().step);
  } else if (message.is<Dismissed>()) {
    shutdown_.dismissed();
  }
  // Other messages are outdated: the coordinator sent them before it knew this node's current
  // state.
}

}  // namespace poseidon::comm
