#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/membership/coordinator.h"
#include "core/inbox.h"
#include "trainer/coordinator/checkpoint_reception.h"
#include "trainer/coordinator/cluster_records.h"
#include "trainer/coordinator/kept_offers.h"
#include "trainer/coordinator/launcher.h"
#include "trainer/coordinator/run_plan.h"

namespace poseidon::trainer {

/// What the course of a job means to the main thread, beside what is recorded of it.
class JobWatcher {
 public:
  virtual ~JobWatcher() = default;
  virtual void lost(const comm::Loss& loss) = 0;
  /// The end of the job does not wait for this node.
  virtual void given_up(comm::NodeId node) = 0;
  virtual void ended(const comm::Outcome& outcome) = 0;
};

/// The objects of a coordinator that live in its I/O thread.
struct CoordinatorSide {
  RunPlan plan;
  KeptOffers kept;
  CheckpointReception reception;
  comm::Coordinator* coordinator = nullptr;  ///< set before the thread begins
};

/// A coordinator's process as comm::Coordinator sees it. It lives in the I/O thread; what takes
/// time, writes files or speaks to the user is posted to the inbox, from which the main thread runs
/// it on records and watcher.
class CoordinatorSession final : public comm::CoordinatorHost {
 public:
  struct Setting {
    const Job& job;
    const RunOptions& options;
    const Gathering& gathering;
    Json job_message;  ///< what a member needs to open the job
    std::string run;   ///< RunDirectory::id()
    bool goes_on;      ///< with the latest step of this run that anybody has
    Inbox& inbox;
    ClusterRecords& records;
    JobWatcher& watcher;
  };
  /// All must outlive it. What records and watcher have not marked as for any thread is called by
  /// the inbox.
  CoordinatorSession(const Setting& setting, CoordinatorSide& side)
      : setting_(setting), side_(side) {}

  Json job() override { return setting_.job_message; }
  void refused(const std::string& address, const std::string& why) override;
  void joined(comm::NodeId node, const std::string& address) override;
  bool wants_link() override { return side_.plan.wants_link(); }
  void measured_link(const comm::LinkRate& rate, bool one_host) override;
  std::optional<uint16_t> fetch_kept_step() override;
  int64_t first_step() override { return side_.plan.published().first_step; }
  std::optional<Json> plan(const std::vector<comm::Fact>& facts) override;
  void started() override;
  void noted(comm::NodeId node, const comm::Note& note) override;
  void agreed(int64_t step, const std::vector<int64_t>& digest) override;
  std::string tensor_name(size_t index) override { return side_.reception.tensor_name(index); }
  comm::Placement place(uint16_t worker, const comm::FrameHeader& header) override {
    return side_.reception.place(worker, header);
  }
  void received(uint16_t worker, const comm::FrameHeader&) override {
    side_.reception.received(worker);
  }
  void failed(const comm::Loss& loss) override;
  bool wants_checkpoint(int64_t step) override;
  void not_saved(uint16_t worker, const std::string& why) override;
  void slow(comm::NodeId, const std::string& what) override { warn(what); }
  void given_up(comm::NodeId node) override;
  void ended(const comm::Outcome& outcome) override;

 private:
  void say(const std::string& message);
  void warn(const std::string& message);
  void take_offer(comm::NodeId worker, const comm::Note& note);
  void take_checkpoint(uint16_t worker, const comm::Note& note);

  const Setting setting_;
  CoordinatorSide& side_;
  bool drifted_ = false;  ///< nobody knows whose state is right
};

}  // namespace poseidon::trainer
