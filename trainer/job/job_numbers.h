#pragma once

#include <string>

#include "trainer/job/known_data.h"

namespace poseidon::trainer {

/// Summary of the size of a job: "50,000 samples of 10 classes (airplane ... truck), 10,000 for
/// tests; 145,578 parameters are trained, none frozen; 500 steps per epoch". Leaves out numbers
/// that depend on missing data.
std::string job_in_numbers(const Job& job, const KnownData& data);

}  // namespace poseidon::trainer
