#pragma once

#include <vector>

#include "net/net.h"
#include "trainer/job.h"

namespace poseidon::trainer {

/// Times every layer of a net in training on random values (medians over `repeats` steps, after two
/// that do not count). Overwrites the net's parameters.
std::vector<net::Net::Timing> time_on_random_values(const Job& job, net::Net& net, int repeats);

}  // namespace poseidon::trainer
