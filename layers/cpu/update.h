#pragma once

#include <memory>

#include "core/cpu/thread_team.h"
#include "layers/update.h"

namespace poseidon::layers::cpu {

/// The optimizer arithmetic of the CPU, on the threads of `team`.
std::unique_ptr<Updater> make_cpu_updater(poseidon::cpu::ThreadTeam& team);

}  // namespace poseidon::layers::cpu
