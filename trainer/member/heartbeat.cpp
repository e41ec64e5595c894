#include "trainer/member/heartbeat.h"

#include "core/error.h"

namespace poseidon::trainer {

void Heartbeat::set_searching() {
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
  last_beat_ = Clock::now();
  has_begun_ = true;
}

void Heartbeat::beat() {
  MutexLock lock(mutex_);
  last_beat_ = Clock::now();
}

void Heartbeat::over() {
  MutexLock lock(mutex_);
  over_ = true;
  has_begun_ = true;
  doing_ = {.doing = "done", .unit = {}};
}

void Heartbeat::set_post(Post post) {
  MutexLock lock(mutex_);
  post_ = std::move(post);
}

void Heartbeat::ask() {
  MutexLock lock(mutex_);
  if (post_ && doing_.waits) post_([this] { beat_while_waiting(); });
}

void Heartbeat::beat_while_waiting() {
  MutexLock lock(mutex_);
  if (doing_.waits) last_beat_ = Clock::now();
}

bool Heartbeat::has_begun() const {
  MutexLock lock(mutex_);
  return has_begun_;
}

bool Heartbeat::beat_after(Clock::time_point time) const {
  MutexLock lock(mutex_);
  return over_ || last_beat_ > time;
}

std::string Heartbeat::status() const {
  MutexLock lock(mutex_);
  std::string line = who_ + doing_.doing;
  if (doing_.of > 0) line += text(", ", doing_.done, " of ", doing_.of, " ", doing_.unit);
  return member_.empty() ? line : line + " (" + member_ + ")";
}

}  // namespace poseidon::trainer
