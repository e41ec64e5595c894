#include "trainer/member/life_signs.h"

#include "core/error.h"

namespace poseidon::trainer {

void LifeSigns::seeks() {
  joined("");
  does({.doing = "looking for a coordinator", .unit = {}, .waits = true});
}

void LifeSigns::joined(std::string member) {
  MutexLock lock(mutex_);
  member_ = std::move(member);
}

void LifeSigns::does(const comm::Progress& progress) {
  MutexLock lock(mutex_);
  doing_ = progress;
  signed_at_ = Clock::now();
  has_begun_ = true;
}

void LifeSigns::signs() {
  MutexLock lock(mutex_);
  signed_at_ = Clock::now();
}

void LifeSigns::over() {
  MutexLock lock(mutex_);
  over_ = true;
  has_begun_ = true;
  doing_ = {.doing = "done", .unit = {}};
}

void LifeSigns::reach_by(Post post) {
  MutexLock lock(mutex_);
  post_ = std::move(post);
}

void LifeSigns::ask() {
  MutexLock lock(mutex_);
  if (post_ && doing_.waits) post_([this] { sign_for_who_waits(); });
}

void LifeSigns::sign_for_who_waits() {
  MutexLock lock(mutex_);
  if (doing_.waits) signed_at_ = Clock::now();
}

bool LifeSigns::has_begun() const {
  MutexLock lock(mutex_);
  return has_begun_;
}

bool LifeSigns::signed_after(Clock::time_point time) const {
  MutexLock lock(mutex_);
  return over_ || signed_at_ > time;
}

std::string LifeSigns::status() const {
  MutexLock lock(mutex_);
  std::string line = who_ + doing_.doing;
  if (doing_.of > 0) line += text(", ", doing_.done, " of ", doing_.of, " ", doing_.unit);
  return member_.empty() ? line : line + " (" + member_ + ")";
}

}  // namespace poseidon::trainer
