#include "trainer/coordinator/saved_reports.h"

#include <algorithm>
#include <map>

#include "core/error.h"
#include "trainer/messages/notes.h"
#include "trainer/messages/step_message.h"
#include "trainer/plan/sync_plan.h"
#include "trainer/report/last_lines.h"

namespace poseidon::trainer {

namespace {

using Notes = std::vector<comm::Note>;

/// Returns a worker's reports up to step `most` that have no line in metrics.jsonl.
Notes missing_notes(const SavedReports& reports, const LastLines& last, int64_t most) {
  Notes missing;
  for (const std::string& message : reports.messages) {
    auto note = comm::ControlMessage(std::as_bytes(std::span(message))).as<comm::Note>();
    const bool is_test = note.about == TestNote::kAbout;
    if (!is_test && note.about != StepNote::kAbout)
      throw ConfigError(
          text("expected a report of a step or a test, got one of ", shown(note.about)));
    if (note.step > (is_test ? last.tested : last.trained) && note.step <= most)
      missing.push_back(std::move(note));
  }
  return missing;
}

void check_scalars(const SampleSums& sums, size_t expected) {
  if (!sums.scalars.empty() && sums.scalars.size() != expected)
    throw ConfigError(
        text("expected ", expected, " layer scalars in a report, got ", sums.scalars.size()));
}

/// The workers' reports of a step, by rank.
struct StepOfAll {
  std::map<int64_t, WorkerStep> trained;
  std::map<int64_t, TestSums> tested;
};

std::map<int64_t, StepOfAll> by_step(const std::map<int64_t, Notes>& workers,
                                     const comm::Plan& plan, const Metrics::Options& options) {
  std::map<int64_t, StepOfAll> steps;
  for (const auto& [worker, notes] : workers)
    for (const comm::Note& note : notes) {
      StepOfAll& step = steps[note.step];
      if (note.about == TestNote::kAbout) {
        const auto test = read_note<TestNote>(note);
        for (const SampleSums& part : test.sums.parts)
          check_scalars(part, options.test_scalars.count());
        check_parts(test.sums, static_cast<uint32_t>(worker), plan);
        step.tested[worker] = test.sums;
      } else {
        const auto report = read_note<StepNote>(note);
        for (const SampleSums& shard : report.shards) check_scalars(shard, options.scalars.count());
        step.trained[worker] = worker_step(report, note.step, static_cast<uint32_t>(worker), plan);
      }
    }
  return steps;
}

/// Writes a line for each step and each test that all workers have reported. Returns the number of
/// lines.
size_t write_lines(const std::map<int64_t, StepOfAll>& steps, const comm::Plan& plan,
                   Metrics::Options options, const RunDirectory& directory) {
  const auto workers = static_cast<size_t>(plan.workers());
  options.before_writing = [&directory] { directory.check_lock(); };
  Console silent(Console::Mode::kSilent);
  Metrics metrics(directory.path(), options, silent);
  size_t lines = 0;
  for (const auto& [step, reports] : steps) {
    if (reports.trained.size() == workers) {
      std::vector<WorkerStep> trained;
      for (const auto& [rank, part] : reports.trained) trained.push_back(part);
      metrics.trained(join_steps(trained, plan), false);
      ++lines;
    }
    if (reports.tested.size() == workers) {
      std::vector<TestSums> tested;
      for (const auto& [rank, part] : reports.tested) tested.push_back(part);
      metrics.tested(step, join_tests(tested, plan));
      ++lines;
    }
  }
  return lines;
}

void write_session_reports(const std::vector<SavedReports>& kept, const Job& job,
                           const Metrics::Options& options, const RunDirectory& directory,
                           Console& console) {
  const Json& made_by = kept.front().plan;
  const comm::Plan plan =
      comm::read_plan(made_by, {"the plan of stored reports", ""}, layer_traffic(*job.network));
  const LastLines last = last_lines(directory.path());
  std::map<int64_t, Notes> workers;
  size_t missing = 0;
  for (const SavedReports& reports : kept) {
    if (reports.plan != made_by || reports.rank >= plan.workers()) continue;
    Notes notes = missing_notes(reports, last, options.steps_done);
    missing += notes.size();
    workers[reports.rank] = std::move(notes);
  }
  if (missing == 0) return;
  if (std::ssize(workers) < plan.workers())
    return console.warning(text("metrics of the last steps before step ", options.steps_done + 1,
                                " are missing: expected the reports of ", plan.workers(),
                                " workers, got those of ", workers.size()));
  if (write_lines(by_step(workers, plan, options), plan, options, directory) > 0)
    console.info(text("completed the metrics up to step ", options.steps_done,
                      " from the reports that the workers kept"));
}

}  // namespace

void SavedReports::add(std::string message) {
  bytes += message.size();
  if (bytes > kMaxBytes)
    throw ConfigError(
        text("expected at most ", kMaxBytes, " bytes of stored reports, got ", bytes));
  messages.push_back(std::move(message));
}

void write_saved_reports(const std::vector<SavedReports>& kept, const Job& job,
                         Metrics::Options options, const RunDirectory& directory,
                         Console& console) {
  if (kept.empty()) return;
  try {
    write_session_reports(kept, job, options, directory, console);
  } catch (const ConfigError& error) {
    console.warning(text("cannot use the reports that the workers kept: ", error.what()));
  }
}

}  // namespace poseidon::trainer
