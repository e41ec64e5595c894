#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "comm/wire/node.h"

namespace poseidon::trainer {

/// A line of a hosts file: `[user@]host[:port] [slots=N] [address=A]`. Without `address=A`,
/// `address` is `name`.
struct Host {
  std::string user = {};     ///< "": ssh's default
  std::string name = {};     ///< name or address for ssh; IPv6 without brackets
  uint16_t port = 0;         ///< port of the ssh server; 0: ssh's default
  int64_t slots = 1;         ///< maximum number of workers
  std::string address = {};  ///< for connections from other hosts; IPv6 without brackets
};

/// Reads a hosts file. Throws ConfigError with "FILE:LINE: expected ..., got ..." for an invalid
/// line, and with "FILE: ..." if the file lists no host. Also throws the errors of read_file().
std::vector<Host> read_hosts(const std::filesystem::path& file);
/// Parses the text of a hosts file; `file` is its name in errors.
std::vector<Host> parse_hosts(std::string_view text, const std::string& file);

/// Sum of the slots of all hosts.
int64_t slots_of(const std::vector<Host>& hosts);

/// Assigns the workers and servers of a job to hosts. Workers fill the hosts' slots in the order of
/// the file. Each server runs on the host of a worker; the servers are distributed evenly over the
/// workers.
class HostAssignment {
 public:
  /// Requires at least as many slots as workers.
  HostAssignment(std::vector<Host> hosts, int64_t workers, int64_t servers);

  const Host& host_of(comm::NodeId node) const { return hosts_[index_of(node)]; }
  /// Number of workers on the host of `node`.
  int64_t workers_on_host(comm::NodeId node) const { return workers_on_[index_of(node)]; }

 private:
  size_t index_of(comm::NodeId node) const;

  const std::vector<Host> hosts_;
  const int64_t servers_;
  std::vector<size_t> host_of_worker_;  ///< by rank
  std::vector<int64_t> workers_on_;     ///< by host
};

}  // namespace poseidon::trainer
