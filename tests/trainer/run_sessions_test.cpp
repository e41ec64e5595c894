// Records of all sessions of a run: summary.json, metrics.jsonl, TensorBoard's points, console.log.

#include <doctest/doctest.h>
#include <sys/wait.h>

#include <cstring>
#include <map>
#include <set>

#include "tests/trainer/tiny_job.h"
#include "trainer/coordinator/view_records.h"
#include "trainer/report/run_history.h"
#include "trainer/report/time_text.h"

using namespace poseidon;
using namespace poseidon::trainer;

namespace {

std::vector<Json> lines_of(const fs::path& file) {
  std::vector<Json> lines;
  std::istringstream in(read_text(file));
  for (std::string line; std::getline(in, line);) lines.push_back(Json::parse(line));
  return lines;
}

/// The varint and message fields of a protobuf message, by field number.
struct Message {
  explicit Message(std::string_view bytes) {
    while (!bytes.empty()) {
      const uint64_t key = varint(bytes);
      const auto field = static_cast<int>(key >> 3);
      if (key % 8 == 0) {
        numbers[field] = static_cast<int64_t>(varint(bytes));
        continue;
      }
      const size_t length = key % 8 == 1 ? 8 : key % 8 == 5 ? 4 : varint(bytes);
      texts.emplace(field, bytes.substr(0, length));
      bytes.remove_prefix(length);
    }
  }
  static uint64_t varint(std::string_view& bytes) {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<uint8_t>(bytes.front());
      bytes.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 127) << shift;
      if (byte < 128) return value;
    }
  }
  std::map<int, int64_t> numbers;
  std::multimap<int, std::string> texts;
};

/// The steps of a curve that TensorBoard shows. By its rule, a SessionLog START drops points at its
/// step and later.
std::vector<int64_t> tensorboard_steps(const fs::path& run, const std::string& tag) {
  std::set<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(run))
    if (entry.path().filename().string().starts_with("events.out.tfevents."))
      files.insert(entry.path());
  std::vector<int64_t> steps;
  for (const fs::path& file : files) {
    const std::string bytes = read_text(file);
    for (size_t at = 0; at < bytes.size();) {
      uint64_t length = 0;
      std::memcpy(&length, bytes.data() + at, sizeof length);
      const Message event(std::string_view(bytes).substr(at + 12, length));
      at += 12 + length + 4;
      const int64_t step = event.numbers.contains(2) ? event.numbers.at(2) : 0;
      if (event.texts.contains(7) && Message(event.texts.find(7)->second).numbers.at(1) == 1)
        std::erase_if(steps, [&](int64_t point) { return point >= step; });
      const auto [first, last] = event.texts.equal_range(5);
      for (auto summary = first; summary != last; ++summary)
        for (const auto& [field, value] : Message(summary->second).texts)
          if (field == 1 && Message(value).texts.find(1)->second == tag) steps.push_back(step);
    }
  }
  return steps;
}

/// Makes a run with a session that ended as by SIGKILL, after step 6 and the checkpoint of step 4.
void make_broken_run(const TinyJob& job) {
  job.run("run", {"train.log_every=1", "train.checkpoint_every=4", "train.test_every=2"},
          {.max_steps = 6});
  const fs::path run = job.folder / "run";
  for (const char* kind : {"state", "safetensors"})
    fs::remove(run / (std::string("checkpoints/step-6.") + kind));
  fs::remove(run / "summary.json");
  std::string sessions = read_text(run / "sessions.jsonl");
  sessions.resize(sessions.find('\n') + 1);
  write_text(run / "sessions.jsonl", sessions);
}

const std::vector<std::string> kOften{"train.log_every=1", "train.test_every=2"};

}  // namespace

TEST_CASE("each line of metrics has the time of day and the seconds of all sessions") {
  const TinyJob job;
  make_broken_run(job);
  job.run("", kOften, {.resume = job.folder / "run"});
  double before = 0;
  std::string time;
  for (const Json& line : lines_of(job.folder / "run/metrics.jsonl")) {
    CHECK(line["elapsed_s"].get<double>() >= before);
    CHECK(line["time"].get<std::string>() >= time);
    CHECK(line["time"].get<std::string>().size() == std::strlen("2026-03-01T14:05:09.250Z"));
    before = line["elapsed_s"];
    time = line["time"];
  }
}

TEST_CASE("TensorBoard shows each step of a resumed run once, in order") {
  const TinyJob job;
  make_broken_run(job);
  job.run("", kOften, {.resume = job.folder / "run"});
  const std::vector<int64_t> steps = tensorboard_steps(job.folder / "run", "train/loss");
  CHECK(steps == std::vector<int64_t>{1, 2, 3, 4, 5, 6, 7, 8, 9});
  CHECK(tensorboard_steps(job.folder / "run", "test/loss") == std::vector<int64_t>{2, 4, 6, 8, 9});
}

TEST_CASE("the summary of a resumed run lists all sessions") {
  const TinyJob job;
  make_broken_run(job);
  const Json summary = job.run("", kOften, {.resume = job.folder / "run"});
  REQUIRE(summary["sessions"].size() == 2);
  const Json& first = summary["sessions"][0];
  CHECK(first["first_step"] == 1);
  CHECK(first["steps"] == 6);
  CHECK(first["how"] == "interrupted");
  CHECK(first["end"].get<std::string>() >= first["begin"].get<std::string>());
  CHECK(first["host"].is_string());
  const Json& second = summary["sessions"][1];
  CHECK(second["first_step"] == 5);
  CHECK(second["steps"] == 9);
  CHECK(second["how"] == "finished");
  CHECK(second["pid"] == getpid());
}

