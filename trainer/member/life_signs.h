#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "comm/wire/messages.h"
#include "core/mutex.h"

namespace poseidon::trainer {

/// The signs of life of one part of this process, a worker or a server, for whoever ends processes
/// that hang. A part signs by its own doing: its main thread while it works, and its I/O thread
/// while that one waits for others, since the I/O thread has to end the wait. A main thread that
/// hangs at work gives no sign, whatever other threads do. All calls may be made from any thread.
class LifeSigns {
 public:
  using Clock = std::chrono::steady_clock;
  using Post = std::function<void(std::function<void()>)>;

  /// `who` precedes what the part does in status().
  explicit LifeSigns(std::string who = "") : who_(std::move(who)) {}

  // By the part.
  /// It looks for a coordinator, and belongs to no job.
  void seeks();
  /// It belongs to a job: "worker 0 of the job \"lenet\"".
  void joined(std::string member);
  /// What its main thread does from now on, or goes on with.
  void does(const comm::Progress& progress);
  void signs();
  /// Its last job is over; nothing is expected of it any more.
  void over();

  /// While it lives, tasks reach the part's I/O thread by `post`, which must not wait for them.
  class Reach {
   public:
    Reach(LifeSigns& signs, Post post) : signs_(signs) { signs_.reach_by(std::move(post)); }
    ~Reach() { signs_.reach_by(nullptr); }
    Reach(const Reach&) = delete;
    Reach& operator=(const Reach&) = delete;

   private:
    LifeSigns& signs_;
  };

  // By who watches it.
  /// Has the I/O thread sign, if the main thread waits for others. Returns at once.
  void ask();
  bool has_begun() const;
  /// Whether there was a sign after `time`, or none is expected.
  bool signed_after(Clock::time_point time) const;
  /// "testing, 120 of 500 batches (worker 0 of the job \"lenet\")"
  std::string status() const;

 private:
  void reach_by(Post post);
  void sign_for_who_waits();

  const std::string who_;
  mutable Mutex mutex_;
  Post post_ GUARDED_BY(mutex_);
  comm::Progress doing_ GUARDED_BY(mutex_);
  std::string member_ GUARDED_BY(mutex_);
  Clock::time_point signed_at_ GUARDED_BY(mutex_){};
  bool has_begun_ GUARDED_BY(mutex_) = false, over_ GUARDED_BY(mutex_) = false;
};

}  // namespace poseidon::trainer
