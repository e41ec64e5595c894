#pragma once

#include <string>

namespace poseidon::trainer {

/// The text of docs/config.md: every key of job and network files, from their schemas.
std::string config_reference();

}  // namespace poseidon::trainer
