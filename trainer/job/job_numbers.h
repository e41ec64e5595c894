#pragma once

#include <string>

#include "trainer/job/known_data.h"

namespace poseidon::trainer {

/// "50,000 samples of 10 classes (airplane ... truck), 10,000 for tests; 145,578 parameters are
/// trained, none frozen; 500 steps per epoch". Without what depends on data that are not there.
std::string job_in_numbers(const Job& job, const KnownData& data);

}  // namespace poseidon::trainer
