#pragma once

#include <memory>
#include <string>

#include "comm/asio/driver.h"
#include "comm/membership/member.h"
#include "core/inbox.h"
#include "core/log.h"
#include "trainer/member/member_options.h"
#include "trainer/member/worker_payload.h"
#include "trainer/messages/notes.h"
#include "trainer/step/step_limit.h"

namespace poseidon::trainer {

class WorkerTask;

/// The protocol side of a worker in one job. Used by the I/O thread, except where noted. It posts
/// long work to the inbox; the main thread then calls the WorkerTask.
class WorkerSession final : public comm::MemberHost {
 public:
  /// All arguments must stay valid until the transport stops. `task` may be constructed later, but
  /// before Member::join().
  WorkerSession(const MemberOptions& options, Inbox& inbox, WorkerTask& task, Log& log);

  // Called by any thread.
  comm::AsioTransport& transport() { return *transport_; }
  /// Calls `action` with this session in the I/O thread. Actions run in the order of the calls.
  template <class Action>
  void post(Action action) {
    transport_->post([this, action = std::move(action)] { action(*this); });
  }
  template <class Content>
  void note(const Content& content, int64_t step = 0) {
    post([note = write_note(content, step)](WorkerSession& self) {
      self.member().coordinator().note(note);
    });
  }

  // Called in the I/O thread.
  comm::Member& member() { return *member_; }
  WorkerPayload& payload() { return payload_; }
  /// Connects the session to the view that the main thread has built. Both arguments must stay
  /// valid until the view ends.
  void built(ClusterExchange& exchange, StepLimit& limit);
  /// Reports to the coordinator that the main thread has stopped computing, because the job
  /// continues in another view. `step` is the last complete step, `least` the earliest step to
  /// which this worker can revert.
  void left_view(int64_t step, int64_t least);
  /// Reports to the coordinator that the main thread has stopped computing, because the job has
  /// failed. `step` is the last complete step.
  void stopped(int64_t step);

  void welcomed(uint16_t rank, const Json& job) override;
  void unreachable(const std::string& why) override { log_.warning(why); }
  void refused(const std::string& why) override;
  void planned(const comm::Planned& planned) override;
  void started(uint64_t first_step) override;
  void noted(const comm::Note& note) override;
  int64_t offer_halt() override { return limit_ == nullptr ? 0 : limit_->offer(); }
  void halt(int64_t step) override;
  void pause(int64_t step) override;
  int64_t step_under_way() override { return limit_ == nullptr ? step_left_ : limit_->begun(); }
  void reconfigure(const comm::NodeFailure& node_failure) override;
  void failed(const comm::NodeFailure& node_failure, bool alone) override;
  void save(int64_t step) override;
  void dismissed() override;

 private:
  void end_computing(const std::string& why);
  void close_view();

  Inbox& inbox_;
  WorkerTask& task_;
  Log& log_;
  const std::unique_ptr<comm::AsioTransport> transport_;
  WorkerPayload payload_;
  const std::unique_ptr<comm::Member> member_;
  /// exchange_ and limit_ belong to the view. They are null between the end of a view and built().
  ClusterExchange* exchange_ = nullptr;
  StepLimit* limit_ = nullptr;
  int64_t step_left_ = 0;  ///< if limit_ is null: the step that was in progress in the last view
  bool has_been_built_ = false;
  int64_t stopped_step_ = -1;  ///< last complete step, after a failure has stopped the worker
};

}  // namespace poseidon::trainer
