// Daemons under a service manager such as systemd: the reports of a live daemon, and of one whose
// computing thread hangs while its I/O thread works.

#include <doctest/doctest.h>

#include <cstdlib>

#include "tests/apps/cluster.h"
#include "tests/apps/colour_images.h"
#include "tests/apps/unanswered_files.h"
#include "tests/support/folders.h"
#include "tests/support/service_manager.h"

using namespace poseidon;
using namespace poseidon::apps;
namespace fs = std::filesystem;

namespace {

constexpr int kPeriodMs = 4000;

/// Sets the environment variables of a service manager for a scope.
class ManagersEnvironment {
 public:
  explicit ManagersEnvironment(const std::string& address) {
    setenv("NOTIFY_SOCKET", address.c_str(), 1);
    setenv("WATCHDOG_USEC", std::to_string(1000 * kPeriodMs).c_str(), 1);
  }
  ~ManagersEnvironment() {
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
  }
  ManagersEnvironment(const ManagersEnvironment&) = delete;
  ManagersEnvironment& operator=(const ManagersEnvironment&) = delete;
};

/// A daemon of a cluster with a separate service manager.
struct Service {
  Service(Cluster& cluster, const std::string& program, const std::string& name,
          const std::vector<std::string>& more = {})
      : address("@poseidon-" + name + "-" + std::to_string(getpid())),
        manager(address),
        daemon([&]() -> Program& {
          const ManagersEnvironment environment(address);
          return cluster.start(program, name, more);
        }()) {}

  const std::string address;
  ServiceManager manager;
  Program& daemon;
};

}  // namespace

TEST_CASE("a daemon reports READY, STATUS, WATCHDOG and STOPPING to the service manager") {
  Cluster cluster;
  Service worker(cluster, "poseidon-worker", "worker");
  CHECK(worker.manager.next(30000) == "READY=1");
  CHECK(worker.manager.next(kPeriodMs) == "STATUS=looking for a coordinator");
  for (int i = 0; i < 3; ++i) CHECK(worker.manager.next(kPeriodMs) == "WATCHDOG=1");
  worker.daemon.send(SIGTERM);
  CHECK(worker.manager.hears("STOPPING=1", kPeriodMs));
  CHECK(worker.daemon.wait().code == 0);
}

TEST_CASE("a worker and its server report to the service manager during and after a job") {
  Cluster cluster;
  Service node(cluster, "poseidon-worker", "node", {"--server-listen", "127.0.0.1:0"});
  Program train = cluster.train("run", {"--set", "train.steps=1000000"}, "1", "1");
  CHECK(
      node.manager.hears("STATUS=training (worker 0 of the job \"tiny\"); server: summing "
                         "gradients (server 0 of the job \"tiny\")"));
  for (int i = 0; i < 3; ++i) CHECK(node.manager.hears("WATCHDOG=1", kPeriodMs));
  train.send(SIGTERM);
  CHECK(train.wait().code == 0);
  CHECK(node.manager.hears("STATUS=looking for a coordinator; server: looking for a coordinator"));
  for (int i = 0; i < 3; ++i) CHECK(node.manager.hears("WATCHDOG=1", kPeriodMs));
}

TEST_CASE("a worker whose computation hangs sends no WATCHDOG=1, though its I/O thread runs") {
  Cluster cluster;
  trainer::write_text(cluster.job.folder / "tiny_network.json", kColourNetwork);
  const std::string data = colour_images(cluster.job.folder / "train");
  Service worker(cluster, "poseidon-worker", "worker",
                 {"--data-root", cluster.job.folder.string()});
  cluster.start("poseidon-server", "server");
  Program train = cluster.train("run",
                                {"--set", "data.train=" + data, "--set", "data.test=null", "--set",
                                 "data.batch_per_worker=1", "--set", "train.steps=100000000"},
                                "1", "1");
  CHECK(worker.manager.hears("STATUS=training"));
  for (int i = 0; i < 3; ++i) CHECK(worker.manager.hears("WATCHDOG=1", kPeriodMs));
  UnansweredFiles unanswered;
  unanswered.add_all(cluster.job.folder / "train");
  std::this_thread::sleep_for(std::chrono::milliseconds(kPeriodMs));
  worker.manager.all();
  CHECK(worker.manager.next(kPeriodMs) == "");
  // Its connections are alive: the coordinator has not reported a failure.
  CHECK_FALSE(has_ended(train.process()));
  CHECK(worker.daemon.err().find("lost") == std::string::npos);
  cluster.end(worker.daemon);
  CHECK(train.wait().code == 3);
}

TEST_CASE("systemd-analyze accepts the unit files") {
  const std::string analyze = "/usr/bin/systemd-analyze";
  if (!fs::exists(analyze)) {
    MESSAGE("skipped: there is no systemd-analyze here");
    return;
  }
  const trainer::TinyJob job;  // only for its folder
  for (const char* folder : {"etc/systemd/system", "usr/local/bin", "usr/lib/systemd/system"})
    fs::create_directories(job.folder / folder);
  for (const char* program : {"poseidon-worker", "poseidon-server"}) {
    fs::copy(fs::path(test::program_folder()) / program, job.folder / "usr/local/bin");
    fs::copy(
        fs::path(test::source_folder()) / "scripts/systemd" / (program + std::string(".service")),
        job.folder / "etc/systemd/system");
  }
  // Targets that units depend on implicitly. They replace the system's targets, which may have
  // faults.
  for (const char* name : {"sysinit", "basic", "shutdown", "network-online", "remote-fs"})
    trainer::write_text(job.folder / "usr/lib/systemd/system" / (name + std::string(".target")),
                        "[Unit]\nDefaultDependencies=no\n");
  const Finished finished = Program(analyze,
                                    {"verify", "--root=" + job.folder.string(),
                                     "poseidon-worker.service", "poseidon-server.service"},
                                    job.folder)
                                .wait();
  CHECK(finished.code == 0);
  CHECK(finished.err == "");
}
