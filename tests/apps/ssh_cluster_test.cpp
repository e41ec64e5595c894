// Workers and servers that poseidon-train starts over ssh. A script named ssh replaces ssh and runs
// the command on this machine.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>

#include "core/json.h"
#include "tests/apps/processes.h"
#include "tests/apps/train_program.h"
#include "tests/support/folders.h"

using namespace poseidon;
using namespace poseidon::apps;
using trainer::read_text;
using trainer::TinyJob;
namespace fs = std::filesystem;

namespace {

/// The command notices the end of the connection only by its stdin. A connection to port 9 is
/// refused.
constexpr const char* kSsh = R"(#!/bin/sh
port=22
while [ "$1" != -- ]; do
  [ "$1" != -p ] || port=$2
  shift
done
if [ "$port" = 9 ]; then
  echo "ssh: connect to host $2 port 9: Connection refused" >&2
  exit 255
fi
exec sh -c "$3"
)";

/// A job, a hosts file, and a PATH with the script first. The destructor restores PATH.
class SshHosts {
 public:
  explicit SshHosts(const std::string& hosts = "127.0.0.1\n127.0.0.2:2222 # another\n")
      : path_(std::getenv("PATH")) {
    fs::create_directories(job.folder / "bin");
    trainer::write_text(job.folder / "bin" / "ssh", kSsh);
    fs::permissions(job.folder / "bin" / "ssh", fs::perms::owner_all);
    trainer::write_text(job.folder / "hosts", hosts);
    setenv("PATH", ((job.folder / "bin").string() + ":" + path_).c_str(), 1);
  }
  ~SshHosts() { setenv("PATH", path_.c_str(), 1); }

  Program start(std::vector<std::string> more) const {
    more.insert(more.begin(), {(job.folder / "job.json").string(), "--hosts",
                               (job.folder / "hosts").string(), "--listen", "127.0.0.1:0",
                               "--threads", "1", "--output", (job.folder / "run").string()});
    return Program("poseidon-train", more, job.folder);
  }

  /// Workers and servers of this job, recognized by that PATH.
  std::vector<pid_t> members() const {
    std::vector<pid_t> found;
    for (const auto& entry : fs::directory_iterator("/proc")) {
      const std::string number = entry.path().filename();
      if (!std::ranges::all_of(number, [](unsigned char c) { return isdigit(c); })) continue;
      const pid_t pid = std::stoi(number);
      const std::vector<std::string> words = command_of(pid);
      const bool is_member = !words.empty() && (words[0].ends_with("/poseidon-worker") ||
                                                words[0].ends_with("/poseidon-server"));
      const std::string path = "PATH=" + (job.folder / "bin").string() + ":";
      if (is_member && has(read_text("/proc/" + number + "/environ"), path)) found.push_back(pid);
    }
    return found;
  }

  std::string log(const std::string& member) const {
    return read_text(job.folder / "run" / "logs" / (member + ".log"));
  }

  const TinyJob job;

 private:
  const std::string path_;
};

bool says(const Program& program, const std::string& words) {
  return within(30, [&] { return program.err().find(words) != std::string::npos; });
}

/// Starts a long run and waits for its first step.
Program begin(const SshHosts& hosts) {
  Program train = hosts.start({"--set", "train.steps=1000000", "--set", "cluster.timeout_s=3"});
  REQUIRE(says(train, "begin with step"));
  return train;
}

bool has_secret(const std::string& text) {
  size_t digits = 0;
  for (const unsigned char c : text) {
    digits = isxdigit(c) != 0 ? digits + 1 : 0;
    if (digits == 64) return true;
  }
  return false;
}

/// Whether arguments or environment of a process contain a secret. Ignores variables that this
/// process has too.
bool shows_secret(pid_t process) {
  const std::string folder = "/proc/" + std::to_string(process);
  std::istringstream variables(read_text(folder + "/environ"));
  for (std::string variable; std::getline(variables, variable, '\0');) {
    const size_t name = variable.find('=');
    const char* own = std::getenv(variable.substr(0, name).c_str());
    if (own != nullptr && variable.substr(name + 1) == own) continue;
    if (has_secret(variable)) return true;
  }
  return has_secret(read_text(folder + "/cmdline"));
}

}  // namespace

