#include <algorithm>

#include "comm/membership/member.h"
#include "core/error.h"
#include "core/failure.h"
#include "core/inbox.h"
#include "trainer/member/member_options.h"
#include "trainer/member/server_payload.h"
#include "trainer/messages/job_message.h"
#include "trainer/messages/member_end.h"
#include "trainer/messages/notes.h"
#include "trainer/plan/published_plan.h"
#include "trainer/plan/sync_plan.h"
#include "trainer/report/trace_file.h"

namespace poseidon::trainer {

namespace {

/// A server in one job. The I/O thread does all the work. The main thread waits for the end.
class ServerRun final : public comm::MemberHost {
 public:
  ServerRun(const MemberOptions& options, Log& log);
  MemberEnd go();

 private:
  void welcomed(uint16_t rank, const Json& job) override;
  void unreachable(const std::string& why) override { log_.warning(why); }
  void refused(const std::string& why) override;
  void planned(const comm::Planned& planned) override;
  void started(uint64_t first_step) override;
  void noted(const comm::Note& note) override;
  void concluded() override;
  int64_t step_under_way() override { return std::max(begun_step_, payload_.step_under_way()); }
  void reconfigure(const comm::NodeFailure& node_failure) override;
  void failed(const comm::NodeFailure& node_failure, bool alone) override;
  void dismissed() override;

  void over(MemberEnd end);
  void guarded(const std::function<void()>& action);

  const MemberOptions& options_;
  Log& log_;
  Inbox inbox_;
  ServerPayload payload_;
  const std::unique_ptr<comm::AsioTransport> transport_;
  const std::unique_ptr<comm::Member> member_;
  std::optional<MemberEnd> end_;  ///< used by the main thread
  std::optional<comm::NodeFailure> node_failure_;
  Job job_;
  bool began_ = false;      ///< the first step has begun
  int64_t begun_step_ = 0;  ///< first step of the last view, from 1; 0 before the first view
};

ServerRun::ServerRun(const MemberOptions& options, Log& log)
    : options_(options),
      log_(log),
      transport_(make_transport(options, comm::Role::kServer, log,
                                [this](std::exception_ptr failure) {
                                  inbox_.post([failure] { std::rethrow_exception(failure); });
                                })),
      member_(
          std::make_unique<comm::Member>(joining_options(options, comm::Role::kServer, *transport_),
                                         *transport_, *this, payload_)) {}

MemberEnd ServerRun::go() {
  return join_and_run(options_, *transport_, *member_, inbox_, end_, log_);
}

void ServerRun::over(MemberEnd end) {
  inbox_.post([this, end] { end_ = end; });
}

void ServerRun::guarded(const std::function<void()>& action) {
  try {
    action();
  } catch (...) {
    member_->report_error(message_of(std::current_exception()));
  }
}

void ServerRun::welcomed(uint16_t rank, const Json& job) {
  guarded([&] {
    const JobMessage message = read_job_message(job);
    job_.config = read_job_config(message.config, message.file);
    transport_->control_congestion(job_.config.comm.congestion_control);
    job_.network = std::make_unique<net::Network>(
        message.network, message.network_file, job_.config.shard_batch(), label_form(job_.config));
    log_.info(text("joined the job \"", job_.config.name, "\" as server ", rank));
    options_.heartbeat->joined(text("server ", rank, " of the job \"", job_.config.name, "\""));
    options_.heartbeat->does({.doing = "waiting for the job to begin", .unit = {}, .waits = true});
    member_->prepared({});
  });
}

void ServerRun::refused(const std::string& why) {
  log_.warning("not admitted: " + why);
  over(MemberEnd::kRefused);
}

void ServerRun::planned(const comm::Planned& planned) {
  guarded([&] {
    const PublishedPlan published = read_published_plan(planned.plan);
    payload_.open(read_sync_plan(published, job_, {comm::Role::kServer, member_->rank()}),
                  member_->rank(),
                  {.view = member_->view(),
                   .first_step = static_cast<uint64_t>(published.first_step),
                   .seed = static_cast<uint64_t>(job_.config.train.seed)},
                  published.trace, member_->peers());
    transport_->limit_bandwidth(bandwidth_share(job_.config, transport_->has_in_process_hub()));
    member_->ready({}, false);
  });
}

void ServerRun::started(uint64_t first_step) {
  began_ = true;
  begun_step_ = static_cast<int64_t>(first_step) + 1;
  log_.info(text("begins with step ", first_step + 1));
  options_.heartbeat->does({.doing = "summing gradients", .unit = {}, .waits = true});
}

void ServerRun::noted(const comm::Note& note) {
  dispatch<ClockNote>(note, [&](const ClockNote& clock) {
    member_->coordinator().note(write_note(clock_answer(clock)));
  });
}

void ServerRun::concluded() {
  payload_.report(member_->coordinator());
  member_->finished(0);
}

/// A server has no values to restore: a repeated step begins with new sums.
void ServerRun::reconfigure(const comm::NodeFailure& node_failure) {
  log_next_view(node_failure, log_);
  payload_.close();
  member_->coordinator().left_view(0, 0);
}

void ServerRun::failed(const comm::NodeFailure& node_failure, bool alone) {
  node_failure_ = node_failure;
  log_.warning(end_text(node_failure, {comm::Role::kServer, member_->rank()}));
  if (!alone) {
    payload_.report(member_->coordinator());
    return member_->coordinator().stopped(0);
  }
  member_->leave();
  over(end_of(node_failure));
}

void ServerRun::dismissed() {
  if (began_ && !node_failure_) log_.info("the job is done");
  over(node_failure_ ? end_of(*node_failure_) : MemberEnd::kDone);
}

}  // namespace

MemberEnd run_server(const MemberOptions& options, Log& log) {
  return ServerRun(options, log).go();
}

}  // namespace poseidon::trainer
