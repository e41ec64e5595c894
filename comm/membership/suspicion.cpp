#include "comm/membership/suspicion.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "core/error.h"

namespace poseidon::comm {

namespace {

using Nodes = std::set<NodeId>;
using Neighbours = std::map<NodeId, Nodes>;

/// Sets that are looked at. Small jobs have fewer; of others the first is found by taking whoever
/// most reports are about, which is the smallest where one node, or a few, are cut off.
constexpr int kMostSets = 1000;

/// Searches the sets of nodes that have a part in every report: for a node that is not decided on
/// yet, either it is in the set, or all that have a report in common with it are.
class Search {
 public:
  using Better = std::function<bool(const Nodes&, const Nodes&)>;

  explicit Search(Better better) : better_(std::move(better)) {}

  void go(const Neighbours& left, const Nodes& chosen) {
    const auto most = std::ranges::max_element(
        left, [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
    if (most == left.end()) return take(chosen);
    if (sets_ >= kMostSets) return;
    go_with({most->first}, left, chosen);
    go_with(most->second, left, chosen);
  }
  const Nodes& best() const { return best_; }

 private:
  void go_with(const Nodes& more, Neighbours left, Nodes chosen) {
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
std::string names_of(const Nodes& nodes) {
  const std::string first = name_of(*nodes.begin());
  if (nodes.size() == 1) return first;
  if (nodes.size() == 2) return first + " and " + name_of(*nodes.rbegin());
  return text(first, " and ", nodes.size() - 1, " others");
}

}  // namespace

void Suspicion::add(NodeId by, const Loss& loss) {
  const auto known = std::ranges::find_if(reports_, [&](const Report& report) {
    return report.by == by && report.loss.who == loss.who;
  });
  if (known == reports_.end()) reports_.push_back({by, loss});
}

std::string Suspicion::awaited_from(NodeId node) const {
  for (const Report& report : reports_)
    if (report.loss.who == node && !report.loss.awaited.empty()) return report.loss.awaited;
  return "";
}

std::vector<NodeId> Suspicion::smallest_explanation(const CanGoOn& can_go_on) const {
  Neighbours neighbours;
  for (const Report& report : reports_) {
    neighbours[report.by].insert(report.loss.who);
    neighbours[report.loss.who].insert(report.by);
  }
  const auto rank = [&](const Nodes& nodes) {
    const auto are_reported = std::ranges::count_if(
        reports_, [&](const Report& report) { return nodes.contains(report.loss.who); });
    const auto workers = std::ranges::count(nodes, Role::kWorker, &NodeId::role);
    return std::tuple(!can_go_on({nodes.begin(), nodes.end()}), nodes.size(), -are_reported,
                      workers);
  };
  Search search([&](const Nodes& one, const Nodes& other) {
    const auto of_one = rank(one), of_other = rank(other);
    return of_one != of_other ? of_one < of_other : one > other;
  });
  search.go(neighbours, {});
  return {search.best().begin(), search.best().end()};
}

Loss Suspicion::loss_of(NodeId node) const {
  const Report* report = nullptr;  // the first of this node, or else by it
  Nodes others;
  for (const Report& each : reports_) {
    if (!each.is_of(node)) continue;
    if (report == nullptr || (each.loss.who == node && report->by == node)) report = &each;
    others.insert(each.by == node ? each.loss.who : each.by);
  }
  Loss loss = report->loss;
  loss.who = node;
  loss.why =
      text("it and ", names_of(others), " have no connection, though the coordinator reaches ",
           others.size() == 1 ? "both: " : "all: ", loss.why);
  loss.awaited = awaited_from(node);
  return loss;
}

}  // namespace poseidon::comm
