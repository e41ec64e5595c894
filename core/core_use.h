#pragma once

#include <filesystem>
#include <optional>

/// Measures what uses the cores that this process may run on.
namespace poseidon {

/// The use of the cores over a while, counted in cores.
struct CoreUse {
  double others = 0;  ///< kept busy by other processes and the system
  double idle = 0;
};

class CoreUseMeter {
 public:
  /// `root` is that of the file system.
  explicit CoreUseMeter(std::filesystem::path root = "/");

  /// The use since the last call, or since construction. Nothing if the system does not report it,
  /// or if less time has passed than the hundredth of a second that it counts in.
  std::optional<CoreUse> since_last();

 private:
  /// Seconds since the system's start, summed over the cores; `own` counts from the process's
  /// start.
  struct Times {
    int cores = 0;
    double busy = 0, idle = 0, own = 0;
  };
  Times now() const;

  std::filesystem::path root_;
  Times last_;
};

}  // namespace poseidon
