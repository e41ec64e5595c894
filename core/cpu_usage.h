#pragma once

#include <filesystem>
#include <optional>

/// Measures how busy the cores are that this process may run on.
namespace poseidon {

/// Average use of the cores over an interval, in cores.
struct CpuUsage {
  double others = 0;  ///< used by other processes and by the system
  double idle = 0;
};

class CpuUsageMeter {
 public:
  /// `root` is the folder that contains proc/stat.
  explicit CpuUsageMeter(std::filesystem::path root = "/");

  /// The use since the last call, or since construction. Returns nothing if the system does not
  /// report it, or if the number of allowed cores has changed. Also returns nothing if the interval
  /// is too short: the system counts in hundredths of a second.
  std::optional<CpuUsage> since_last();

 private:
  /// `busy` and `idle`: seconds since system start, summed over the cores that this process may run
  /// on. `own`: seconds of processor time that this process has used since its start.
  struct Times {
    int cores = 0;
    double busy = 0, idle = 0, own = 0;
  };
  Times now() const;

  std::filesystem::path root_;
  Times last_;
};

}  // namespace poseidon
