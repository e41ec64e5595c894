#pragma once

#include <vector>

#include "core/json.h"
#include "core/log.h"
#include "net/net.h"
#include "trainer/job/job.h"

namespace poseidon::trainer {

/// Times every layer of a net in training, on random values. Returns medians over `repeats` steps,
/// after two warm-up steps. Overwrites the net's parameters. If the timing will take more than 5 s,
/// first logs the expected duration.
std::vector<net::Timing> time_on_random_values(const Job& job, net::Net& net, int repeats,
                                               Log& log);

/// Times the forward and backward pass of one shard without waits in between, in milliseconds. Uses
/// the net's current values and input. Returns the median over `repeats` passes after one warm-up.
double time_pass(const Job& job, net::Net& net, int repeats);

/// The value of `repeats` for --time.
inline constexpr int kTimingRepeats = 9;
/// Times each layer, as a worker of the job computes one shard, on random values. Returns medians
/// over `repeats` steps: {"name", "batch", "threads", "devices", "layers": [...], "forward_ms",
/// "backward_ms", "pass_ms", "update_ms", "arena_bytes"}. "pass_ms" is from time_pass(), over 3
/// passes.
Json time_layers(const Job& job, const net::Choices& choices, int repeats, Log& log);

}  // namespace poseidon::trainer
