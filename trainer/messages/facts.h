#pragma once

#include <string>
#include <vector>

#include "comm/wire/messages.h"
#include "trainer/job/job.h"

namespace poseidon::trainer {

/// Identifies the build, which must be equal in all processes of a job.
std::string build_identity();

/// Properties that must be equal on all workers after they have opened their data.
std::vector<comm::Fact> facts_of(const Job& job, const PreparedData& train,
                                 const PreparedData& test);
/// The value of a fact, "" if it is missing.
std::string fact(const std::vector<comm::Fact>& facts, const std::string& name);
/// The fact with the number of training samples. Throws ConfigError if it is missing or not a
/// number.
int64_t training_samples(const std::vector<comm::Fact>& facts);

}  // namespace poseidon::trainer
