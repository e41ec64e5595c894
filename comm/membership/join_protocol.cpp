#include "comm/membership/join_protocol.h"

#include <algorithm>

#include "comm/wire/reachability.h"

namespace poseidon::comm {

using namespace std::chrono_literals;

namespace {
constexpr Time kFirstPause = 100ms, kLongestPause = 2s;
}  // namespace

void JoinProtocol::begin() {
  const Time first = me_.now() + me_.options.pause;
  if (me_.options.join_timeout.count() > 0) until_ = first + me_.options.join_timeout;
  pause_ = kFirstPause;
  at_ = first;
  me_.transport.wake_at(first);
}

void JoinProtocol::wake() {
  if (at_ && me_.now() >= *at_) seek();
}

void JoinProtocol::seek() {
  at_.reset();
  me_.coordinator.connect(
      {.role = me_.options.role, .rank = -1, .view = 0, .address = me_.options.address});
}

void JoinProtocol::missed(const std::string& why) {
  seek_later(text("the coordinator at ", me_.options.coordinator, " cannot be reached: ", why,
                  question_about(why, me_.options.coordinator)));
}

void JoinProtocol::stay_away() {
  me_.coordinator.opened();
  me_.coordinator.close();
  seek_later(text("the coordinator at ", me_.options.coordinator,
                  " still runs the job in which this node diverged"));
}

void JoinProtocol::seek_later(const std::string& why) {
  const Time now = me_.now();
  if (until_.count() > 0 && now >= until_) {
    me_.end();
    return me_.host.refused(why);
  }
  if (why != last_) me_.host.unreachable(why + "; trying again");
  last_ = why;
  me_.enter(MemberState::kSeeking);
  at_ = now + pause_;
  pause_ = std::min(2 * pause_, kLongestPause);
  me_.transport.wake_at(*at_);
}

void JoinProtocol::found(const PeerIdentity& peer) {
  me_.coordinator.opened();
  me_.mtu_check.begin(NodeId{}, me_.now());
  me_.enter(MemberState::kJoining);
  me_.identify(peer.job, peer.view);
  me_.coordinator.send_message(Join{.role = me_.options.role,
                                    .wanted_rank = me_.options.wanted_rank,
                                    .address = me_.options.address,
                                    .facts = me_.options.facts});
}

void JoinProtocol::welcomed(const Welcome& welcome) {
  if (me_.state() != MemberState::kJoining) return;
  me_.enter(MemberState::kPreparing);
  // All members receive their Welcome before any member receives the roster. So this node accepts
  // connections with its rank before a peer can connect to it.
  me_.become_member(static_cast<uint16_t>(welcome.rank));
  me_.expect_at_most(welcome.workers, welcome.servers);
  me_.liveness.set_timeout(
      std::chrono::duration_cast<Time>(std::chrono::duration<double>(welcome.timeout_s)));
  me_.transport.wake_at(me_.now());
  me_.coordinator.send_proof();
  me_.host.welcomed(me_.rank(), welcome.job);
}

void JoinProtocol::refused(const std::string& why) {
  // The coordinator may refuse a joiner until the joiner has a plan, for example because of an
  // error that the joiner reported (kSuspecting).
  const MemberState state = me_.state();
  if (state != MemberState::kJoining && state != MemberState::kPreparing &&
      state != MemberState::kSuspecting)
    return;
  me_.end();
  me_.host.refused(why);
}

}  // namespace poseidon::comm
