#include "apps/team_waits.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace poseidon::apps {

namespace {

/// The general setting, and those of the two libraries: GCC's, in rounds of its loop, and LLVM's.
constexpr const char* kWaitPolicy = "OMP_WAIT_POLICY";
constexpr const char* kSpinRounds = "GOMP_SPINCOUNT";
constexpr const char* kBlockTime = "KMP_BLOCKTIME";

/// Some 20 microseconds: what passes on an idle machine between two parallel regions of a step.
constexpr const char* kShortSpin = "1000";

}  // namespace

void wait_without_spinning(char** arguments) {
  for (const char* variable : {kWaitPolicy, kSpinRounds, kBlockTime})
    if (std::getenv(variable) != nullptr) return;
  // By its own path, which names the process; /proc/self/exe would be called "exe".
  std::error_code failure;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", failure);
  if (failure) return;
  ::setenv(kSpinRounds, kShortSpin, 1);
  ::setenv(kBlockTime, "0", 1);
  ::execv(self.c_str(), arguments);
}

}  // namespace poseidon::apps
