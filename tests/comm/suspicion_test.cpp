#include "comm/membership/suspicion.h"

#include <doctest/doctest.h>

using namespace poseidon::comm;

namespace {

using Nodes = std::vector<NodeId>;

constexpr NodeId worker(uint16_t rank) { return {Role::kWorker, rank}; }
constexpr NodeId server(uint16_t rank) { return {Role::kServer, rank}; }

Loss loss_of(NodeId who, const std::string& why, int64_t step = 0,
             const std::string& awaited = "") {
  return {.who = who, .address = "", .why = why, .step = step, .awaited = awaited};
}

/// Who has lost whom.
Suspicion reports(const std::vector<std::pair<NodeId, NodeId>>& all) {
  Suspicion suspicion;
  for (const auto& [by, who] : all) suspicion.add(by, loss_of(who, "silence"));
  return suspicion;
}

Nodes explanation(const std::vector<std::pair<NodeId, NodeId>>& all) {
  return reports(all).smallest_explanation([](const Nodes&) { return true; });
}

}  // namespace

TEST_CASE("one of two that are cut off from each other goes, by a fixed rule") {
  // The server of a worker and a server; of two workers the later one.
  for (const auto& [a, b, gone] : {std::tuple(worker(0), server(1), server(1)),
                                   {worker(2), worker(1), worker(2)},
                                   {worker(0), worker(1), worker(1)}}) {
    CHECK(explanation({{a, b}, {b, a}}) == Nodes{gone});
    CHECK(explanation({{b, a}, {a, b}}) == Nodes{gone});
  }
}

TEST_CASE("who is not heard goes, not who does not hear it") {
  CHECK(explanation({{worker(1), worker(0)}}) == Nodes{worker(0)});
  CHECK(explanation({{server(0), worker(0)}}) == Nodes{worker(0)});
}

TEST_CASE("who is cut off from several goes alone, whoever reports it") {
  CHECK(explanation({{worker(0), server(0)}, {worker(0), server(1)}, {worker(0), worker(1)}}) ==
        Nodes{worker(0)});
  CHECK(explanation({{server(0), worker(1)}, {worker(1), server(1)}, {worker(2), worker(1)}}) ==
        Nodes{worker(1)});
}

TEST_CASE("the smallest set is found also where the one with the most reports is not in it") {
  // Worker 0 has three reports, but each of the other three has one that it has no part in.
  CHECK(explanation({{worker(1), worker(0)},
                     {worker(2), worker(0)},
                     {worker(3), worker(0)},
                     {server(1), worker(1)},
                     {server(2), worker(2)},
                     {server(3), worker(3)}}) == Nodes{worker(1), worker(2), worker(3)});
}

TEST_CASE("of the sets that explain all one is taken without which the job can go on") {
  const Suspicion suspicion = reports({{worker(0), server(0)}, {worker(1), server(0)}});
  const auto needs_its_server = [](const Nodes& nodes) {
    return std::ranges::find(nodes, server(0)) == nodes.end();
  };
  CHECK(suspicion.smallest_explanation(needs_its_server) == Nodes{worker(0), worker(1)});
  CHECK(suspicion.smallest_explanation([](const Nodes&) { return false; }) == Nodes{server(0)});
}

TEST_CASE("many that have all lost each other are explained in time") {
  std::vector<std::pair<NodeId, NodeId>> all;
  for (uint16_t by = 0; by < 40; ++by)
    for (uint16_t who = 0; who < 40; ++who)
      if (by != who) all.emplace_back(worker(by), worker(who));
  CHECK(explanation(all).size() == 39);
}

TEST_CASE("the loss of who explains reports says with whom it has no connection, and why") {
  Suspicion suspicion;
  suspicion.add(worker(2), loss_of(worker(0), "closed"));
  suspicion.add(worker(0), loss_of(worker(2), "silence", 3, "a sum"));
  const Loss loss = suspicion.loss_of(worker(2));
  CHECK(loss.message() ==
        "worker 2 was lost in step 3: it and worker 0 have no connection, though the coordinator "
        "reaches both: silence; a sum");
  suspicion.add(worker(1), loss_of(worker(2), "silence"));
  suspicion.add(server(1), loss_of(worker(2), "silence"));
  CHECK(suspicion.loss_of(worker(2)).why ==
        "it and worker 0 and 2 others have no connection, though the coordinator reaches all: "
        "silence");
}
