#include "core/cpu_usage.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>
#include <string>

namespace poseidon {

namespace {

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

double own_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
}

/// The core's number: 3 for "cpu3"; -1 for other words.
int core_of(const std::string& word) {
  int core = -1;
  if (word.starts_with("cpu")) std::from_chars(word.data() + 3, word.data() + word.size(), core);
  return core;
}

}  // namespace

CpuUsageMeter::CpuUsageMeter(std::filesystem::path root) : root_(std::move(root)), last_(now()) {}

/// Reads lines of /proc/stat: "cpu3 user nice system idle iowait irq softirq steal ...", in ticks.
/// Steal time is not counted: other virtual machines use this time, and no process of this machine
/// can reduce it.
CpuUsageMeter::Times CpuUsageMeter::now() const {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  sched_getaffinity(0, sizeof allowed, &allowed);
  Times times{.own = own_seconds()};
  std::ifstream stat(root_ / "proc/stat");
  const auto ticks_per_second = static_cast<double>(sysconf(_SC_CLK_TCK));
  for (std::string line; std::getline(stat, line);) {
    std::istringstream words(line);
    std::string name;
    double user = 0, nice = 0, system = 0, idle = 0, iowait = 0, irq = 0, softirq = 0;
    words >> name >> user >> nice >> system >> idle >> iowait >> irq >> softirq;
    const int core = core_of(name);
    if (!words || core < 0 || core >= CPU_SETSIZE || !CPU_ISSET(core, &allowed)) continue;
    ++times.cores;
    times.busy += (user + nice + system + irq + softirq) / ticks_per_second;
    times.idle += (idle + iowait) / ticks_per_second;
  }
  return times;
}

std::optional<CpuUsage> CpuUsageMeter::since_last() {
  const Times before = last_;
  last_ = now();
  const double busy = last_.busy - before.busy, idle = last_.idle - before.idle;
  if (last_.cores == 0 || last_.cores != before.cores || busy + idle <= 0) return std::nullopt;
  const double elapsed = (busy + idle) / last_.cores;
  const double own = std::min(busy, last_.own - before.own);
  return CpuUsage{.others = (busy - own) / elapsed, .idle = idle / elapsed};
}

}  // namespace poseidon
