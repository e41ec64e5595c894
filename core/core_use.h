#pragma once

#include <filesystem>
#include <optional>

/// What the cores that this process may run on are used for.
namespace poseidon {

/// In cores, over a while.
struct CoreUse {
  double others = 0;  ///< kept busy by other processes and the system
  double idle = 0;
};

class CoreUseMeter {
 public:
  /// `root`: of the file system.
  explicit CoreUseMeter(std::filesystem::path root = "/");

  /// Since the call before, or since this was made. Nothing where the system does not tell, or no
  /// time that it counts has passed: it counts hundredths of a second.
  std::optional<CoreUse> since_last();

 private:
  /// Seconds since the system's start, over all of the cores; `own` since the process's.
  struct Times {
    int cores = 0;
    double busy = 0, idle = 0, own = 0;
  };
  Times now() const;

  std::filesystem::path root_;
  Times last_;
};

}  // namespace poseidon