TEST_CASE("over ssh: one worker for each slot, and the same bits as with local processes") {
  const SshHosts hosts;
  const Finished remote = hosts.start({"--json"}).wait();
  CAPTURE(remote.err);
  REQUIRE(remote.code == 0);
  const Json summary = Json::parse(remote.out);
  CHECK(summary["workers"] == 2);
  CHECK(summary["servers"] == 2);
  const Finished local = run(hosts.job, {"--workers", "2", "--threads", "1", "--json", "--output",
                                         (hosts.job.folder / "local").string()});
  REQUIRE(local.code == 0);
  CHECK(summary["weights_sha256"] == Json::parse(local.out)["weights_sha256"]);
  for (const char* member : {"worker-0", "worker-1", "server-0", "server-1"}) {
    CAPTURE(member);
    CHECK(has(hosts.log(member), "joined the job \"tiny\""));
  }
  CHECK(hosts.members().empty());
}

TEST_CASE("over ssh: by default the workers of a host divide its cores") {
  const SshHosts hosts("127.0.0.1 slots=3\n");
  Program train = hosts.start({"--set", "train.steps=1000000", "--workers", "2", "--servers", "1"});
  REQUIRE(says(train, "begin with step"));
  size_t workers = 0;
  for (const pid_t member : hosts.members()) {
    const std::vector<std::string> words = command_of(member);
    if (!words[0].ends_with("worker")) continue;
    ++workers;
    CHECK(word_after(words, "--workers-on-host") == "2");
    CHECK(word_after(words, "--advertise") == "127.0.0.1:0");
  }
  CHECK(workers == 2);
  CHECK(hosts.members().size() == 3);
  train.send(SIGTERM);
  CHECK(train.wait().code == 0);
  CHECK(hosts.members().empty());
}

namespace {

/// The data root of the only worker of a run.
std::string data_root_of_worker(const std::vector<std::string>& more) {
  const SshHosts hosts("127.0.0.1\n");
  std::vector<std::string> words{"--set", "train.steps=1000000"};
  words.insert(words.end(), more.begin(), more.end());
  Program train = hosts.start(words);
  REQUIRE(says(train, "begin with step"));
  std::string root;
  for (const pid_t member : hosts.members()) root += word_after(command_of(member), "--data-root");
  train.send(SIGTERM);
  CHECK(train.wait().code == 0);
  return root;
}

}  // namespace

TEST_CASE("over ssh: workers receive --data-root, or by default this machine's POSEIDON_DATA") {
  CHECK(data_root_of_worker({"--data-root", "/usr"}) == "/usr");
  setenv("POSEIDON_DATA", "/tmp", 1);
  CHECK(data_root_of_worker({"--data-root", "/usr"}) == "/usr");
  CHECK(data_root_of_worker({}) == "/tmp");
  unsetenv("POSEIDON_DATA");
}

TEST_CASE("over ssh: the error states that there is no ssh program") {
  const SshHosts hosts;
  std::filesystem::remove(hosts.job.folder / "bin" / "ssh");
  setenv("PATH", (hosts.job.folder / "bin").c_str(), 1);
  const Finished finished = hosts.start({}).wait();
  CHECK(finished.code == 1);
  CHECK(has(finished.err, "poseidon-train: ssh: cannot be run: No such file or directory"));
}

TEST_CASE("over ssh: an unreachable host ends the job, and the message names its log") {
  const SshHosts hosts("127.0.0.1\n127.0.0.2:9\n");
  const Finished finished = hosts.start({}).wait();
  CAPTURE(finished.err);
  CHECK(finished.code == 3);
  CHECK(has(finished.err, " 1 failed before the first step: it ended with exit code 255 (see " +
                              (hosts.job.folder / "run" / "logs").string() + "/"));
  CHECK(has(finished.err, "-1.log): ssh: connect to host 127.0.0.2 port 9: Connection refused"));
  CHECK(within(10, [&] { return hosts.members().empty(); }));
}

