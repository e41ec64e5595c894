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
  size_t copies = 0;   ///< copies of tensors in canonical order, in transfers
  size_t process = 0;  ///< program, libraries, and kernels made for this net

  size_t total() const;
  /// All parts by name, and "total_bytes".
  Json json() const;
};

/// Estimates the memory of a run with this plan and these net options, without
/// MemoryEstimate::data. Creates the net's layers, but does not allocate its memory. Throws
/// ConfigError.
MemoryEstimate estimate_memory(const Job& job, const comm::Plan& plan, net::Net::Options options);

/// Warns if `workers` such processes need more memory than this machine has available. A single
/// worker is this process, whose memory is already in use.
void warn_of_memory(const Job& job, const MemoryEstimate& estimate, int64_t workers, Log& log);

/// --check: reads the job's data as far as they exist. Returns its network, "memory",
/// "implementations" (implementations_json), and "warnings" of doubtful settings, which are also
/// logged. `has_weights`: initial values come from a file. Throws ConfigError, RunError.
Json check_job(const Job& job, bool has_weights, Log& log);

}  // namespace poseidon::trainer
