#pragma once

#include "core/json.h"
#include "net/net.h"
#include "trainer/job/job.h"

namespace poseidon::trainer {

/// Writes and reads choices, the layout and algorithms of each layer, as JSON: {"conv1": {"layout":
/// "blocked16", ...}}. read_choices() throws ConfigError, also for a layer that is not in the
/// network.
Json choices_json(const net::Choices& choices);
net::Choices read_choices(const Json& json, const JsonPath& place, const net::Network& network);

/// The implementations of a layer's passes: {"forward": "Poseidon product", ...}. A pass that the
/// layer does not have is left out.
Json implementations_json(const layers::Implementations& implementations);
/// The implementations of all operations of a net: {"conv1": {"forward": ...}, ...}.
Json implementations_json(net::Net& net);

/// Reads the file that the job's device.choices names: output of --tune, or a plan.json. Returns no
/// choices if the job names no file.
net::Choices choices_of(const Job& job);

}  // namespace poseidon::trainer
