#pragma once

#include "trainer/job/data_root.h"
#include "trainer/job/job.h"
#include "trainer/member/member_options.h"
#include "trainer/messages/job_message.h"

namespace poseidon::trainer {

/// Throws ConfigError where the job is none, or its data are not here.
Job open_job_message(const JobMessage& message, const MemberOptions& options);

}  // namespace poseidon::trainer
