#pragma once

#include <cstddef>

#include "comm/plan/plan.h"
#include "net/net.h"
#include "trainer/job/job.h"

namespace poseidon::trainer {

/// Estimated peak memory of one worker process in a run, in bytes. docs/memory.md describes each
/// part, and the memory that is not included.
struct MemoryEstimate {
  net::NetMemory net;
  size_t optimizer_state = 0;
  size_t batches = 0;  ///< batches prepared in advance, for training and a test
  size_t data = 0;     ///< datasets in memory
  size_t sums = 0;     ///< gradient sums and factors in flight
  size_t copies = 0;   ///< copies of tensors in canonical order, for checkpoints
  size_t process = 0;  ///< program, libraries, and the kernels for this net

  size_t total() const;
  /// All parts by name, and "total_bytes".
  Json json() const;
};

/// Estimates the memory of a worker with this plan and these net options. MemoryEstimate::data
/// remains 0. Creates the net's layers, but does not allocate the net's memory. Throws ConfigError.
MemoryEstimate estimate_memory(const Job& job, const comm::Plan& plan, net::Net::Options options);

/// Warns if `workers` processes with this estimate need more memory than this machine has
/// available. A single worker is this process: the memory that it already uses does not count.
void warn_of_memory(const Job& job, const MemoryEstimate& estimate, int64_t workers, Log& log);

/// --check: inspects a job without training. Reads the job's data as far as they exist. Returns the
/// summary of the network, "memory", "implementations" (implementations_json), and "warnings" of
/// doubtful settings, which are also logged. `has_weights`: initial values are from a file. Throws
/// ConfigError, RunError.
Json check_job(const Job& job, bool has_weights, Log& log);

}  // namespace poseidon::trainer
