// Jobs whose members have IPv6 addresses.

#include <doctest/doctest.h>

#include "tests/apps/cluster.h"
#include "tests/support/ipv6.h"

using namespace poseidon;
using namespace poseidon::apps;

namespace {

std::string with_host(const std::string& host, const std::string& address) {
  return host + address.substr(address.rfind(':'));
}

}  // namespace

TEST_CASE("members listen, advertise and connect at IPv6 addresses") {
  if (!has_ipv6()) return;
  Cluster cluster(with_host("[::1]", free_address()));
  cluster.start("poseidon-server", "server", {"--once", "--listen", "[::1]:0"});
  cluster.start("poseidon-worker", "worker-a", {"--once", "--listen", "[::1]:0"});
  Program& any = cluster.start(
      "poseidon-worker", "worker-b",
      {"--once", "--listen", "[::]:0", "--advertise", "[::1]:0", "--server-listen", "[::]:0"});
  const Finished job = cluster.train("run", {}, "2").wait();
  CAPTURE(job.err);
  REQUIRE(job.code == 0);
  CHECK(any.wait().code == 0);
  CHECK(job.err.find("joined from [::1]:") != std::string::npos);
}

TEST_CASE("a coordinator that listens at [::] admits members of both protocols") {
  if (!has_ipv6()) return;
  const std::string address = free_address();
  Cluster cluster(with_host("[::]", address));
  const auto at = [&](const std::string& host) {
    return std::vector<std::string>{"--coordinator", with_host(host, address), "--once", "--listen",
                                    host + ":0"};
  };
  cluster.start("poseidon-server", "server", at("127.0.0.1"));
  cluster.start("poseidon-worker", "worker-a", at("[::1]"));
  cluster.start("poseidon-worker", "worker-b", at("127.0.0.1"));
  const Finished job = cluster.train("run").wait();
  CAPTURE(job.err);
  REQUIRE(job.code == 0);
  CHECK(job.err.find("joined from [::1]:") != std::string::npos);
  CHECK(job.err.find("joined from 127.0.0.1:") != std::string::npos);
}

TEST_CASE("a member that listens at [::] without an address for others is refused") {
  Cluster cluster;
  const Finished worker = cluster.start("poseidon-worker", "worker", {"--listen", "[::]:0"}).wait();
  CHECK(worker.code == 2);
  CHECK(worker.err.find("listening at [::]:0 requires --advertise HOST:PORT") != std::string::npos);
}
