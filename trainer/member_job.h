#pragma once

#include "trainer/data_root.h"
#include "trainer/job.h"
#include "trainer/job_message.h"
#include "trainer/member_options.h"

namespace poseidon::trainer {

/// Throws ConfigError where the job is none, or its data are not here.
Job open_job_message(const JobMessage& message, const MemberOptions& options);

}  // namespace poseidon::trainer
