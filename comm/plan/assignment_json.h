#pragma once

#include <vector>

#include "comm/plan/assignment.h"
#include "core/json.h"

/// The assignment in plan.json (docs/plan.md). Files of earlier versions contain no assignment.
namespace poseidon {
class Fields;
}

namespace poseidon::comm {

/// The values of plan.json about the members, except the assignment.
struct MemberCounts {
  int64_t workers = 1, servers = 1, logical_shards = 1;
  bool servers_apart = false;

  void describe(Fields& fields);
};

/// Reads the key "assignment" of a plan in two steps: describe() reads the values, make() checks
/// them against the counts.
class AssignmentReader {
 public:
  void describe(Fields& fields);
  /// Makes the assignment that was read, or the even one if the file has none. `place` is the JSON
  /// path of the plan. Throws ConfigError if the assignment is invalid or contradicts `counts`.
  Assignment make(const MemberCounts& counts, const JsonPath& place) const;

 private:
  void check_counts(const MemberCounts& counts, const JsonPath& place) const;
  void check_shards(const MemberCounts& counts, const JsonPath& place) const;
  void check_hosts(const JsonPath& place) const;

  bool present_ = false;
  std::vector<AssignedWorker> workers_;
  std::vector<AssignedServer> servers_;
};

Json to_json(const Assignment& assignment);

}  // namespace poseidon::comm
