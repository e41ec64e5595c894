#pragma once

#include <memory>

#include "layers/update.h"

namespace poseidon::layers::cpu {

/// The optimizer arithmetic of the CPU, on the calling thread's OpenMP team.
std::unique_ptr<Updater> make_cpu_updater();

}  // namespace poseidon::layers::cpu
