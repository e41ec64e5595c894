#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "comm/wire/node.h"

namespace poseidon::trainer {

/// A line of a hosts file: `[user@]host[:port] [slots=N] [address=A]`.
struct Host {
  std::string user = {};     ///< "": as ssh chooses
  std::string name = {};     ///< for ssh; an IPv6 address without brackets
  uint16_t port = 0;         ///< of its ssh server; 0: as ssh chooses
  int64_t slots = 1;         ///< how many workers it may have
  std::string address = {};  ///< where the other hosts reach it, without brackets
};

/// Reads a hosts file. Throws ConfigError, "FILE:LINE: expected ..., got ...", also for one without
/// a host.
std::vector<Host> read_hosts(const std::filesystem::path& file);
/// The same of its text; `file` is what errors name.
std::vector<Host> parse_hosts(std::string_view text, const std::string& file);

/// How many workers the hosts may have together.
int64_t slots_of(const std::vector<Host>& hosts);

/// Which host each worker of a job runs on, and each server: workers fill the hosts' slots in the
/// order of the file, servers are spread over the workers evenly and run beside them.
class HostDeal {
 public:
  /// There are as many slots as workers, at least.
  HostDeal(std::vector<Host> hosts, int64_t workers, int64_t servers);

  const Host& host_of(comm::NodeId node) const { return hosts_[index_of(node)]; }
  /// How many workers run on that member's host.
  int64_t workers_beside(comm::NodeId node) const { return workers_on_[index_of(node)]; }

 private:
  size_t index_of(comm::NodeId node) const;

  const std::vector<Host> hosts_;
  const int64_t servers_;
  std::vector<size_t> host_of_worker_;  ///< by rank
  std::vector<int64_t> workers_on_;     ///< by host
};

}  // namespace poseidon::trainer
