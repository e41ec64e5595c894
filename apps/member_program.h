#pragma once

#include "trainer/member/member_options.h"

namespace poseidon::apps {

/// The common main function of poseidon-worker and poseidon-server. Reads flags and the secret,
/// then takes part in one job after another, or in one job with --once. `run` takes part in one
/// job. `computes` is true for a worker. Returns the exit code.
int run_member_program(const char* name, const char* description, bool computes, int count,
                       char** arguments,
                       trainer::MemberEnd (*run)(const trainer::MemberOptions&, Log&));

}  // namespace poseidon::apps
