#include "comm/membership/suspicion.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "comm/wire/address.h"
#include "comm/wire/reachability.h"
#include "core/error.h"

namespace poseidon::comm {

namespace {

using Nodes = std::set<NodeId>;
using PeerGraph = std::map<NodeId, Nodes>;

/// Limit on the number of compared sets; small jobs have fewer. The search first builds a set
/// greedily, from the nodes with the most reports. This set is already the smallest if only one
/// node, or a few nodes, are cut off.
constexpr int kMaxSets = 1000;
/// Limits on the text about nodes that cannot reach each other: callers named for one address, and
/// addresses.
constexpr size_t kMaxNamed = 3, kMaxReportedCalls = 3;

/// Searches the sets of nodes such that each report is by or about a node of the set (vertex
/// covers). For each undecided node there are two cases: the set contains this node, or it contains
/// all nodes that share a report with it.
class Search {
 public:
  using Better = std::function<bool(const Nodes&, const Nodes&)>;

  explicit Search(Better better) : better_(std::move(better)) {}

  void go(const PeerGraph& left, const Nodes& chosen) {
    const auto most = std::ranges::max_element(
        left, [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
    if (most == left.end()) return take(chosen);
    if (sets_ >= kMaxSets) return;
    go_with({most->first}, left, chosen);
    go_with(most->second, left, chosen);
  }
  const Nodes& best() const { return best_; }

 private:
  void go_with(const Nodes& more, PeerGraph left, Nodes chosen) {
    for (const NodeId node : more) {
      chosen.insert(node);
      for (const NodeId other : left[node]) left[other].erase(node);
      left.erase(node);
    }
    std::erase_if(left, [](const auto& entry) { return entry.second.empty(); });
    go(left, chosen);
  }

  void take(const Nodes& chosen) {
    if (sets_++ == 0 || better_(chosen, best_)) best_ = chosen;
  }

  const Better better_;
  Nodes best_;
  int sets_ = 0;
};

/// "worker 1", "worker 1 and server 0", "worker 1 and 4 others".
std::string listed(const Nodes& nodes) {
  const std::string first = name_of(*nodes.begin());
  if (nodes.size() == 1) return first;
  if (nodes.size() == 2) return first + " and " + name_of(*nodes.rbegin());
  return text(first, " and ", nodes.size() - 1, " others");
}

}  // namespace

void Suspicion::add(NodeId by, const NodeFailure& failure, const std::string& address) {
  const auto known = std::ranges::find_if(reports_, [&](const Report& report) {
    return report.by == by && report.failure.who == failure.who;
  });
  if (known == reports_.end()) reports_.push_back({by, address, failure});
}

std::string Suspicion::awaited_from(NodeId node) const {
  for (const Report& report : reports_)
    if (report.failure.who == node && !report.failure.awaited.empty())
      return report.failure.awaited;
  return "";
}

std::vector<NodeId> Suspicion::minimal_failed_set(const CanContinue& can_continue,
                                                  const IsEstablished& is_established) const {
  PeerGraph graph;
  for (const Report& report : reports_) {
    graph[report.by].insert(report.failure.who);
    graph[report.failure.who].insert(report.by);
  }
  const auto rank = [&](const Nodes& nodes) {
    const auto are_reported = std::ranges::count_if(
        reports_, [&](const Report& report) { return nodes.contains(report.failure.who); });
    const auto workers = std::ranges::count(nodes, Role::kWorker, &NodeId::role);
    const auto established =
        is_established ? std::ranges::count_if(nodes, is_established) : int64_t{0};
    return std::tuple(!can_continue({nodes.begin(), nodes.end()}), established, nodes.size(),
                      -are_reported, workers);
  };
  Search search([&](const Nodes& one, const Nodes& other) {
    const auto of_one = rank(one), of_other = rank(other);
    return of_one != of_other ? of_one < of_other : one > other;
  });
  search.go(graph, {});
  return {search.best().begin(), search.best().end()};
}

NodeFailure Suspicion::failure_of(NodeId node, bool is_established) const {
  const Report* report = nullptr;  // the best one by tells_more_of(), else the first
  Nodes others;
  bool unreached = false;
  for (const Report& each : reports_) {
    if (!each.is_of(node)) continue;
    unreached |= each.is_unreached();
    if (report == nullptr || each.tells_more_of(node, *report)) report = &each;
    others.insert(each.by == node ? each.failure.who : each.by);
  }
  NodeFailure failure = report->failure;
  failure.who = node;
  failure.awaited = awaited_from(node);
  if (unreached && !is_established) {
    failure.kind = NodeFailure::Kind::kUnreached;
    failure.why = unreached_text(node);
    return failure;
  }
  failure.kind = NodeFailure::Kind::kPeer;
  failure.why = text(
      "it and ", listed(others), " have no connection, although the coordinator reaches ",
      others.size() == 1 ? "both: " : "all: ", unreached ? "the connection attempt failed: " : "",
      report->failure.why);
  return failure;
}

/// Prefers a report with a reason. The node that finds an invalid frame closes the connection, so
/// its peer reports only a closed connection.
bool Suspicion::Report::tells_more_of(NodeId node, const Report& other) const {
  const auto rank = [node](const Report& report) {
    return std::pair(is_mere_end(report.failure.why), report.by == node);
  };
  return rank(*this) < rank(other);
}

// ---- nodes that have never reached each other

std::string Suspicion::Report::by_name() const {
  return name_of(by) + (by_address.empty() ? "" : text(" (", host_of(by_address), ")"));
}

/// "worker 1 (node1) and worker 2 (node2) cannot reach server 0 at node3:7002: connection refused".
std::string Suspicion::Calls::text() const {
  std::string names;
  const size_t named = callers.size() <= kMaxNamed ? callers.size() : kMaxNamed - 1;
  for (size_t i = 0; i < named; ++i)
    names += (i == 0 ? "" : i + 1 == callers.size() ? " and " : ", ") + callers[i];
  if (named < callers.size()) names += poseidon::text(" and ", callers.size() - named, " others");
  const NodeFailure& failure = first->failure;
  return poseidon::text(names, " cannot reach ", name_of(failure.who),
                        failure.address.empty() ? "" : " at " + failure.address, ": ", failure.why);
}

/// Groups the reports of unreached nodes by called node and reason. Calls by or to the node `of`
/// come first.
std::vector<Suspicion::Calls> Suspicion::failed_calls(NodeId of) const {
  std::vector<Calls> all;
  for (const bool has_part : {true, false})
    for (const Report& report : reports_) {
      if (!report.is_unreached() || report.is_of(of) != has_part) continue;
      const auto same = std::ranges::find_if(all, [&](const Calls& calls) {
        return calls.first->failure.who == report.failure.who &&
               calls.first->failure.why == report.failure.why;
      });
      if (same == all.end())
        all.push_back({&report, {report.by_name()}});
      else
        same->callers.push_back(report.by_name());
    }
  return all;
}

std::string Suspicion::unreached_text(NodeId node) const {
  const std::vector<Calls> all = failed_calls(node);
  const size_t told = std::min(all.size(), kMaxReportedCalls);
  std::string out;
  for (size_t i = 0; i < told; ++i) out += (i == 0 ? "" : "; ") + all[i].text();
  if (told < all.size()) out += text("; further unreachable addresses: ", all.size() - told);
  const Report& first = *all[0].first;
  const std::string remedy =
      remedy_of(first.failure.why, first.failure.address, host_of(first.by_address));
  return text(out, remedy.empty() ? "" : "; ", remedy);
}

}  // namespace poseidon::comm
