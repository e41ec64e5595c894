#include "comm/membership/member_table.h"

#include <algorithm>

#include "comm/wire/address.h"

namespace poseidon::comm {

MemberRecord* MemberTable::find(ConnectionId connection) {
  for (auto& [node, record] : records_)
    if (record.connection == connection) return &record;
  return nullptr;
}

MemberRecord* MemberTable::find(NodeId node) {
  const auto found = records_.find(node);
  return found == records_.end() ? nullptr : &found->second;
}

bool MemberTable::contains(ConnectionId connection) const {
  return std::ranges::any_of(
      records_, [=](const auto& entry) { return entry.second.connection == connection; });
}

size_t MemberTable::count(Role role) const {
  return static_cast<size_t>(
      std::ranges::count(records_, role, [](const auto& entry) { return entry.first.role; }));
}

size_t MemberTable::count_without_values() const {
  return static_cast<size_t>(std::ranges::count_if(records_, [](const auto& entry) {
    return entry.second.is_worker() && !entry.second.has_values;
  }));
}

void MemberTable::renumber() {
  std::map<NodeId, MemberRecord> renumbered;
  std::map<Role, uint16_t> next;
  for (auto& [node, record] : records_) {
    record.node.rank = next[node.role]++;
    renumbered[record.node] = std::move(record);
  }
  records_ = std::move(renumbered);
}

bool MemberTable::all(Role role, bool MemberRecord::*flag) const {
  return std::ranges::all_of(
      records_, [&](const auto& entry) { return entry.first.role != role || entry.second.*flag; });
}

bool MemberTable::all(bool MemberRecord::*flag) const {
  return all(Role::kWorker, flag) && all(Role::kServer, flag);
}

std::vector<RosterEntry> MemberTable::roster() const {
  std::vector<RosterEntry> roster;
  for (const auto& [node, record] : records_)
    roster.push_back({node.role, node.rank, record.address, record.id});
  return roster;
}

std::vector<std::string> MemberTable::worker_hosts() const {
  std::vector<std::string> hosts;
  for (const auto& [node, record] : records_)
    if (record.is_worker()) hosts.push_back(host_of(record.address));
  return hosts;
}

}  // namespace poseidon::comm
