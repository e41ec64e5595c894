#include "core/memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <limits>

#include "core/control_groups.h"

namespace poseidon {

namespace fs = std::filesystem;

namespace {

constexpr size_t kUnlimited = std::numeric_limits<size_t>::max();

size_t minus(size_t a, size_t b) { return a > b ? a - b : 0; }

/// The number in a file; `otherwise` if the file does not exist or has no number ("max").
size_t number_in(const fs::path& file, size_t otherwise) {
  size_t number = 0;
  return std::ifstream(file) >> number ? number : otherwise;
}

/// The number after `name` in a file of names and numbers; `otherwise` if `name` is missing.
size_t number_named(const fs::path& file, const std::string& name, size_t otherwise) {
  std::ifstream lines(file);
  size_t number = 0;
  for (std::string word; lines >> word;)
    if (word == name && lines >> number) return number;
  return otherwise;
}

/// Bytes in file caches of the group and its children. The system frees these caches when a process
/// needs memory.
size_t caches_of(const ControlGroup& group) {
  const std::string prefix = group.version == 2 ? "" : "total_";
  size_t bytes = 0;
  for (const char* name : {"inactive_file", "active_file"})
    bytes += number_named(group.folder / "memory.stat", prefix + name, 0);
  return bytes;
}

size_t left_of(const ControlGroup& group) {
  const bool unified = group.version == 2;
  const size_t limit =
      number_in(group.folder / (unified ? "memory.max" : "memory.limit_in_bytes"), kUnlimited);
  if (limit == kUnlimited) return kUnlimited;
  const size_t used =
      number_in(group.folder / (unified ? "memory.current" : "memory.usage_in_bytes"), 0);
  return minus(limit, minus(used, caches_of(group)));
}

/// Value number `place` of /proc/self/statm, in bytes. 0: address space in use; 1: resident memory.
size_t own_bytes(int place) {
  std::ifstream numbers("/proc/self/statm");
  size_t pages = 0;
  for (int i = 0; i <= place; ++i)
    if (!(numbers >> pages)) return 0;
  return pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

size_t addresses_left() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kUnlimited;
  return minus(limit.rlim_cur, own_bytes(0));
}

}  // namespace

size_t resident_memory() { return own_bytes(1); }

size_t available_memory(const fs::path& root) {
  const size_t kilobytes = number_named(root / "proc/meminfo", "MemAvailable:", kUnlimited);
  size_t least = kilobytes == kUnlimited ? kUnlimited : kilobytes * 1024;
  for (const ControlGroup& group : control_groups(root, "memory"))
    least = std::min(least, left_of(group));
  return std::min(least, addresses_left());
}

std::string bytes_text(size_t bytes) {
  constexpr std::array kUnits{"kB", "MB", "GB", "TB", "PB"};
  if (bytes < 1000) return std::to_string(bytes) + " bytes";
  double number = static_cast<double>(bytes) / 1000;
  size_t unit = 0;
  // A number that would print as 1000.0 uses the next unit.
  for (; number >= 999.95 && unit + 1 < kUnits.size(); ++unit) number /= 1000;
  std::array<char, 32> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%.1f %s", number, kUnits[unit]);
  return buffer.data();
}

}  // namespace poseidon
