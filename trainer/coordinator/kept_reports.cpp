#include "trainer/coordinator/kept_reports.h"

#include <algorithm>
#include <map>

#include "core/error.h"
#include "trainer/coordinator/cluster_report.h"
#include "trainer/messages/notes.h"
#include "trainer/plan/sync_plan.h"
#include "trainer/report/last_lines.h"

namespace poseidon::trainer {

namespace {

using Notes = std::vector<comm::Note>;

/// Those of a worker that the run directory lacks, up to step `most`.
Notes missing_notes(const KeptReports& reports, const LastLines& last, int64_t most) {
  Notes missing;
  for (const std::string& message : reports.messages) {
    auto note = comm::ControlMessage(std::as_bytes(std::span(message))).as<comm::Note>();
    const bool is_test = note.about == TestNote::kAbout;
    if (!is_test && note.about != StepNote::kAbout)
      throw ConfigError(text("a report of ", shown(note.about)));
    if (note.step > (is_test ? last.tested : last.trained) && note.step <= most)
      missing.push_back(std::move(note));
  }
  return missing;
}

/// The first step that all of them report; none: `otherwise`.
int64_t first_step_of_all(const std::map<int64_t, Notes>& workers, int64_t otherwise) {
  int64_t first = 0;
  for (const auto& [rank, notes] : workers) {
    const auto step = std::ranges::find(notes, StepNote::kAbout, &comm::Note::about);
    first = std::max(first, step == notes.end() ? otherwise : step->step);
  }
  return first;
}

/// Returns the number of notes that were used.
size_t write_lines(const std::map<int64_t, Notes>& workers, const comm::Plan& plan,
                   Metrics::Options options, const RunDirectory& directory) {
  const int64_t last_step = options.steps_done;
  const int64_t first = first_step_of_all(workers, last_step + 1);
  options.steps_done = first - 1;
  Console silent(Console::Mode::kSilent);
  ClusterReport report(plan, directory, options, silent);
  size_t used = 0;
  for (const auto& [worker, notes] : workers) {
    const auto rank = static_cast<uint16_t>(worker);
    for (const comm::Note& note : notes) {
      const bool is_test = note.about == TestNote::kAbout;
      if (!is_test && note.step < first) continue;
      ++used;
      if (is_test)
        report.take_test(rank, note.step, read_note<TestNote>(note));
      else
        report.take_step(rank, note.step, read_note<StepNote>(note), last_step);
    }
  }
  return used;
}

void write_kept(const std::vector<KeptReports>& kept, const Job& job,
                const Metrics::Options& options, const RunDirectory& directory, Console& console) {
  const Json& made_by = kept.front().plan;
  const comm::Plan plan =
      comm::read_plan(made_by, {"the plan of kept reports", ""}, layer_traffic(*job.network));
  const LastLines last = last_lines(directory.path());
  std::map<int64_t, Notes> workers;
  size_t missing = 0;
  for (const KeptReports& reports : kept) {
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
  if (write_lines(workers, plan, options, directory) > 0)
    console.info(text("metrics up to step ", options.steps_done,
                      " are complete: the workers have kept their reports"));
}

}  // namespace

void KeptReports::add(std::string message) {
  bytes += message.size();
  if (bytes > kMostBytes)
    throw ConfigError(text("reports of more than ", kMostBytes, " bytes that it keeps"));
  messages.push_back(std::move(message));
}

void write_kept_reports(const std::vector<KeptReports>& kept, const Job& job,
                        Metrics::Options options, const RunDirectory& directory, Console& console) {
  if (kept.empty()) return;
  try {
    write_kept(kept, job, options, directory, console);
  } catch (const ConfigError& error) {
    console.warning(text("reports that workers have kept cannot be used: ", error.what()));
  }
}

}  // namespace poseidon::trainer
