#include "comm/membership/halt_vote.h"

#include <algorithm>

namespace poseidon::comm {

void HaltVote::begin() {
  // After the last step the job ends anyway.
  if (job_.state() == CoordinatorState::kConcluding) return;
  begun_ = true;
  ask();
}

void HaltVote::begin_next_view() {
  offers_.clear();
  asked_ = false;
}

void HaltVote::ask() {
  if (begun_) query();
}

void HaltVote::pause() {
  if (!begun_) query();
}

void HaltVote::query() {
  if (asked_ || job_.state() != CoordinatorState::kRunning) return;
  asked_ = true;
  job_.members.broadcast(Role::kWorker, HaltQuery{});
}

void HaltVote::take(const MemberRecord& member, int64_t offer) {
  if (!asked_ || job_.state() != CoordinatorState::kRunning) return;
  offers_[member.node.rank] = offer;
  if (offers_.size() < job_.members.count(Role::kWorker)) return;
  const auto furthest = std::ranges::max_element(
      offers_, {}, [](const auto& rank_and_offer) { return rank_and_offer.second; });
  if (begun_)
    job_.members.broadcast(Role::kWorker, Halt{furthest->second});
  else
    job_.members.broadcast(Role::kWorker, Pause{furthest->second});
}

}  // namespace poseidon::comm
