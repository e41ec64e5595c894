#pragma once

#include <cstddef>

#include "comm/plan/plan.h"
#include "net/net.h"
#include "trainer/job/job.h"

namespace poseidon::trainer {

/// What one worker's process has in memory at the peak of a run, in bytes. docs/memory.md says what
/// each part is, and what is left out.
struct MemoryEstimate {
  net::NetMemory net;
  size_t optimizer_state = 0;
  size_t batches = 0;  ///< made ready ahead of their use, in training and in a test
  size_t data = 0;     ///< datasets that are held in memory
  size_t sums = 0;     ///< gradients over several shards, and factors, on their way
  size_t copies = 0;   ///< of tensors in canonical order, on their way from or to somewhere
  size_t process = 0;  ///< the program and its libraries, with the kernels made for this net

  size_t total() const;
  /// All parts by name, and "total_bytes".
  Json json() const;
};

/// Of a run by `plan` on a net of these options, but for `data`. Makes the net's layers, and takes
/// none of its memory. Throws ConfigError.
MemoryEstimate estimate_memory(const Job& job, const comm::Plan& plan, net::Net::Options options);

/// Warns, in one line, where `workers` processes of this kind take more than this machine has left
/// for them. Of a single one the process is there already.
void warn_of_memory(const Job& job, const MemoryEstimate& estimate, int64_t workers, Log& log);

/// --check: looks at the job's data as far as they are there, and reports its network, "memory",
/// "implementations" (implementations_json), and "warnings" of doubtful settings, which the log
/// gets too. `has_weights`: first values come from a file. Throws ConfigError, RunError.
Json check_job(const Job& job, bool has_weights, Log& log);

}  // namespace poseidon::trainer
