#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "comm/wire/messages.h"
#include "core/mutex.h"

namespace poseidon::trainer {

/// Heartbeat of one worker or server of this process, for the service watchdog. The main thread of
/// the worker or server reports while it works. While the main thread waits for other nodes, the
/// I/O thread reports, because the I/O thread receives the awaited messages. A main thread that
/// hangs in its own work produces no heartbeat, even if other threads run. Thread-safe.
class Heartbeat {
 public:
  using Clock = std::chrono::steady_clock;
  using Post = std::function<void(std::function<void()>)>;

  /// `who` is a prefix of status().
  explicit Heartbeat(std::string who = "") : who_(std::move(who)) {}

  // Called by the worker or server.
  /// Reports that the worker or server is in no job and searches for a coordinator.
  void set_searching();
  /// Reports that the worker or server has joined a job. `member` is a text such as "worker 0 of
  /// the job \"lenet\"".
  void joined(std::string member);
  /// Reports that the main thread begins or continues this activity.
  void does(const comm::Progress& progress);
  /// Reports that the current activity makes progress.
  void beat();
  /// Reports that the last job is over. No further heartbeat is then expected.
  void over();

  /// While this object exists, ask() sends tasks to the I/O thread through `post`. `post` must not
  /// block.
  class PostScope {
   public:
    PostScope(Heartbeat& beat, Post post) : heartbeat_(beat) {
      heartbeat_.set_post(std::move(post));
    }
    ~PostScope() { heartbeat_.set_post(nullptr); }
    PostScope(const PostScope&) = delete;
    PostScope& operator=(const PostScope&) = delete;

   private:
    Heartbeat& heartbeat_;
  };

  // Called by the watchdog.
  /// If the main thread waits for other nodes, posts a heartbeat to the I/O thread. Returns
  /// immediately.
  void ask();
  /// Whether any activity was reported.
  bool has_begun() const;
  /// Whether there was a heartbeat after `time`, or none is expected.
  bool beat_after(Clock::time_point time) const;
  /// The last reported activity, such as "testing, 120 of 500 batches (worker 0 of the job
  /// \"lenet\")".
  std::string status() const;

 private:
  void set_post(Post post);
  void beat_while_waiting();

  const std::string who_;
  mutable Mutex mutex_;
  Post post_ GUARDED_BY(mutex_);
  comm::Progress doing_ GUARDED_BY(mutex_);
  std::string member_ GUARDED_BY(mutex_);
  Clock::time_point last_beat_ GUARDED_BY(mutex_){};
  bool has_begun_ GUARDED_BY(mutex_) = false, over_ GUARDED_BY(mutex_) = false;
};

}  // namespace poseidon::trainer
