#include "comm/plan/assignment_json.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "core/error.h"
#include "core/fields.h"

namespace poseidon::comm {

namespace {

constexpr auto kRequired = Presence::kRequired;

void read_number(Fields& fields, const char* key, uint32_t& value, Range range) {
  int64_t wide = value;
  fields.integer(key, wide, range, "", kRequired);
  value = static_cast<uint32_t>(wide);
}

template <class Seat>
void read_seat(Fields& fields, Seat& seat) {
  read_number(fields, "member", seat.member, between(0, std::numeric_limits<uint32_t>::max()));
  read_number(fields, "host", seat.host, between(0, 2 * kMaxProcesses - 1));
}

template <class Seat>
void check_members(const std::vector<Seat>& seats, const JsonPath& place) {
  std::map<uint32_t, size_t> rank_of;
  for (size_t rank = 0; rank < seats.size(); ++rank)
    if (const auto [other, is_new] = rank_of.try_emplace(seats[rank].member, rank); !is_new)
      fail_at(place.at(rank).at("member"),
              text("expected a unique number, got ", seats[rank].member, ", which is also at /",
                   other->second));
}

/// The workers' ranks in order of their first shard.
std::vector<size_t> by_shards(const std::vector<AssignedWorker>& workers) {
  std::vector<size_t> ranks(workers.size());
  std::iota(ranks.begin(), ranks.end(), size_t{0});
  std::ranges::sort(ranks, {}, [&](size_t rank) { return workers[rank].shards.first; });
  return ranks;
}

}  // namespace

void MemberCounts::describe(Fields& fields) {
  fields.integer("workers", workers, between(1, kMaxProcesses), "", kRequired);
  fields.integer("servers", servers, between(1, kMaxProcesses), "", kRequired);
  fields.integer("logical_shards", logical_shards, between(1, kMaxShards), "", kRequired);
  fields.boolean("servers_apart", servers_apart, "");
}

void AssignmentReader::describe(Fields& fields) {
  const auto describe_worker = [&](Fields& f, size_t i) {
    read_seat(f, workers_[i]);
    read_number(f, "first_shard", workers_[i].shards.first, between(0, kMaxShards));
    read_number(f, "shards", workers_[i].shards.count, between(1, kMaxShards));
  };
  const auto describe_all = [&](Fields& f) {
    f.objects(
        "workers", 0, [&](size_t size) { workers_.resize(size); }, describe_worker, "", kRequired);
    f.objects(
        "servers", 0, [&](size_t size) { servers_.resize(size); },
        [&](Fields& of_one, size_t i) { read_seat(of_one, servers_[i]); }, "", kRequired);
  };
  fields.object("assignment", describe_all, "", Presence::kOptional, &present_);
}

Assignment AssignmentReader::make(const MemberCounts& counts, const JsonPath& place) const {
  if (counts.logical_shards < counts.workers)
    fail_at(place.at("logical_shards"), text("expected at least \"workers\" (", counts.workers,
                                             "), got ", counts.logical_shards));
  if (!present_)
    return even_assignment(counts.workers, counts.servers, counts.servers_apart,
                           counts.logical_shards);
  const JsonPath own = place.at("assignment");
  check_counts(counts, place);
  check_shards(counts, place);
  check_members(workers_, own.at("workers"));
  check_members(servers_, own.at("servers"));
  check_hosts(own);
  Assignment assignment(workers_, servers_);
  if (assignment.servers_apart() != counts.servers_apart)
    fail_at(place.at("servers_apart"),
            text("expected ", assignment.servers_apart() ? "true" : "false",
                 ", which the hosts in \"assignment\" imply, got ",
                 counts.servers_apart ? "true" : "false"));
  return assignment;
}

void AssignmentReader::check_counts(const MemberCounts& counts, const JsonPath& place) const {
  const auto same = [&](const char* key, int64_t got, size_t assigned) {
    if (got != static_cast<int64_t>(assigned))
      fail_at(place.at(key),
              text("expected ", assigned, ", the number in \"assignment\", got ", got));
  };
  same("workers", counts.workers, workers_.size());
  same("servers", counts.servers, servers_.size());
}

void AssignmentReader::check_shards(const MemberCounts& counts, const JsonPath& place) const {
  int64_t next = 0;
  for (const size_t rank : by_shards(workers_)) {
    const Part own = workers_[rank].shards;
    if (own.first != next)
      fail_at(place.at("assignment").at("workers").at(rank).at("first_shard"),
              text("expected ", next, ", because each logical shard has exactly one worker, got ",
                   own.first));
    next += own.count;
  }
  if (next != counts.logical_shards)
    fail_at(place.at("logical_shards"),
            text("expected ", next, ", the sum over the workers in \"assignment\", got ",
                 counts.logical_shards));
}

void AssignmentReader::check_hosts(const JsonPath& place) const {
  std::vector<uint32_t> hosts;
  for (const AssignedWorker& worker : workers_) hosts.push_back(worker.host);
  for (const AssignedServer& server : servers_) hosts.push_back(server.host);
  std::ranges::sort(hosts);
  uint32_t next = 0;
  for (const uint32_t host : hosts) {
    if (host > next)
      fail_at(place, text("expected consecutive hosts from 0, but host ", next,
                          " has no node and host ", host, " has one"));
    next = host + 1;
  }
}

Json to_json(const Assignment& assignment) {
  Json workers = Json::array(), servers = Json::array();
  for (const AssignedWorker& worker : assignment.workers())
    workers.push_back({{"member", worker.member},
                       {"host", worker.host},
                       {"first_shard", worker.shards.first},
                       {"shards", worker.shards.count}});
  for (const AssignedServer& server : assignment.servers())
    servers.push_back({{"member", server.member}, {"host", server.host}});
  return {{"workers", std::move(workers)}, {"servers", std::move(servers)}};
}

}  // namespace poseidon::comm
