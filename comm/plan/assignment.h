#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "comm/wire/wire.h"
#include "core/even_parts.h"

/// The assignment of logical shards to workers, and of members to hosts. It is a part of the plan,
/// and fixed within a view. A rank is an index into workers() or servers().
namespace poseidon::comm {

/// Limit on the number of workers, and on the number of servers, of a job.
inline constexpr int64_t kMaxProcesses = 4096;
inline constexpr int64_t kMaxShards = int64_t{1} << 20;

struct AssignedWorker {
  Part shards;          ///< its logical shards, at least one
  uint32_t host = 0;    ///< number of its host; bytes that stay on a host are no traffic
  uint32_t member = 0;  ///< an id that stays the same when the rank changes
  bool operator==(const AssignedWorker&) const = default;
};

struct AssignedServer {
  uint32_t host = 0;
  uint32_t member = 0;
  bool operator==(const AssignedServer&) const = default;
};

class Assignment {
 public:
  /// Makes the assignment of one worker with one shard, and of one server on the same host.
  Assignment();
  /// The workers' ranges, in any order, must cover each shard from 0 on exactly once. Hosts are
  /// numbered from 0 without a gap.
  Assignment(std::vector<AssignedWorker> workers, std::vector<AssignedServer> servers);

  const std::vector<AssignedWorker>& workers() const { return workers_; }
  const std::vector<AssignedServer>& servers() const { return servers_; }
  int64_t logical_shards() const { return static_cast<int64_t>(worker_of_shard_.size()); }
  int64_t hosts() const { return hosts_; }

  Part shards_of(uint32_t worker) const { return workers_[worker].shards; }
  /// The shards of every worker, by rank.
  std::vector<Part> ranges() const;
  uint32_t worker_of(uint32_t shard) const { return worker_of_shard_[shard]; }
  /// The parts that a worker sums: the largest nodes of the fixed tree within its shards.
  std::vector<Part> parts_of(uint32_t worker) const;
  /// The samples of `shards`, as indices in a global batch of `global_batch` samples.
  IndexRange rows_of(Part shards, int64_t global_batch) const;
  /// All shards: the root of the fixed tree.
  Part all_shards() const { return {0, static_cast<uint32_t>(worker_of_shard_.size())}; }
  /// The first of the workers with the most shards.
  uint32_t fullest_worker() const;

  bool shares_host(uint32_t worker, uint32_t server) const {
    return workers_[worker].host == servers_[server].host;
  }
  bool workers_share_host(uint32_t one, uint32_t other) const {
    return workers_[one].host == workers_[other].host;
  }
  /// Whether no server shares a host with a worker.
  bool servers_apart() const;

  bool operator==(const Assignment& other) const {
    return workers_ == other.workers_ && servers_ == other.servers_;
  }

 private:
  std::vector<AssignedWorker> workers_;
  std::vector<AssignedServer> servers_;
  std::vector<uint32_t> worker_of_shard_;
  int64_t hosts_ = 0;
};

/// Assigns shards_of_worker[i] shards to worker i, as consecutive ranges. Each worker has a
/// separate host. Server s shares the host of worker s mod workers, or has a separate host if
/// `servers_apart`.
Assignment assignment_by_counts(std::span<const int64_t> shards_of_worker, int64_t servers,
                                bool servers_apart);

/// Assigns the same number of shards to each worker; the first workers get one more if the division
/// has a remainder.
Assignment even_assignment(int64_t workers, int64_t servers, bool servers_apart, int64_t shards);

/// The assignment `earlier` for a new job: each member's id is its rank.
Assignment with_fresh_ids(const Assignment& earlier);

/// The members of the next view. Earlier members are listed by their ranks in the earlier view, in
/// order. Joiners are listed by their ids.
struct NextMembers {
  std::vector<uint16_t> workers, servers;
  std::vector<uint16_t> joined_workers, joined_servers;
};

/// The assignment of the view that follows `earlier`: ranks count from 0, and all shards are
/// divided evenly. Members keep their ids and hosts. A joiner has a separate host. A joining server
/// shares the host of the worker that joins with it, unless servers have separate hosts.
Assignment next_assignment(const Assignment& earlier, const NextMembers& members);

}  // namespace poseidon::comm
