#include "trainer/member/end_watch.h"

namespace poseidon::trainer {

EndWatch::EndWatch(GiveUp give_up) : give_up_(std::move(give_up)) {
  if (give_up_) thread_ = std::thread([this] { watch(); });
}

EndWatch::~EndWatch() {
  {
    MutexLock lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void EndWatch::expect(Clock::duration period, std::string why) {
  {
    MutexLock lock(mutex_);
    deadline_ = Clock::now() + period;
    why_ = std::move(why);
  }
  changed_.notify_all();
}

void EndWatch::rest() {
  MutexLock lock(mutex_);
  deadline_.reset();
}

void EndWatch::watch() {
  std::string why;
  {
    MutexLock lock(mutex_);
    while (!over_ && !(deadline_ && Clock::now() >= *deadline_)) {
      if (deadline_)
        changed_.wait_until(mutex_, *deadline_);
      else
        changed_.wait(mutex_);
    }
    if (over_) return;
    why = why_;
  }
  give_up_(why);
}

}  // namespace poseidon::trainer
