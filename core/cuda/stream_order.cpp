#include "core/cuda/stream_order.h"

#include <algorithm>

namespace poseidon::cuda {

void VectorClock::set(size_t stream, uint64_t count) {
  counts_.resize(std::max(counts_.size(), stream + 1));
  counts_[stream] = count;
}

void VectorClock::join(const VectorClock& other) {
  for (size_t i = 0; i < other.counts_.size(); ++i)
    if (other.counts_[i] > of(i)) set(i, other.counts_[i]);
}

bool VectorClock::includes(const VectorClock& other) const {
  for (size_t i = 0; i < other.counts_.size(); ++i)
    if (other.counts_[i] > of(i)) return false;
  return true;
}

VectorClock& StreamOrder::of(size_t stream) {
  streams_.resize(std::max(streams_.size(), stream + 1));
  return streams_[stream];
}

void StreamOrder::issued(size_t stream) {
  VectorClock& done = of(stream);
  done = before(stream);
  done.set(stream, done.of(stream) + 1);
}

VectorClock StreamOrder::before(size_t stream) {
  VectorClock done = of(stream);
  MutexLock lock(mutex_);
  done.join(host_);
  return done;
}

void StreamOrder::host_waited_for(const VectorClock& done) {
  MutexLock lock(mutex_);
  host_.join(done);
}

bool StreamOrder::host_is_after(const VectorClock& done) {
  MutexLock lock(mutex_);
  return host_.includes(done);
}

}  // namespace poseidon::cuda
