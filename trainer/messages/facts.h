#pragma once

#include <string>
#include <vector>

#include "comm/wire/messages.h"
#include "trainer/job/job.h"

namespace poseidon::trainer {

/// Identifies the build, which must be equal in all processes of a job.
std::string build_identity();

/// Properties of job and data that must be equal on all workers. Each worker computes them after it
/// has opened its data.
std::vector<comm::Fact> facts_of(const Job& job, const PreparedData& train,
                                 const PreparedData& test);
/// The value of the fact `name`; "" if it is missing.
std::string fact(const std::vector<comm::Fact>& facts, const std::string& name);
/// The number of training samples, from its fact. Throws ConfigError if the fact is missing or not
/// a number.
int64_t training_samples(const std::vector<comm::Fact>& facts);

}  // namespace poseidon::trainer
