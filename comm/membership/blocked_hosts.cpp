#include "comm/membership/blocked_hosts.h"

#include "comm/wire/address.h"
#include "comm/wire/mutation.h"

namespace poseidon::comm {

void BlockedHosts::add(const std::string& address) { hosts_.insert(host_of(address)); }

bool BlockedHosts::contains(const std::string& address) const {
  return !mutated(Mutation::kDriftedReturns) && hosts_.contains(host_of(address));
}

}  // namespace poseidon::comm
