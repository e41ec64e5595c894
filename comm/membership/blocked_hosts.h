#pragma once

#include <set>
#include <string>

namespace poseidon::comm {

/// Hosts from which a job admits no further node, because the replica of a worker there has
/// diverged: memory or processor may be broken. Existing members on these hosts stay.
class BlockedHosts {
 public:
  /// The reason for refusing a node on a blocked host.
  static constexpr const char* kWhy =
      "a worker on the node's host diverged from the other workers; this job admits no further "
      "node from that host";

  /// `address`: "host:port" of the worker.
  void add(const std::string& address);
  bool contains(const std::string& address) const;

 private:
  std::set<std::string> hosts_;
};

}  // namespace poseidon::comm
