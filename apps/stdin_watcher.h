#pragma once

#include <chrono>
#include <functional>
#include <thread>

#include "core/file.h"

namespace poseidon::apps {

/// Watches for the end of standard input in a separate thread. Discards all input. A process that
/// was started over ssh detects in this way that the ssh connection is closed.
class StdinWatcher {
 public:
  /// Calls `ended` at the end of the input. If this object still exists `grace` later, also calls
  /// `overdue`. Both calls run in the watching thread.
  StdinWatcher(std::function<void()> ended, std::chrono::milliseconds grace,
               std::function<void()> overdue);
  ~StdinWatcher();
  StdinWatcher(const StdinWatcher&) = delete;
  StdinWatcher& operator=(const StdinWatcher&) = delete;

 private:
  void look();
  bool input_ends() const;

  const std::function<void()> ended_, overdue_;
  const std::chrono::milliseconds grace_;
  /// Read end and write end of a pipe. The destructor closes `end_` to wake the thread.
  Descriptor over_, end_;
  std::thread thread_;
};

}  // namespace poseidon::apps
