#pragma once

#include "trainer/job/data_root.h"
#include "trainer/job/job.h"
#include "trainer/member/member_options.h"
#include "trainer/messages/job_message.h"

namespace poseidon::trainer {

/// A worker's job and data, which are opened before the plan is known.
struct PreparedJob {
  uint16_t rank = 0;
  JobMessage message = {};
  Job job = {};
  PreparedData train_data = {}, test_data = {};
  bool has_parent = false;  ///< the coordinator has started this process, on the same host
};

/// Opens the job that the coordinator has sent, with this host's data paths, threads and devices.
/// Throws ConfigError if the job is invalid, or if this host does not have its data.
Job open_job_message(const JobMessage& message, const MemberOptions& options);

}  // namespace poseidon::trainer
