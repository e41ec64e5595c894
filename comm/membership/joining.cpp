#include "comm/membership/joining.h"

#include <algorithm>

#include "comm/wire/reachability.h"

namespace poseidon::comm {

using namespace std::chrono_literals;

namespace {
constexpr Time kFirstPause = 100ms, kLongestPause = 2s;
}  // namespace

void Joining::begin() {
  const Time first = me_.now() + me_.options.pause;
  if (me_.options.join_timeout.count() > 0) until_ = first + me_.options.join_timeout;
  pause_ = kFirstPause;
  at_ = first;
  me_.transport.wake_at(first);
}

void Joining::wake() {
  if (at_ && me_.now() >= *at_) seek();
}

void Joining::seek() {
  at_.reset();
  me_.coordinator.connect(
      {.role = me_.options.role, .rank = -1, .view = 0, .address = me_.options.address});
}

void Joining::missed(const std::string& why) {
  seek_later(text("the coordinator at ", me_.options.coordinator, " cannot be reached: ", why,
                  question_about(why, me_.options.coordinator)));
}

void Joining::stay_away() {
  me_.coordinator.opened();
  me_.coordinator.close();
  seek_later(text("the coordinator at ", me_.options.coordinator,
                  " still runs the job in which this node diverged"));
}

void Joining::seek_later(const std::string& why) {
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

void Joining::found(const PeerIdentity& peer) {
  me_.coordinator.opened();
  me_.contact.begin(NodeId{}, me_.now());
  me_.enter(MemberState::kJoining);
  me_.identify(peer.job, peer.view);
  me_.coordinator.tell(Join{.role = me_.options.role,
                            .wanted_rank = me_.options.wanted_rank,
                            .address = me_.options.address,
                            .facts = me_.options.facts});
}

void Joining::welcomed(const Welcome& welcome) {
  if (me_.state() != MemberState::kJoining) return;
  me_.enter(MemberState::kPreparing);
  // All members receive their welcome before any of them receives the roster.
  me_.become_member(static_cast<uint16_t>(welcome.rank));
  me_.expect_at_most(welcome.workers, welcome.servers);
  me_.liveness.set_timeout(
      std::chrono::duration_cast<Time>(std::chrono::duration<double>(welcome.timeout_s)));
  me_.transport.wake_at(me_.now());
  me_.coordinator.send_proof();
  me_.host.welcomed(me_.rank(), welcome.job);
}

void Joining::refused(const std::string& why) {
  // The coordinator may refuse a joiner until the joiner has a plan. An error of the joiner is one
  // possible reason.
  const MemberState state = me_.state();
  if (state != MemberState::kJoining && state != MemberState::kPreparing &&
      state != MemberState::kSuspecting)
    return;
  me_.end();
  me_.host.refused(why);
}

}  // namespace poseidon::comm
