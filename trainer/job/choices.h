#pragma once

#include "core/json.h"
#include "net/net.h"
#include "trainer/job/job.h"

namespace poseidon::trainer {

/// Choices as JSON, {"conv1": {"layout": "blocked16", ...}}, and back. Throws ConfigError, also for
/// a layer that the network has not.
Json choices_json(const net::Choices& choices);
net::Choices read_choices(const Json& json, const JsonPlace& place, const net::Network& network);

/// The implementations of a layer's passes, {"forward": "Poseidon product", ...}. A pass that the
/// layer does not have has no key.
Json implementations_json(const layers::Implementations& implementations);
/// The same for all operations of a net: {"conv1": {"forward": ...}, ...}.
Json implementations_json(net::Net& net);

/// The choices that the job's device.choices names: a file that --tune wrote, or a plan.json. Empty
/// when it names none.
net::Choices choices_of(const Job& job);

}  // namespace poseidon::trainer
