#include "trainer/member/heartbeat.h"

#include "core/error.h"

namespace poseidon::trainer {

void Heartbeat::seeks() {
  joined("");
  does({.doing = "looking for a coordinator", .unit = {}, .waits = true});
}

void Heartbeat::joined(std::string member) {
  MutexLock lock(mutex_);
  member_ = std::move(member);
}

void Heartbeat::does(const comm::Progress& progress) {
  MutexLock lock(mutex_);
  doing_ = progress;
  signed_at_ = Clock::now();
  has_begun_ = true;
}

void Heartbeat::signs() {
  MutexLock lock(mutex_);
  signed_at_ = Clock::now();
}

void Heartbeat::over() {
  MutexLock lock(mutex_);
  over_ = true;
  has_begun_ = true;
  doing_ = {.doing = "done", .unit = {}};
}

void Heartbeat::reach_by(Post post) {
  MutexLock lock(mutex_);
  post_ = std::move(post);
}

void Heartbeat::ask() {
  MutexLock lock(mutex_);
  if (post_ && doing_.waits) post_([this] { sign_for_who_waits(); });
}

void Heartbeat::sign_for_who_waits() {
  MutexLock lock(mutex_);
  if (doing_.waits) signed_at_ = Clock::now();
}

bool Heartbeat::has_begun() const {
  MutexLock lock(mutex_);
  return has_begun_;
}

bool Heartbeat::signed_after(Clock::time_point time) const {
  MutexLock lock(mutex_);
  return over_ || signed_at_ > time;
}

std::string Heartbeat::status() const {
  MutexLock lock(mutex_);
  std::string line = who_ + doing_.doing;
  if (doing_.of > 0) line += text(", ", doing_.done, " of ", doing_.of, " ", doing_.unit);
  return member_.empty() ? line : line + " (" + member_ + ")";
}

}  // namespace poseidon::trainer
