#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "core/log.h"
#include "core/mutex.h"

namespace poseidon::data {

/// The corrupt samples of a dataset that loaders have skipped. Loaders of the same dataset share
/// this object, so that the log names each sample once. Thread-safe.
class CorruptSamples {
 public:
  /// Records the skipped sample `index`. Logs `error`, its message, unless the sample is known or
  /// 100 samples have been logged. `source`: name of the dataset in messages.
  void note(int64_t index, const std::string& error, const std::string& source, Log& log);
  /// The number of distinct corrupt samples so far.
  int64_t count() const;

 private:
  mutable Mutex mutex_;
  std::set<int64_t> indices_ GUARDED_BY(mutex_);
};

}  // namespace poseidon::data
