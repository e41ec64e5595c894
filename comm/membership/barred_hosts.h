#pragma once

#include <set>
#include <string>

namespace poseidon::comm {

/// Hosts of which a job admits no further node, since a worker there has drifted: memory or
/// processor may be broken. Nodes there that are members stay.
class BarredHosts {
 public:
  /// Why such a node is refused.
  static constexpr const char* kWhy =
      "a worker on its host has drifted from the others; this job admits no node of that host "
      "again";

  /// `address`: "host:port" of the worker.
  void add(const std::string& address);
  bool contains(const std::string& address) const;

 private:
  std::set<std::string> hosts_;
};

}  // namespace poseidon::comm
