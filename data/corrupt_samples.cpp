#include "data/corrupt_samples.h"

#include "core/error.h"

namespace poseidon::data {

namespace {

constexpr size_t kMaxNamedSamples = 100;

}  // namespace

void CorruptSamples::note(int64_t index, const std::string& error, const std::string& source,
                          Log& log) {
  size_t number = 0;  // number of corrupt samples so far, with this one
  {
    MutexLock lock(mutex_);
    if (!indices_.insert(index).second) return;
    number = indices_.size();
  }
  if (number <= kMaxNamedSamples) log.warning(text(error, "; skipped"));
  if (number == kMaxNamedSamples)
    log.warning(text(source, ": skipped ", number,
                     " corrupt samples; further ones are skipped without a message"));
}

int64_t CorruptSamples::count() const {
  MutexLock lock(mutex_);
  return static_cast<int64_t>(indices_.size());
}

}  // namespace poseidon::data
