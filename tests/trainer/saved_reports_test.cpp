// Metrics lines that a failed coordinator did not write are rebuilt from reports that workers have
// kept.

#include "trainer/coordinator/saved_reports.h"

#include <doctest/doctest.h>

#include "tests/trainer/tiny_job.h"
#include "trainer/messages/notes.h"
#include "trainer/plan/sync_plan.h"

using namespace poseidon;
using namespace poseidon::trainer;

namespace {

/// A run by two workers. Its coordinator failed after it had written the lines of steps 1 and 2.
struct LostRun {
  LostRun() {
    directory.make();
    write_text(directory.path() / "metrics.jsonl", R"({"type":"train","step":1,"loss":1}
{"type":"train","step":2,"loss":2}
{"type":"tr)");
  }

  template <class Content>
  static std::string message(const Content& content, int64_t step) {
    return comm::encode_message(write_note(content, step));
  }
  std::string step_of(int64_t step) const {
    StepNote note;
    note.shards = {{.loss = 8.0 * static_cast<double>(step), .scalars = scalars(false)}};
    note.layer_wait_ms.resize(plan.layers.size());
    return message(note, step);
  }
  std::string test_of(int64_t step) const {
    return message(
        TestNote{{.samples = 10, .parts = {{.loss = 5, .scalars = scalars(true)}}, .seconds = 1}},
        step);
  }
  std::vector<double> scalars(bool test) const {
    const net::Network& network = test ? job.network->in_test() : *job.network;
    return std::vector<double>(ScalarKeys(network.scalars()).count(), 1.0);
  }
  SavedReports of_worker(int64_t rank, const std::vector<std::string>& messages) const {
    SavedReports kept{.rank = rank, .plan = comm::to_json(plan), .messages = {}};
    for (const std::string& each : messages) kept.add(each);
    return kept;
  }
  void write(const std::vector<SavedReports>& kept) {
    write_saved_reports(kept, job,
                        {.steps = 9,
                         .steps_done = 5,
                         .log_every = 1,
                         .global_batch = plan.global_batch,
                         .epoch_samples = 50,
                         .scalars = ScalarKeys(job.network->scalars()),
                         .test_scalars = ScalarKeys(job.network->in_test().scalars())},
                        directory, console);
  }
  /// Type and step of each line: "train 1, train 2, test 2".
  std::string lines() const {
    std::string all;
    std::istringstream in(read_text(directory.path() / "metrics.jsonl"));
    for (std::string line; std::getline(in, line);) {
      const Json json = Json::parse(line, nullptr, false);
      if (json.is_object())
        all += text(all.empty() ? "" : ", ", json["type"].get<std::string>(), " ", json["step"]);
    }
    return all;
  }

  const TinyJob files;
  const Job job = files.load({"cluster.workers=2", "cluster.servers=1", "comm.scheme=ps"});
  const comm::Plan plan = plan_of(job, nullptr, false);
  RunDirectory directory{files.folder / "run", false};
  Console console{Console::Mode::kSilent};
};

}  // namespace

TEST_CASE("steps and tests in the saved reports of all workers are written once each") {
  LostRun run;
  // The old coordinator acknowledged both workers' reports up to step 1. The run continues after
  // step 5, so step 6 is not used.
  const std::vector<std::string> kept{run.step_of(2), run.test_of(2), run.step_of(3),
                                      run.step_of(4), run.test_of(4), run.step_of(5),
                                      run.step_of(6)};
  run.write({run.of_worker(0, kept), run.of_worker(1, {kept.begin() + 1, kept.end()})});
  const char* all = "train 1, train 2, test 2, train 3, train 4, test 4, train 5";
  CHECK(run.lines() == all);
  run.write({run.of_worker(1, kept),
             run.of_worker(0, kept)});  // another coordinator must not write the lines again
  CHECK(run.lines() == all);
  const std::string text = read_text(run.directory.path() / "metrics.jsonl");
  CHECK(text.find(R"("loss":3.0)") != std::string::npos);  // 2 x 24 over 16 samples
}

TEST_CASE("a step without the saved reports of all workers is not written") {
  LostRun run;
  const std::vector<std::string> kept{run.step_of(3), run.test_of(3)};
  run.write({});
  run.write({run.of_worker(1, kept)});
  CHECK(run.lines() == "train 1, train 2");
}

TEST_CASE("unreadable saved reports, and those of another plan, do not end the run") {
  LostRun run;
  SavedReports other = run.of_worker(1, {run.step_of(3)});
  other.plan["global_batch"] = 7;
  for (const SavedReports& wrong :
       {run.of_worker(1, {"{"}), run.of_worker(1, {LostRun::message(ClockNote{}, 3)}),
        run.of_worker(1, {LostRun::message(StepNote{}, 3)}),
        run.of_worker(1, {run.step_of(4), run.step_of(3)}), run.of_worker(7, {run.step_of(3)}),
        other}) {
    CHECK_NOTHROW(run.write({run.of_worker(0, {run.step_of(3), run.step_of(4)}), wrong}));
    CHECK_NOTHROW(run.write({wrong, run.of_worker(0, {run.step_of(3)})}));
  }
  CHECK(run.lines().starts_with("train 1, train 2"));
}

TEST_CASE("a worker that sends more saved reports than the limit is refused") {
  SavedReports kept{.rank = 0, .plan = {}, .messages = {}};
  const std::string large(SavedReports::kMaxBytes / 4, 'x');
  for (int i = 0; i < 4; ++i) kept.add(large);
  CHECK_THROWS_AS(kept.add("x"), ConfigError);
}
