#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/exchange/tensor_intake.h"
#include "comm/membership/coordinator.h"
#include "core/inbox.h"
#include "core/mutex.h"
#include "trainer/coordinator/cluster_checkpoints.h"
#include "trainer/coordinator/cluster_report.h"
#include "trainer/coordinator/cluster_run.h"
#include "trainer/coordinator/first_values.h"
#include "trainer/coordinator/launcher.h"
#include "trainer/messages/device_note.h"
#include "trainer/messages/job_message.h"
#include "trainer/messages/notes.h"
#include "trainer/plan/measured_plan.h"
#include "trainer/plan/published_plan.h"
#include "trainer/plan/sync_plan.h"
#include "trainer/report/run_directory.h"
#include "trainer/report/trace_file.h"
#include "trainer/state/tensor_store.h"

namespace poseidon::trainer {

/// One run of a job by several workers. The main thread writes files and talks to the user; the I/O
/// thread calls the functions of comm::CoordinatorHost.
class ClusterRun final : public comm::CoordinatorHost {
 public:
  ClusterRun(const Job& job, const RunOptions& options, const ClusterOptions& cluster,
             Console& console);
  ~ClusterRun() override;
  Json go();

 private:
  // The I/O thread.
  Json job() override { return job_message_; }
  void refused(const std::string& address, const std::string& why) override;
  void joined(comm::NodeId node, const std::string& address) override;
  bool wants_link() override { return measured_ && measured_->wants_link(); }
  void measured_link(const comm::LinkRate& rate, bool one_host) override;
  std::optional<uint16_t> fetch_kept_step() override;
  int64_t first_step() override { return published_.first_step; }
  Json plan(const std::vector<comm::Fact>& facts) override;
  void started() override;
  void noted(comm::NodeId node, const comm::Note& note) override;
  void agreed(int64_t step, const std::vector<int64_t>& digest) override;
  std::string tensor_name(size_t index) override;
  comm::Placement place(uint16_t worker, const comm::FrameHeader& header) override;
  void received(uint16_t worker, const comm::FrameHeader&) override { intake_.received(worker); }
  void failed(const comm::Loss& loss) override;
  bool wants_checkpoint(int64_t step) override { return !drifted_ && checkpoints_.wants(step); }
  void saved(uint16_t, int64_t) override {}
  void not_saved(uint16_t worker, const std::string& why) override;
  void slow(comm::NodeId node, const std::string& what) override;
  void given_up(comm::NodeId node) override;
  void take_offer(comm::NodeId worker, const comm::Note& note);
  void take_kept_step(uint16_t worker, std::shared_ptr<TensorStore> tensors,
                      const SentCheckpoint& sent);
  void go_on_from(std::unique_ptr<Checkpoint> checkpoint);
  void avoid_factors();
  std::shared_ptr<TensorStore> make_store();
  void take_checkpoint(comm::NodeId node, const comm::Note& note);
  void take_clock(comm::NodeId node, const ClockNote& clock);
  void ended(const comm::Outcome& outcome) override;

  // The main thread.
  bool goes_on() const;
  std::unique_ptr<Checkpoint> first_checkpoint() const;
  void write_kept_step(uint16_t worker, const RunState& state, TensorStore& tensors,
                       const SentCheckpoint& sent);
  void look_at_data_and_memory();
  std::chrono::seconds join_timeout() const;
  int64_t threads_of_worker() const;
  std::vector<comm::NodeId> members() const;
  void loop();
  void take_turn();
  template <class Action>
  void attempt(Action action);
  void fail_by(const std::exception_ptr& thrown);
  void lose_transport(const std::exception_ptr& thrown);
  comm::Loss own_loss(const std::string& why) const;
  void watch_members();
  void end_after(const comm::Loss& loss);
  void report_error(const std::string& why);
  void begin_metrics(const std::vector<comm::Fact>& facts);
  void take_note(comm::NodeId node, const comm::Note& note);
  template <class Action>
  void guarded(comm::NodeId node, Action action);
  void ask_for_time();
  void take(comm::NodeId node, int64_t step, const TensorsNote& note);
  void take(comm::NodeId node, int64_t step, const ClassesNote& note);
  void take(comm::NodeId node, int64_t step, const StepNote& note);
  void take(comm::NodeId node, int64_t step, const TestNote& note);
  void take(comm::NodeId node, int64_t step, const TrafficNote& note);
  void take(comm::NodeId node, int64_t step, const TraceNote& note);
  void make_values(const TensorsNote& note);
  void write_checkpoints(const std::function<void()>& action);
  void tell_written(uint16_t worker, int64_t step);
  RunState state_after(int64_t step) const;
  Json finish();
  [[noreturn]] void fail();
  std::string failure() const;
  void write_summary(const Json& summary, const Json& traffic) const;
  Json summary(const Json& traffic) const;

  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  const Job& job_;
  const RunOptions& options_;
  const ClusterOptions& cluster_;
  Console& console_;
  std::unique_ptr<Checkpoint> resumed_;
  std::map<uint16_t, DeviceNote> devices_;  ///< of workers; in the I/O thread
  std::map<uint16_t, KeptNote> offers_;     ///< by worker, what it keeps; in the I/O thread
  std::optional<uint16_t> keeper_;          ///< of those, who is asked; in the I/O thread
  bool planned_ = false;                    ///< in the I/O thread
  std::string no_factors_;                  ///< why, where workers do not compute alike
  std::optional<MeasuredPlan> measured_;    ///< in the I/O thread, where the plan is made
  comm::Plan plan_;                         ///< before all are prepared: provisional
  RunDirectory directory_;
  Json job_message_;
  PublishedPlan published_;
  std::vector<comm::Fact> facts_;
  std::optional<Schedule> schedule_;
  std::optional<ClusterReport> report_;

  Inbox inbox_;
  std::unique_ptr<comm::AsioTransport> transport_;
  std::unique_ptr<comm::Coordinator> coordinator_;
  std::unique_ptr<Launcher> launcher_;
  std::optional<comm::Outcome> outcome_;
  std::optional<comm::Loss> loss_;
  std::exception_ptr failure_;  ///< of this process's own, which ends the job
  bool halted_ = false, begun_ = false;

  Mutex mutex_;
  Json tensor_list_ GUARDED_BY(mutex_);
  comm::CheckpointIntake<TensorStore> intake_;  ///< in the I/O thread
  bool drifted_ = false;  ///< in the I/O thread: nobody knows whose state is right

  net::Choices choices_;
  int64_t threads_ = 0;
  bool values_made_ = false;
  std::vector<PlacedTensor> values_;
  TraceCollection trace_;  ///< with --trace
  std::chrono::steady_clock::time_point asked_for_time_{};
  ClusterCheckpoints checkpoints_;
};

/// Whatever is thrown ends the job as any loss does.
template <class Action>
void ClusterRun::attempt(Action action) {
  try {
    action();
  } catch (...) {
    fail_by(std::current_exception());
  }
}

/// What cannot be made sense of is the sender's error, and ends the job.
template <class Action>
void ClusterRun::guarded(comm::NodeId node, Action action) {
  try {
    action();
  } catch (const ConfigError& error) {
    report_error(text(comm::name_of(node), ": ", error.what()));
  }
}

}  // namespace poseidon::trainer
