#include "trainer/coordinator/hosts_file.h"

#include <doctest/doctest.h>

#include "core/error.h"
#include "tests/support/error_of.h"

using namespace poseidon;
using namespace poseidon::trainer;

namespace {

std::string refusal(const std::string& lines) {
  return error_of<ConfigError>([&] { parse_hosts(lines, "hosts"); });
}

Host only_host(const std::string& line) {
  const std::vector<Host> hosts = parse_hosts(line, "hosts");
  REQUIRE(hosts.size() == 1);
  return hosts[0];
}

comm::NodeId worker(uint16_t rank) { return {comm::Role::kWorker, rank}; }
comm::NodeId server(uint16_t rank) { return {comm::Role::kServer, rank}; }

}  // namespace

TEST_CASE("a hosts file has a line for each host, with comments and blank lines between") {
  const std::vector<Host> hosts = parse_hosts(
      "# the cluster\n\nnode1\n\t node2:2222  slots=4\t# four of them\r\nann@node3 slots=2 "
      "address=10.0.0.3",
      "hosts");
  REQUIRE(hosts.size() == 3);
  CHECK(hosts[0].user == "");
  CHECK(hosts[0].name == "node1");
  CHECK(hosts[0].port == 0);
  CHECK(hosts[0].slots == 1);
  CHECK(hosts[0].address == "node1");
  CHECK(hosts[1].name == "node2");
  CHECK(hosts[1].port == 2222);
  CHECK(hosts[1].slots == 4);
  CHECK(hosts[2].user == "ann");
  CHECK(hosts[2].name == "node3");
  CHECK(hosts[2].slots == 2);
  CHECK(hosts[2].address == "10.0.0.3");
  CHECK(slots_of(hosts) == 7);
}

TEST_CASE("a byte order mark before a hosts file is skipped") {
  const Host host = only_host("\xEF\xBB\xBFnode1 slots=2\r\n");
  CHECK(host.name == "node1");
  CHECK(host.slots == 2);
}

TEST_CASE("an IPv6 address in a hosts file is written in brackets") {
  const Host host = only_host("ann@[fd00::7]:22 address=[fd01::7]");
  CHECK(host.user == "ann");
  CHECK(host.name == "fd00::7");
  CHECK(host.port == 22);
  CHECK(host.address == "fd01::7");
  CHECK(only_host("[::1]").port == 0);
  CHECK(
      refusal("::1").starts_with("hosts:1: expected [user@]host[:port]; put an IPv6 address in "));
}

TEST_CASE("an error of a hosts file names file and line, what was expected and what was found") {
  CHECK(refusal("node1\nnode2 slots=two\n") ==
        "hosts:2: expected slots=N with N from 1 to 4096, got \"slots=two\"");
  CHECK(refusal("node1 slots=0") ==
        "hosts:1: expected slots=N with N from 1 to 4096, got \"slots=0\"");
  CHECK(refusal("\n# x\nnode1 max_slots=2") ==
        "hosts:3: expected [user@]host[:port] [slots=N] [address=A], got \"max_slots=2\"");
  CHECK(refusal("node1:ssh") ==
        "hosts:1: expected a port from 1 to 65535 after the host, got \"node1:ssh\"");
  CHECK(refusal("node1:0").ends_with("got \"node1:0\""));
  CHECK(refusal("node1 address=") ==
        "hosts:1: expected address=A with A a host name or an IP address, got \"address=\"");
  CHECK(refusal("# nobody\n") ==
        "hosts: expected a line [user@]host[:port] [slots=N] for each host, got an empty list");
}

TEST_CASE("security: hosts and users that ssh or a shell would interpret are refused") {
  for (const std::string line :
       {"-oProxyCommand=x", "-l@node1", "ann@-node1", "@node1", "ann@", "[-node1]", "[node1", "[]",
        "node1;true", "$(true)", "`true`", "a@b@c", "node\x1b[1m", "[node1]x"}) {
    CAPTURE(line);
    CHECK(
        refusal(line).starts_with("hosts:1: expected [user@]host[:port]; put an IPv6 address in "));
  }
}

TEST_CASE("workers fill the slots of the hosts in order, each with a server on its host") {
  const std::vector<Host> hosts = parse_hosts("a slots=2\nb\nc slots=3\n", "hosts");
  const HostAssignment assignment(hosts, 4, 4);
  const std::vector<std::string> expected{"a", "a", "b", "c"};
  for (uint16_t rank = 0; rank < expected.size(); ++rank) {
    CAPTURE(rank);
    CHECK(assignment.host_of(worker(rank)).name == expected[rank]);
    CHECK(assignment.host_of(server(rank)).name == expected[rank]);
  }
  CHECK(assignment.workers_on_host(worker(0)) == 2);
  CHECK(assignment.workers_on_host(server(1)) == 2);
  CHECK(assignment.workers_on_host(worker(3)) == 1);
}

TEST_CASE("fewer or more servers than workers are spread evenly over the workers' hosts") {
  const std::vector<Host> hosts = parse_hosts("a slots=2\nb slots=2\n", "hosts");
  const HostAssignment fewer(hosts, 4, 2);
  CHECK(fewer.host_of(server(0)).name == "a");
  CHECK(fewer.host_of(server(1)).name == "b");
  const HostAssignment more(hosts, 3, 6);
  CHECK(more.host_of(server(3)).name == "a");
  CHECK(more.host_of(server(4)).name == "b");
}

TEST_CASE("a host with two lines has the slots of both") {
  const HostAssignment assignment(parse_hosts("a\nb\na\n", "hosts"), 3, 0);
  CHECK(assignment.host_of(worker(0)).name == "a");
  CHECK(assignment.host_of(worker(1)).name == "b");
  CHECK(assignment.host_of(worker(2)).name == "a");
}