TEST_CASE("over ssh: a host without the programs ends the job") {
  const SshHosts hosts;
  const Finished finished =
      hosts.start({"--remote-folder", (hosts.job.folder / "nothing").string()}).wait();
  CAPTURE(finished.err);
  CHECK(finished.code == 3);
  CHECK(has(finished.err, "it ended with exit code 127 (see "));
  CHECK(has(finished.err, "/poseidon-server: not found"));
}

TEST_CASE(
    "over ssh: a member that is killed is a node failure, and the message states how it ended") {
  const SshHosts hosts;
  Program train = begin(hosts);
  for (const pid_t member : hosts.members()) {
    const std::vector<std::string> words = command_of(member);
    if (words[0].ends_with("worker") && word_after(words, "--rank") == "1") kill(member, SIGKILL);
  }
  const Finished finished = train.wait();
  CAPTURE(finished.err);
  CHECK(finished.code == 3);
  CHECK(has(finished.err, "poseidon-train: worker 1 (127.0.0.2:"));
  CHECK(has(finished.err, "it was ended by signal 9 (see "));
  CHECK(within(10, [&] { return hosts.members().empty(); }));
}

TEST_CASE(
    "security: over ssh, no process exposes the secret, and no process outlives poseidon-train") {
  const SshHosts hosts;
  Program train = begin(hosts);
  const std::vector<pid_t> members = hosts.members();
  CHECK(members.size() == 4);
  for (const pid_t member : members) CHECK_FALSE(shows_secret(member));
  CHECK_FALSE(shows_secret(train.process()));
  train.send(SIGKILL);
  train.wait();
  CHECK(within(10, [&] { return hosts.members().empty(); }));
}

TEST_CASE("over ssh: a member that waits for its coordinator exits when the connection closes") {
  const SshHosts hosts;
  Program member("/bin/sh",
                 {"-c", "(echo 0123456789abcdef; sleep 0.3) | " + test::program_folder() +
                            "/poseidon-worker --coordinator 127.0.0.1:9 --secret-file - "
                            "--end-with-stdin"},
                 hosts.job.folder);
  const Finished finished = member.wait();
  CHECK(finished.code == 0);
  CHECK(has(finished.err, "standard input has ended: shutting down"));
}

TEST_CASE(
    "over ssh: contradictory flags and wrong hosts files are refused before any process starts") {
  const SshHosts hosts;
  const std::string file = (hosts.job.folder / "hosts").string();
  const auto refused = [&](const std::vector<std::string>& words) {
    const Finished finished = run(hosts.job, words);
    CHECK(finished.code == 2);
    return finished.err;
  };
  CHECK(
      has(refused({"--hosts", file}),
          "--hosts " + file +
              " requires --listen ADDR:PORT, an address of this machine that the hosts can reach"));
  CHECK(has(refused({"--hosts", file, "--listen", "0.0.0.0:7000"}),
            "--listen 0.0.0.0:7000: with --hosts, expected one address of this machine"));
  CHECK(has(refused({"--hosts", file, "--listen", "127.0.0.1:0", "--external"}),
            "expected one of the two"));
  CHECK(has(refused({"--hosts", file, "--listen", "127.0.0.1:0", "--secret-file", "s"}),
            "--secret-file s requires --external"));
  CHECK(has(refused({"--data-root", "/data"}), "--data-root /data requires --hosts FILE"));
  CHECK(has(refused({"--hosts", file, "--listen", "127.0.0.1:0", "--workers", "3"}),
            file + ": expected at least 3 slots, one per worker, got 2; add hosts or slots=N, or "
                   "reduce --workers"));
  CHECK(has(refused({"--hosts", file + "x", "--listen", "127.0.0.1:0"}), file + "x: "));
  trainer::write_text(file, "node1 slots\n");
  CHECK(has(refused({"--hosts", file, "--listen", "127.0.0.1:0"}),
            file + ":1: expected [user@]host[:port] [slots=N] [address=A], got \"slots\""));
}
