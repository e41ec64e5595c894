#pragma once

#include <vector>

#include "core/json.h"
#include "core/log.h"
#include "net/net.h"
#include "trainer/job/job.h"

namespace poseidon::trainer {

/// Times every layer of a net in training on random values (medians over `repeats` steps, after two
/// that do not count). Overwrites the net's parameters.
/// Says how long that takes if it takes long.
std::vector<net::Timing> time_on_random_values(const Job& job, net::Net& net, int repeats,
                                               Log& log);

/// Times a shard's forward and backward pass in one go, milliseconds, on the values and the input
/// that the net has (the median over `repeats`, after one that does not count).
double time_pass(const Job& job, net::Net& net, int repeats);

/// Times each layer on random values, the median of `repeats`: {"layers": [...], "forward_ms",
/// "backward_ms", "pass_ms", "update_ms"}: as one worker of the job does them with one shard.
inline constexpr int kTimingRepeats = 9;
Json time_layers(const Job& job, const net::Choices& choices, int repeats, Log& log);

}  // namespace poseidon::trainer
