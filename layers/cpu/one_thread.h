#pragma once

#include <omp.h>

namespace poseidon::layers::cpu {

/// While an object of this class exists, primitives of oneDNN that the calling thread creates or
/// runs use one thread. oneDNN reads OpenMP's number of threads at both times.
class OneThread {
 public:
  OneThread() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~OneThread() { omp_set_num_threads(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

}  // namespace poseidon::layers::cpu
