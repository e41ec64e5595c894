#include "comm/membership/suspicion.h"

#include <doctest/doctest.h>

#include "core/error.h"

using namespace poseidon;
using namespace poseidon::comm;

namespace {

using Nodes = std::vector<NodeId>;

constexpr NodeId worker(uint16_t rank) { return {Role::kWorker, rank}; }
constexpr NodeId server(uint16_t rank) { return {Role::kServer, rank}; }

NodeFailure failure_of(NodeId who, const std::string& why, int64_t step = 0,
                       const std::string& awaited = "") {
  return {.who = who, .address = "", .why = why, .step = step, .awaited = awaited};
}

/// Each pair: the reporting node, and the node that it reports as failed.
Suspicion reports(const std::vector<std::pair<NodeId, NodeId>>& all) {
  Suspicion suspicion;
  for (const auto& [by, who] : all) suspicion.add(by, failure_of(who, "silence"));
  return suspicion;
}

Nodes explanation(const std::vector<std::pair<NodeId, NodeId>>& all) {
  return reports(all).minimal_failed_set([](const Nodes&) { return true; });
}

}  // namespace

TEST_CASE("of two nodes that report each other, a fixed rule removes one") {
  // Of a worker and a server, the server is removed. Of two workers, the one with the higher rank
  // is removed.
  for (const auto& [a, b, gone] : {std::tuple(worker(0), server(1), server(1)),
                                   {worker(2), worker(1), worker(2)},
                                   {worker(0), worker(1), worker(1)}}) {
    CHECK(explanation({{a, b}, {b, a}}) == Nodes{gone});
    CHECK(explanation({{b, a}, {a, b}}) == Nodes{gone});
  }
}

TEST_CASE("the reported node is removed, not the reporting one") {
  CHECK(explanation({{worker(1), worker(0)}}) == Nodes{worker(0)});
  CHECK(explanation({{server(0), worker(0)}}) == Nodes{worker(0)});
}

TEST_CASE("a node that is cut off from several nodes is removed alone, in either direction") {
  CHECK(explanation({{worker(0), server(0)}, {worker(0), server(1)}, {worker(0), worker(1)}}) ==
        Nodes{worker(0)});
  CHECK(explanation({{server(0), worker(1)}, {worker(1), server(1)}, {worker(2), worker(1)}}) ==
        Nodes{worker(1)});
}

TEST_CASE("the smallest explanation may omit the node with the most reports") {
  // Three nodes report worker 0. But each of the three is in another report without worker 0.
  CHECK(explanation({{worker(1), worker(0)},
                     {worker(2), worker(0)},
                     {worker(3), worker(0)},
                     {server(1), worker(1)},
                     {server(2), worker(2)},
                     {server(3), worker(3)}}) == Nodes{worker(1), worker(2), worker(3)});
}

TEST_CASE("the chosen explanation leaves a set of nodes that can continue the job") {
  const Suspicion suspicion = reports({{worker(0), server(0)}, {worker(1), server(0)}});
  const auto needs_its_server = [](const Nodes& nodes) {
    return std::ranges::find(nodes, server(0)) == nodes.end();
  };
  CHECK(suspicion.minimal_failed_set(needs_its_server) == Nodes{worker(0), worker(1)});
  CHECK(suspicion.minimal_failed_set([](const Nodes&) { return false; }) == Nodes{server(0)});
}

TEST_CASE("reports of 40 nodes that all report each other are resolved quickly") {
  std::vector<std::pair<NodeId, NodeId>> all;
  for (uint16_t by = 0; by < 40; ++by)
    for (uint16_t who = 0; who < 40; ++who)
      if (by != who) all.emplace_back(worker(by), worker(who));
  CHECK(explanation(all).size() == 39);
}

TEST_CASE("the failure message names the peers without a connection, and the reason") {
  Suspicion suspicion;
  suspicion.add(worker(2), failure_of(worker(0), "closed"));
  suspicion.add(worker(0), failure_of(worker(2), "silence", 3, "a sum"));
  const NodeFailure failure = suspicion.failure_of(worker(2));
  CHECK(failure.message() ==
        "worker 2 failed in step 3: it and worker 0 have no connection, although the coordinator "
        "reaches both: silence; a sum");
  suspicion.add(worker(1), failure_of(worker(2), "silence"));
  suspicion.add(server(1), failure_of(worker(2), "silence"));
  CHECK(suspicion.failure_of(worker(2)).why ==
        "it and worker 0 and 2 others have no connection, although the coordinator reaches all: "
        "silence");
}

TEST_CASE("of two reports about one connection, the message quotes the one with a reason") {
  Suspicion suspicion;
  suspicion.add(server(0), failure_of(worker(1), "connection closed by the peer"));
  suspicion.add(worker(1), failure_of(server(0), "the seal of a frame's header is wrong"));
  for (const NodeId node : {worker(1), server(0)})
    CHECK(suspicion.failure_of(node).why.ends_with(": the seal of a frame's header is wrong"));
}

namespace {

NodeFailure unreached(NodeId who, const std::string& address, const std::string& why) {
  return {.kind = NodeFailure::Kind::kUnreached,
          .who = who,
          .address = address,
          .why = why,
          .awaited = ""};
}

}  // namespace

TEST_CASE("a message about unreachable nodes names caller, address, reason and remedy") {
  Suspicion suspicion;
  suspicion.add(worker(1), unreached(server(0), "node2:7002", "connection refused"), "node1:7001");
  CHECK(suspicion.failure_of(server(0)).message() ==
        "worker 1 (node1) cannot reach server 0 at node2:7002: connection refused; open port 7002 "
        "on node2, or set --advertise to an address that node1 can reach");
  suspicion.add(worker(2), unreached(server(0), "node2:7002", "connection refused"), "node3:7001");
  suspicion.add(worker(2), unreached(server(1), "node4:7002", "no answer within 5 s"),
                "node3:7001");
  const std::string why = suspicion.failure_of(server(0)).why;
  CHECK(
      why.starts_with("worker 1 (node1) and worker 2 (node3) cannot reach server 0 at node2:7002: "
                      "connection refused; worker 2 (node3) cannot reach server 1 at "
                      "node4:7002: no answer within 5 s; open port 7002 on node2"));
}

TEST_CASE("a message about many failed connection attempts stays short") {
  Suspicion suspicion;
  for (uint16_t by = 0; by < 20; ++by)
    for (uint16_t who = 0; who < 20; ++who)
      suspicion.add(worker(by), unreached(server(who), text("n", who, ":1"), "connection refused"),
                    text("m", by, ":1"));
  const std::string why = suspicion.failure_of(server(7)).why;
  CAPTURE(why);
  CHECK(
      why.starts_with("worker 0 (m0), worker 1 (m1) and 18 others cannot reach server 7 at n7:1"));
  CHECK(why.find("; further unreachable addresses: 17; open port 1 on n7") != std::string::npos);
  CHECK(why.size() < 600);
}

TEST_CASE("of a joiner and an established member, the joiner is removed") {
  Suspicion suspicion;
  suspicion.add(worker(3), unreached(server(0), "s:1", "connection refused"), "w:1");
  const auto always = [](const Nodes&) { return true; };
  const auto is_established = [](NodeId node) { return node != worker(3); };
  CHECK(suspicion.minimal_failed_set(always, is_established) == Nodes{worker(3)});
  CHECK(suspicion.minimal_failed_set(always) == Nodes{server(0)});
}
