// The end of runs of several processes after a signal or a node failure: files on disk, and no
// process left.

#include <doctest/doctest.h>

#include <set>

#include "core/json.h"
#include "tests/apps/processes.h"
#include "tests/support/folders.h"

using namespace poseidon;
using namespace poseidon::apps;
using trainer::read_text;
using trainer::TinyJob;
namespace fs = std::filesystem;

namespace {

std::vector<std::string> words_of(const TinyJob& job, std::vector<std::string> more = {}) {
  std::vector<std::string> words{(job.folder / "job.json").string(),
                                 "--threads",
                                 "1",
                                 "--workers",
                                 "2",
                                 "--servers",
                                 "2",
                                 "--output",
                                 (job.folder / "run").string(),
                                 "--set",
                                 "train.steps=100000",
                                 "--set",
                                 "cluster.timeout_s=3"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

bool says(const Program& program, const std::string& words) {
  return within(30, [&] { return program.err().find(words) != std::string::npos; });
}

/// Starts a job and waits until it has trained for 0.3 s and has done a step.
Program begin(const TinyJob& job, const std::vector<std::string>& more, bool own_group = false) {
  Program train("poseidon-train", words_of(job, more), job.folder, "", own_group);
  REQUIRE(says(train, "begin with step"));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  REQUIRE(says(train, "step 1/"));
  return train;
}

Json json_of(const TinyJob& job, const char* file) {
  return Json::parse(read_text(job.folder / "run" / file));
}

std::set<std::string> processes_in_trace(const TinyJob& job) {
  std::set<std::string> names;
  const Json trace = json_of(job, "trace.json");
  for (const Json& event : trace["traceEvents"])
    if (event["name"] == "process_name") names.insert(event["args"]["name"].get<std::string>());
  return names;
}

void check_nothing_left(const TinyJob& job, const std::vector<Process>& members,
                        const std::string& address) {
  for (const Process& each : members) {
    CAPTURE(each.name);
    CHECK(within(10, [&] { return has_ended(each.pid); }));
  }
  CHECK_FALSE(is_listening(address));
  if (!fs::exists(job.folder / "run")) return;
  for (const auto& entry : fs::recursive_directory_iterator(job.folder / "run"))
    CHECK(entry.path().extension() != ".tmp");
}

std::string coordinator_of(const std::vector<Process>& members) {
  return word_after(command_of(members.at(0).pid), "--coordinator");
}

}  // namespace

TEST_CASE("a run that ends by a node failure writes trace and tables of the remaining nodes") {
  const TinyJob job;
  Program train = begin(job, {"--trace"});
  for (const Process& each : members_of(train.process(), job.folder / "run"))
    if (each.name == "worker 1") kill(each.pid, SIGKILL);
  const Finished finished = train.wait();
  CAPTURE(finished.err);
  CHECK(finished.code == 3);
  CHECK(finished.out.find("awaiting sums") != std::string::npos);
  CHECK(finished.out.find("MB moved") != std::string::npos);
  const Json traffic = json_of(job, "traffic.json");
  CHECK(traffic["unheard"] == Json{"worker 1"});
  CHECK(traffic["steps"].get<int64_t>() > 0);
  CHECK(traffic["bytes_sent"].get<int64_t>() > 0);
  const Json summary = json_of(job, "summary.json");
  CHECK(summary["failure"].get<std::string>().starts_with("worker 1 (127.0.0.1:"));
  CHECK_FALSE(summary["finished"].get<bool>());
  CHECK(summary["time"].size() == 2);
  CHECK(summary["time"][0]["compute_s"].get<double>() > 0);
  CHECK(processes_in_trace(job) == std::set<std::string>{"worker 0", "server 0"});
}

TEST_CASE("a run that SIGTERM ends writes trace and tables of all nodes") {
  const TinyJob job;
  Program train = begin(job, {"--trace", "--json", "--set", "train.log_every=1000000"});
  train.send(SIGTERM);
  const Finished finished = train.wait();
  CAPTURE(finished.err);
  REQUIRE(finished.code == 0);
  const Json summary = Json::parse(finished.out);
  // The first and the last step are logged.
  const std::string metrics = read_text(job.folder / "run" / "metrics.jsonl");
  const size_t last = metrics.rfind('\n', metrics.size() - 2);
  REQUIRE(last != std::string::npos);
  CHECK(Json::parse(metrics.substr(last + 1))["step"] == summary["steps"]);
  CHECK_FALSE(summary.contains("failure"));
  for (const Json& layer : summary["layers"]) CHECK(layer["bytes"] <= layer["planned_bytes"]);
  CHECK_FALSE(json_of(job, "traffic.json").contains("unheard"));
  // Only server 0 stores parameters.
  CHECK(processes_in_trace(job) == std::set<std::string>{"worker 0", "worker 1", "server 0"});
}

TEST_CASE("a second signal ends a run at once and leaves no process or file behind") {
  const TinyJob job;
  Program train = begin(job, {"--set", "cluster.timeout_s=10"});
  const std::vector<Process> members = members_of(train.process(), job.folder / "run");
  const std::string address = coordinator_of(members);
  kill(members[0].pid, SIGSTOP);  // so that the step cannot end
  train.send(SIGINT);
  CHECK(says(train, "SIGINT: stopping after this step; a second SIGINT ends the process at once"));
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  train.send(SIGTERM);
  CHECK(train.wait().code == 1);
  kill(members[0].pid, SIGCONT);
  check_nothing_left(job, members, address);
}

TEST_CASE("members ignore signals to the process group; several at once stop the run once") {
  for (const std::vector<int>& signals :
       std::vector<std::vector<int>>{{SIGINT}, {SIGTERM, SIGTERM}, {SIGHUP, SIGTERM}}) {
    const TinyJob job;
    Program train = begin(job, {"--json"}, true);
    const std::vector<Process> members = members_of(train.process(), job.folder / "run");
    const std::string address = coordinator_of(members);
    REQUIRE(members.size() == 4);
    for (const int signal : signals) {
      train.send(signal);  // like timeout(1): to the process, then to its group
      kill(-train.process(), signal);
    }
    const Finished finished = train.wait();
    CAPTURE(finished.err);
    REQUIRE(finished.code == 0);
    CHECK(finished.err.find("warning") == std::string::npos);
    CHECK(finished.err.find("; to resume: poseidon-train --resume " +
                            (job.folder / "run").string()) != std::string::npos);
    CHECK(fs::exists(Json::parse(finished.out)["checkpoint"].get<std::string>()));
    check_nothing_left(job, members, address);
  }
}

TEST_CASE("a signal that was ignored at the start (nohup) stays ignored") {
  const TinyJob job;
  std::vector<std::string> words = words_of(job);
  words.insert(words.begin(), (fs::path(test::program_folder()) / "poseidon-train").string());
  Program train("/usr/bin/nohup", words, job.folder);
  REQUIRE(says(train, "begin with step"));
  train.send(SIGHUP);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  CHECK(train.err().find("stopping") == std::string::npos);
  train.send(SIGTERM);
  CHECK(train.wait().code == 0);
}

TEST_CASE("a run continues when the reader of its output pipe has exited") {
  for (const char* workers : {"1", "2"}) {
    const TinyJob job;
    const std::string program = (fs::path(test::program_folder()) / "poseidon-train").string();
    // The reader of the pipe ends after one line, like tee after Ctrl-C.
    Program shell("/bin/sh",
                  {"-c", program + " " + (job.folder / "job.json").string() + " --workers " +
                             workers + " --output " + (job.folder / "run").string() +
                             " --set train.steps=500 --set train.log_every=1 2>&1 | head -n 1"},
                  job.folder);
    shell.wait();
    REQUIRE(within(30, [&] { return fs::exists(job.folder / "run" / "summary.json"); }));
    CHECK(json_of(job, "summary.json")["finished"].get<bool>());
  }
}

TEST_CASE("SIGTERM before the first step reports that there is no checkpoint") {
  const TinyJob job;
  Program train("poseidon-train", words_of(job), job.folder);
  std::vector<Process> members;
  REQUIRE(within(10, [&] {
    members = members_of(train.process(), job.folder / "run");
    return !members.empty();
  }));
  const std::string address = coordinator_of(members);
  train.send(SIGTERM);
  const Finished finished = train.wait();
  CAPTURE(finished.err);
  if (finished.err.find("begin with step") != std::string::npos)
    return;  // it had started before the signal
  CHECK(finished.code == 1);
  CHECK(finished.err.find("stopped before the first step; there is no checkpoint yet") !=
        std::string::npos);
  check_nothing_left(job, members, address);
}
