#pragma once

#include "trainer/member/member_options.h"

namespace poseidon::apps {

/// What poseidon-worker and poseidon-server have in common: flags, the secret, one job after
/// another. `run` takes part in one job. Returns the exit code.
int run_member_program(const char* name, const char* description, bool computes, int count,
                       char** arguments,
                       trainer::MemberEnd (*run)(const trainer::MemberOptions&, Log&));

}  // namespace poseidon::apps
