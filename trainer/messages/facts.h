#pragma once

#include <string>
#include <vector>

#include "comm/wire/messages.h"
#include "trainer/job/job.h"

namespace poseidon::trainer {

/// What must be the same in all processes of a job.
std::string build_identity();

/// What must be the same on all workers once data are open.
std::vector<comm::Fact> facts_of(const Job& job, const PreparedData& train,
                                 const PreparedData& test);
/// The value of a fact, "" when there is none.
std::string fact(const std::vector<comm::Fact>& facts, const std::string& name);
/// The number of training samples among them. Throws ConfigError where it is none.
int64_t training_samples(const std::vector<comm::Fact>& facts);

}  // namespace poseidon::trainer
