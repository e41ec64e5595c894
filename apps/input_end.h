#pragma once

#include <chrono>
#include <functional>
#include <thread>

#include "core/file.h"

namespace poseidon::apps {

/// Looks, in a thread of its own, for the end of standard input: what was started over a connection
/// sees by it that the connection is gone. What is read there is dropped.
class InputEnd {
 public:
  /// Calls `ended` when the input has ended, and `overdue` when this object is still there a time
  /// of `grace` later; both in that thread.
  InputEnd(std::function<void()> ended, std::chrono::milliseconds grace,
           std::function<void()> overdue);
  ~InputEnd();
  InputEnd(const InputEnd&) = delete;
  InputEnd& operator=(const InputEnd&) = delete;

 private:
  void look();
  bool input_ends() const;

  const std::function<void()> ended_, overdue_;
  const std::chrono::milliseconds grace_;
  Descriptor over_, end_;  ///< a pipe, which is closed where this object ends
  std::thread thread_;
};

}  // namespace poseidon::apps
