#include "comm/membership/coordinator.h"

#include "comm/wire/texts.h"
#include "core/error.h"

namespace poseidon::comm {

namespace {
/// Limit on a message of a node that is not admitted. A request to join has a few hundred bytes.
constexpr uint64_t kMaxPendingJoinBytes = uint64_t{64} << 10;
/// The most bytes shown of an error about an unreadable message.
constexpr size_t kMaxShown = 300;

/// How long other members may still report, after a member's connection broke, which data they
/// awaited from this member.
Time grace_of(const CoordinatedJob& job) { return job.options.timeout / 10; }

void take_progress(CoordinatedJob& job, MemberRecord& member, const Note& note) {
  if (!member.is_worker() || note.step <= member.step) return;
  member.step = note.step;
  member.doing.waits = false;
  job.record_progress(member);
  if (job.has_begun()) job.step_timer.reached(note.step, job.now());
}

}  // namespace

Coordinator::Coordinator(const Options& options, Transport& transport, const CoordinatorHost& host)
    : job_(options, transport, host),
      admission_(job_, joiners_),
      job_shutdown_(job_, admission_),
      reconfiguration_(
          job_, [this](const Survivors& survivors, const std::vector<Joiner>& joined,
                       int64_t step) { preparation_.publish_next_view(survivors, joined, step); }),
      failure_detector_(job_, reconfiguration_, job_shutdown_),
      divergence_check_(job_, failure_detector_),
      halt_(job_),
      joiners_(job_, halt_, reconfiguration_),
      preparation_(job_, failure_detector_, divergence_check_, halt_),
      deadlines_(job_, admission_, failure_detector_, job_shutdown_, preparation_) {}

// ---- for the host

void Coordinator::begin() {
  admission_.begin();
  wake();
}

void Coordinator::halt() {
  if (!job_.has_begun()) return report_error("stopped before the first step");
  halt_.begin();
}

void Coordinator::note(uint16_t worker, const Note& note) {
  if (const MemberRecord* member = job_.members.find({Role::kWorker, worker}))
    job_.control.send_message(member->connection, note);
}

void Coordinator::send(uint16_t worker, const FrameHeader& header, Payload payload) {
  if (const MemberRecord* member = job_.members.find({Role::kWorker, worker}))
    job_.transport.send(member->connection, header, std::move(payload), kBackground);
}

void Coordinator::report_error(const std::string& why) {
  failure_detector_.declare_failed(job_.failure_of(NodeId{}, NodeFailure::Kind::kError, why));
}

void Coordinator::report_absent(NodeId node, const std::string& why) {
  if (state() != State::kGathering || job_.members.contains(node)) return;
  failure_detector_.declare_failed(job_.failure_of(node, NodeFailure::Kind::kPeer, why));
}

void Coordinator::report_unreadable(NodeId node, uint32_t view, const std::string& why) {
  const MemberRecord* member = job_.members.find(node);
  // In a later view the rank may belong to another member.
  if (member == nullptr || view != job_.view()) return;
  // The transport does not call Machine::closed() after close(), so handle the failure here.
  job_.transport.close(member->connection);
  failure_detector_.node_failed(
      *member, "it sent an unreadable message: " + shortened(why, kMaxShown), grace_of(job_));
}

// ---- for the transport

uint64_t Coordinator::max_control_bytes(ConnectionId from) const {
  const bool takes_part = job_.members.contains(from) || job_.joiners.contains(from);
  return takes_part ? kMaxControlBytes : kMaxPendingJoinBytes;
}

void Coordinator::opened(ConnectionId connection, const PeerIdentity& peer) {
  if (state() == State::kEnded) return job_.transport.close(connection);
  admission_.opened(connection, peer);
}

std::span<std::byte> Coordinator::destination(ConnectionId from, const FrameHeader& header) {
  const MemberRecord* member = job_.members.find(from);
  if (MtuCheck::is_proof(header)) return job_.mtu_check.destination(header);
  if (member == nullptr || !member->is_worker() || header.view != job_.view()) return {};
  const Destination destination = job_.host.checkpoints.destination(member->node.rank, header);
  if (!destination.fault.empty()) {
    // The transport does not call Machine::closed() after close(), so handle the failure here.
    job_.transport.close(from);
    failure_detector_.node_failed(*member, text("it ", destination.fault), grace_of(job_));
  }
  return destination.accepted ? destination.memory : std::span<std::byte>();
}

void Coordinator::received(ConnectionId from, const FrameHeader& header,
                           std::span<const std::byte> body) {
  heard(from);
  if (header.kind == FrameKind::kHeartbeat || state() == State::kEnded) return;
  MemberRecord* member = job_.members.find(from);
  if (MtuCheck::is_proof(header)) {
    if (member != nullptr) member->sent_proof = true;
    return joiners_.proof_arrived(from);
  }
  // The member sent this frame before it knew the current view. The frame concerns an older view.
  if (member != nullptr && header.view < job_.view()) return;
  if (header.kind == FrameKind::kControl) return control(from, body);
  if (member == nullptr) return;
  job_.record_progress(*member);
  job_.host.checkpoints.received(member->node.rank, header);
}

void Coordinator::closed(ConnectionId connection, const std::string& why) {
  job_.liveness.remove(connection);
  admission_.forget(connection);
  joiners_.node_failed(connection, why);
  if (const MemberRecord* member = job_.members.find(connection))
    failure_detector_.node_failed(*member, why, grace_of(job_));
}

void Coordinator::wake() {
  if (state() == State::kEnded) return;
  for (ConnectionId connection : job_.liveness.wake(job_.transport)) {
    handle_silence(connection);
    if (state() == State::kEnded) return;
  }
  admission_.watch();
  if (admission_.begins_without_missing()) preparation_.begin();
  deadlines_.watch();
  joiners_.watch();
}

void Coordinator::handle_silence(ConnectionId connection) {
  admission_.forget(connection);
  const std::string why = text("no heartbeat for ", seconds_text(job_.liveness.timeout()));
  joiners_.node_failed(connection, why);
  const MemberRecord* member = job_.members.find(connection);
  // If the node only hung and continues later, it receives the reason for its removal.
  if (member != nullptr)
    job_.control.send_message(connection,
                              Failed{job_.failure_of(*member, NodeFailure::Kind::kPeer, why)});
  job_.transport.close(connection);
  // Other members may have received the last heartbeat of this member up to one heartbeat interval
  // later. So they also notice its silence later.
  if (member != nullptr) failure_detector_.node_failed(*member, why, 2 * job_.options.timeout / 5);
}

// ---- messages

void Coordinator::control(ConnectionId from, std::span<const std::byte> body) {
  MemberRecord* member = job_.members.find(from);
  try {
    const ControlMessage message(body);
    if (member != nullptr)
      control(*member, message);
    else if (message.is<Join>())
      admission_.join(from, message.as<Join>());
    else
      joiners_.take(from, message);
  } catch (const ConfigError& error) {
    if (member != nullptr) return report_unreadable(member->node, job_.view(), error.what());
    const std::string why = "it sent an unreadable message: " + shortened(error.what(), kMaxShown);
    if (job_.joiners.contains(from)) return joiners_.refuse(from, why);
    admission_.refuse(from, why);
  }
}

void Coordinator::control(MemberRecord& member, const ControlMessage& message) {
  if (message.is<Progress>()) {
    member.doing = message.as<Progress>();
    if (!member.doing.waits) job_.record_progress(member);
  } else if (message.is<Prepared>()) {
    preparation_.prepared(member, message.as<Prepared>().facts);
  } else if (message.is<Met>()) {
    preparation_.met(member);
  } else if (message.is<Measured>()) {
    preparation_.measured(member, message.as<Measured>().rate);
  } else if (message.is<Ready>()) {
    preparation_.ready(member, message.as<Ready>().digest);
  } else if (message.is<Note>()) {
    const auto note = message.as<Note>();
    take_progress(job_, member, note);
    job_.host.observer.noted(member.node, note);
  } else if (message.is<Digest>()) {
    job_.record_progress(member);
    divergence_check_.take(member, message.as<Digest>());
  } else if (message.is<HaltOffer>()) {
    halt_.take(member, message.as<HaltOffer>().step);
  } else if (message.is<Finished>()) {
    job_shutdown_.finished(member, message.as<Finished>().step);
  } else if (message.is<Paused>()) {
    joiners_.paused(member, message.as<Paused>().step);
  } else if (message.is<Lost>()) {
    failure_detector_.receive_report(member, message.as<Lost>().failure);
  } else if (message.is<LeftView>()) {
    reconfiguration_.left_view(member, message.as<LeftView>());
  } else if (message.is<Stopped>()) {
    job_shutdown_.stopped(member, message.as<Stopped>().step);
  } else if (message.is<Saved>()) {
    job_shutdown_.saved(member, message.as<Saved>().step);
  } else if (message.is<CannotSave>()) {
    job_shutdown_.cannot_save(member, message.as<CannotSave>().why);
  }
}

}  // namespace poseidon::comm
