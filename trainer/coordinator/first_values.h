#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "comm/wire/transport.h"
#include "core/json.h"
#include "core/log.h"
#include "trainer/state/checkpoint.h"

namespace poseidon::trainer {

/// A tensor's values, by its place in a tensor_list().
struct PlacedTensor {
  uint32_t place = 0;
  comm::Payload values;
};

/// The values that workers do not make themselves from the seed: those of a checkpoint, or of a
/// weights file for the tensors that it has. `list` as tensor_list() made it; `resumed` may be
/// null, `weights` empty. Throws ConfigError, RunError.
std::vector<PlacedTensor> first_values(const Json& list, const Checkpoint* resumed,
                                       const std::filesystem::path& weights, Log& log);

}  // namespace poseidon::trainer