TEST_CASE("a finished run that is resumed does not repeat its last test and keeps its loss") {
  const TinyJob job;
  const Json whole = job.run("run");
  const std::string lines = read_text(job.folder / "run/metrics.jsonl");
  const Json again = job.run("", {}, {.resume = job.folder / "run"});
  CHECK(read_text(job.folder / "run/metrics.jsonl") == lines);
  for (const char* key : {"train_loss", "test_top1", "test_loss", "test_step", "weights_sha256"})
    CHECK(again[key] == whole[key]);
  CHECK(read_text(job.folder / "run/console.log").find("test loss") ==
        read_text(job.folder / "run/console.log").rfind("test loss"));
}

TEST_CASE("a test that was due when a session was killed runs after the resume") {
  const TinyJob job;
  job.run("run", {"train.checkpoint_every=4", "train.test_every=4"}, {.max_steps = 4});
  const fs::path metrics = job.folder / "run/metrics.jsonl";
  std::string kept;
  for (const Json& line : lines_of(metrics))
    if (line["type"] == "train") kept += line.dump() + "\n";
  write_text(metrics, kept);
  job.run("", {"train.test_every=4"}, {.resume = job.folder / "run"});
  std::vector<int64_t> tested;
  for (const Json& line : lines_of(metrics))
    if (line["type"] == "test") tested.push_back(line["step"]);
  CHECK(tested == std::vector<int64_t>{4, 8, 9});
}

TEST_CASE("the summary lists node failures of all sessions, by session") {
  const TinyJob job;
  SilentLog log;
  Json summary;
  for (const int session : {1, 2}) {
    RunHistory history({.run = job.folder, .steps_done = 10 * session, .last_line = {}}, log);
    Json events{{"losses", {{{"who", "worker 0"}}}},
                {"joins", Json::array()},
                {"replayed_steps", 1},
                {"lost_s", 0.5}};
    history.note_events(events);
    events["losses"].push_back({{"who", text("worker ", session)}});
    events["replayed_steps"] = 3;
    history.note_events(events);
    if (session == 2) history.end(40, "finished");
    summary = events;
    history.add_to(summary);
  }
  REQUIRE(summary["losses"].size() == 4);
  CHECK(summary["losses"][1]["who"] == "worker 1");
  CHECK(summary["losses"][1]["session"] == 1);
  CHECK(summary["losses"][3]["who"] == "worker 2");
  CHECK(summary["losses"][3]["session"] == 2);
  CHECK(summary["replayed_steps"] == 6);
  CHECK(summary["lost_s"] == 1.0);
  CHECK(summary["sessions"][0]["how"] == "interrupted");
  CHECK(summary["sessions"][1]["losses"].size() == 2);
}

TEST_CASE("a process that has lost its run writes no session, and reports the new owner") {
  const TinyJob job;
  RunDirectory directory(job.folder / "run", false);
  directory.make();
  SilentLog log;
  RunHistory history({.run = directory.path(),
                      .last_line = {},
                      .before_writing = [&directory] { directory.check_lock(); }},
                     log);
  write_text(directory.path() / "run.lock", R"({"host": "head", "pid": 7, "fence": 2})");
  const std::string lost = directory.path().string() + ": was taken over by process 7 on \"head\"";
  CHECK(error_of<LockLost>([&] { history.note_events(Json::object()); }) == lost);
  CHECK(error_of<LockLost>([&] { history.end(1, "finished"); }) == lost);
  CHECK_FALSE(fs::exists(directory.path() / "sessions.jsonl"));
}

TEST_CASE("torn or unknown lines of sessions.jsonl are skipped") {
  const TinyJob job;
  write_text(job.folder / "sessions.jsonl",
             "{\"type\": \"begin\"}\n[]\n7\n{\"type\": 3}\n{\"type\": \"events\", \"losses\": "
             "[1, \"x\"], \"lost_s\": \"much\"}\n{\"type\": \"beg");
  SilentLog log;
  const RunHistory history({.run = job.folder, .last_line = {}}, log);
  Json summary = Json::object();
  history.add_to(summary);
  CHECK(summary["sessions"].size() == 1);
  CHECK(summary["losses"].empty());
}

TEST_CASE("console.log contains the console output of all sessions, in order") {
  const TinyJob job;
  job.run("run", {}, {.max_steps = 4, .command = "poseidon-train job.json --max-steps 4"});
  const std::string first = read_text(job.folder / "run/console.log");
  CHECK(first.find(" begins: poseidon-train job.json --max-steps 4\n") != std::string::npos);
  CHECK(first.find("step 4/9") != std::string::npos);
  CHECK(first.find("stopped after step 4 of 9; to resume: poseidon-train --resume ") !=
        std::string::npos);
  job.run("", {}, {.resume = job.folder / "run"});
  const std::string both = read_text(job.folder / "run/console.log");
  CHECK(both.starts_with(first));
  CHECK(both.find("resuming after step 4 of 9") != std::string::npos);
}

TEST_CASE("console.log has one progress line per logged step, and the errors") {
  const TinyJob job;
  const fs::path file = job.folder / "console.log";
  Console console(Console::Mode::kSilent);
  console.info("early");
  console.open_log(file, "header");
  console.show("written over");
  console.record("logged");
  CHECK_THROWS_AS(recorded(console, []() -> int { throw RunError("it broke"); }), RunError);
  console.info("late");
  const std::string log = read_text(file);
  CHECK(log.find("header\n") < log.find("early\n"));
  CHECK(log.find("written over") == std::string::npos);
  CHECK(log.find("logged\n") != std::string::npos);
  CHECK(log.ends_with("error: it broke\n"));
}

TEST_CASE("times are UTC, to the millisecond") {
  CHECK(time_of_day(std::chrono::system_clock::time_point(
            std::chrono::milliseconds(951782399'007))) == "2000-02-28T23:59:59.007Z");
}
