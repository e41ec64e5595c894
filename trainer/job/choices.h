#pragma once

#include "core/json.h"
#include "net/net.h"
#include "trainer/job/job.h"

namespace poseidon::trainer {

/// Choices as JSON, {"conv1": {"layout": "blocked16", ...}}, and back. Throws ConfigError, also for
/// a layer that the network has not.
Json choices_json(const net::Choices& choices);
net::Choices read_choices(const Json& json, const JsonPlace& place, const net::Network& network);

/// The choices that the job's device.choices names: a file that --tune wrote, or a plan.json. Empty
/// when it names none.
net::Choices choices_of(const Job& job);

}  // namespace poseidon::trainer
