#include "comm/wire/reachability.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "comm/asio/refusal_log.h"
#include "comm/membership/join_backoff.h"
#include "core/error.h"
#include "tests/support/warning_log.h"

using namespace poseidon;
using namespace poseidon::comm;
using namespace std::chrono_literals;

TEST_CASE("each reason for an unreachable node has a remedy") {
  CHECK(remedy_of("no answer within 5 s", "[fe80::1]:7002", "node1") ==
        "open port 7002 on [fe80::1], or set --advertise to an address that node1 can reach");
  CHECK(remedy_of(text(kUnknownName, ": host not found"), "node2:7002", "node1") ==
        "make node2 known to node1 (DNS or /etc/hosts), or set --advertise to an address that "
        "node1 can reach");
  CHECK(remedy_of(text(kLoopbackName, " (127.0.1.1): connection refused"), "node2:7002", "node1") ==
        "correct node2 in /etc/hosts of node1, or set --advertise to an address that node1 can "
        "reach");
  CHECK(remedy_of("connection refused", "127.0.0.1:7002", "node1")
            .starts_with("127.0.0.1 is loopback, which other machines cannot reach: start that "
                         "node with --listen 0.0.0.0:PORT"));
  CHECK(remedy_of("connection refused", "[::1]:7002", "node1")
            .starts_with("[::1] is loopback, which other machines cannot reach: start that node "
                         "with --listen [::]:PORT"));
  CHECK(remedy_of("refused by the peer: server 0 was called, this is server 1", "node2:7002",
                  "n") == "set a different --advertise on each node");
  CHECK(remedy_of(kOnlySmallMessages, "node2:7002", "node1").starts_with("set the same MTU"));
  for (const char* answer :
       {"refused by the peer: worker 1 has another view",
        "the two ends have different secrets: use the same secret file on both",
        "this node rejects the peer's TLS certificate: it has expired"})
    CHECK(remedy_of(answer, "127.0.0.1:7002", "node1") == "");
}

TEST_CASE("a node that cannot reach the coordinator prints a hint about the firewall and port") {
  CHECK(question_about("connection refused", "head:7000") ==
        " (is it running there, and does the firewall allow port 7000?)");
  CHECK(question_about("no answer within 5 s", "head:7000") ==
        " (does the firewall allow port 7000?)");
  CHECK(question_about("connection closed by the peer", "head:7000") == "");
}

TEST_CASE("equal refusals of one host are logged as one line with a count, at growing intervals") {
  WarningLog log;
  RefusalLog refusals(log);
  std::vector<int> told;
  for (int second = 0; second < 1000; ++second) {
    const size_t before = log.lines().size();
    refusals.report(text("10.0.0.2:", 40000 + second), "no secret", std::chrono::seconds(second));
    if (log.lines().size() > before) told.push_back(second);
  }
  CHECK(told == std::vector<int>{0, 10, 30, 70, 150, 310, 630});
  CHECK(log.lines().find("refused a connection from 10.0.0.2:40010: no secret (10 times since "
                         "the last such message)") != std::string::npos);
}

TEST_CASE("refusals of many hosts and reasons are logged at most once per second") {
  WarningLog log;
  RefusalLog refusals(log);
  for (int i = 0; i < 5000; ++i)
    refusals.report(text("10.0.0.", i, ":1"), text("reason ", i), i * 10ms);
  const std::string lines = log.lines();
  CHECK(std::ranges::count(lines, '\n') <= 51);
}

TEST_CASE("a host waits longer after each failed join, until a join succeeds") {
  JoinBackoff failed;
  CHECK(failed.objection("node1", 0s) == "");
  CHECK(failed.note("node1", "port 7002 is closed", 0s, 10s) == 1);
  CHECK(failed.objection("node1", 9s) ==
        "a node of this host failed before its first step: port 7002 is closed; this host may join "
        "again later");
  CHECK(failed.objection("node1", 10s) == "");
  CHECK(failed.note("node1", "again", 10s, 10s) == 2);
  CHECK(failed.objection("node1", 29s).find(", 2 times in a row: again") != std::string::npos);
  CHECK(failed.objection("node1", 30s) == "");
  CHECK(failed.objection("node2", 29s) == "");
  failed.forget("node1");
  CHECK(failed.objection("node1", 29s) == "");
  for (int i = 0; i < 40; ++i) failed.note("node3", "why", 0s, 10s);
  CHECK(failed.objection("node3", 61min) == "");
  for (int i = 0; i < 1000; ++i) failed.note(text("host", i), "why", 1s, 10s);
  CHECK(failed.objection("host999", 2s) != "");
}
