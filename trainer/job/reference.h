#pragma once

#include <string>

namespace poseidon::trainer {

/// docs/config.md: every key of job and network files, made from their schemas.
std::string config_reference();

}  // namespace poseidon::trainer
