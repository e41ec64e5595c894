#pragma once

#include "trainer/member/member_options.h"

namespace poseidon::apps {

/// The common main function of poseidon-worker and poseidon-server. Reads flags and the secret,
/// then takes part in one job after another until a stop signal arrives. With --once, takes part in
/// one job. With --join-timeout, also ends if no job admits the process in time. `run` takes part
/// in one job. `computes` is true for a worker. Returns the exit code.
int run_member_program(const char* name, const char* description, bool computes, int count,
                       char** arguments,
                       trainer::MemberEnd (*run)(const trainer::MemberOptions&, Log&));

}  // namespace poseidon::apps
