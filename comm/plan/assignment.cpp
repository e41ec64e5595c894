#include "comm/plan/assignment.h"

#include <algorithm>
#include <map>

#include "comm/plan/shard_parts.h"
#include "core/error.h"

namespace poseidon::comm {

namespace {

constexpr uint32_t kNobody = UINT32_MAX;

std::vector<uint32_t> workers_of_shards(const std::vector<AssignedWorker>& workers) {
  size_t shards = 0;
  for (const AssignedWorker& worker : workers) shards += worker.shards.count;
  std::vector<uint32_t> worker_of(shards, kNobody);
  for (uint32_t rank = 0; rank < workers.size(); ++rank) {
    const Part own = workers[rank].shards;
    check(own.count >= 1, "each worker holds at least one logical shard");
    for (uint32_t shard = own.first; shard < own.first + own.count; ++shard) {
      check(shard < shards && worker_of[shard] == kNobody, "each logical shard has one worker");
      worker_of[shard] = rank;
    }
  }
  return worker_of;
}

template <class Members>
uint32_t last_host(const Members& members) {
  return std::ranges::max(members, {}, [](const auto& member) { return member.host; }).host;
}

}  // namespace

Assignment::Assignment()
    : Assignment(std::vector{AssignedWorker{.shards = {0, 1}}}, std::vector{AssignedServer{}}) {}

Assignment::Assignment(std::vector<AssignedWorker> workers, std::vector<AssignedServer> servers)
    : workers_(std::move(workers)), servers_(std::move(servers)) {
  check(!workers_.empty() && !servers_.empty(),
        "an assignment needs at least one worker and one server");
  worker_of_shard_ = workers_of_shards(workers_);
  hosts_ = int64_t{1} + std::max(last_host(workers_), last_host(servers_));
}

std::vector<Part> Assignment::ranges() const {
  std::vector<Part> ranges;
  for (const AssignedWorker& worker : workers_) ranges.push_back(worker.shards);
  return ranges;
}

std::vector<Part> Assignment::parts_of(uint32_t worker) const {
  return parts_within(all_shards().count, shards_of(worker));
}

IndexRange Assignment::rows_of(Part shards, int64_t global_batch) const {
  const int64_t all = logical_shards(), last = int64_t{shards.first} + shards.count - 1;
  const int64_t first = even_range(global_batch, all, shards.first).first;
  return {.first = first, .count = even_range(global_batch, all, last).end() - first};
}

uint32_t Assignment::fullest_worker() const {
  const auto fullest = std::ranges::max_element(
      workers_, {}, [](const AssignedWorker& worker) { return worker.shards.count; });
  return static_cast<uint32_t>(fullest - workers_.begin());
}

bool Assignment::servers_apart() const {
  std::vector<bool> has_worker(static_cast<size_t>(hosts_));
  for (const AssignedWorker& worker : workers_) has_worker[worker.host] = true;
  return std::ranges::none_of(
      servers_, [&](const AssignedServer& server) { return has_worker[server.host]; });
}

Assignment assignment_by_counts(std::span<const int64_t> shards_of_worker, int64_t servers,
                                bool servers_apart) {
  std::vector<AssignedWorker> all_workers;
  uint32_t first = 0;
  for (const int64_t count : shards_of_worker) {
    const auto number = static_cast<uint32_t>(all_workers.size());
    const Part own{first, static_cast<uint32_t>(count)};
    all_workers.push_back({.shards = own, .host = number, .member = number});
    first += own.count;
  }
  const auto workers = static_cast<int64_t>(all_workers.size());
  std::vector<AssignedServer> all_servers;
  for (int64_t rank = 0; rank < servers; ++rank)
    all_servers.push_back(
        {.host = static_cast<uint32_t>(servers_apart ? workers + rank : rank % workers),
         .member = static_cast<uint32_t>(rank)});
  return {std::move(all_workers), std::move(all_servers)};
}

Assignment even_assignment(int64_t workers, int64_t servers, bool servers_apart, int64_t shards) {
  std::vector<int64_t> counts;
  for (int64_t rank = 0; rank < workers; ++rank)
    counts.push_back(even_range(shards, workers, rank).count);
  return assignment_by_counts(counts, servers, servers_apart);
}

Assignment with_fresh_ids(const Assignment& earlier) {
  std::vector<AssignedWorker> workers = earlier.workers();
  for (size_t rank = 0; rank < workers.size(); ++rank)
    workers[rank].member = static_cast<uint32_t>(rank);
  std::vector<AssignedServer> servers = earlier.servers();
  for (size_t rank = 0; rank < servers.size(); ++rank)
    servers[rank].member = static_cast<uint32_t>(rank);
  return {std::move(workers), std::move(servers)};
}

namespace {

/// Renumbers hosts without a gap.
class HostNumbers {
 public:
  /// The new number of the host that had the number `before`.
  uint32_t of(uint32_t before) {
    return numbers_.try_emplace(before, count_).second ? count_++ : numbers_.at(before);
  }
  uint32_t another() { return count_++; }

 private:
  std::map<uint32_t, uint32_t> numbers_;
  uint32_t count_ = 0;
};

}  // namespace

Assignment next_assignment(const Assignment& earlier, const NextMembers& members) {
  HostNumbers hosts;
  std::vector<AssignedWorker> workers;
  for (const uint16_t rank : members.workers) {
    workers.push_back(earlier.workers()[rank]);
    workers.back().host = hosts.of(workers.back().host);
  }
  std::vector<AssignedServer> servers;
  for (const uint16_t rank : members.servers) {
    servers.push_back(earlier.servers()[rank]);
    servers.back().host = hosts.of(servers.back().host);
  }
  for (const uint16_t id : members.joined_workers)
    workers.push_back({.shards = {}, .host = hosts.another(), .member = id});
  for (size_t i = 0; i < members.joined_servers.size(); ++i) {
    const bool has_worker = i < members.joined_workers.size() && !earlier.servers_apart();
    const uint32_t host = has_worker ? workers[members.workers.size() + i].host : hosts.another();
    servers.push_back({.host = host, .member = members.joined_servers[i]});
  }
  for (size_t i = 0; i < workers.size(); ++i) {
    const auto own =
        even_range(earlier.logical_shards(), std::ssize(workers), static_cast<int64_t>(i));
    workers[i].shards = {static_cast<uint32_t>(own.first), static_cast<uint32_t>(own.count)};
  }
  return {std::move(workers), std::move(servers)};
}

}  // namespace poseidon::comm
