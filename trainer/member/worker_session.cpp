#include "trainer/member/worker_session.h"

#include "core/error.h"
#include "core/overloaded.h"
#include "trainer/member/worker_task.h"
#include "trainer/report/trace_file.h"

namespace poseidon::trainer {

WorkerSession::WorkerSession(const MemberOptions& options, Inbox& inbox, WorkerTask& task, Log& log)
    : inbox_(inbox),
      task_(task),
      log_(log),
      transport_(make_transport(options, comm::Role::kWorker, log,
                                [&inbox](std::exception_ptr failure) {
                                  inbox.post([failure] { std::rethrow_exception(failure); });
                                })),
      payload_(
          {.tensor_came =
               [this](int64_t index) { inbox_.post([this, index] { task_.take_value(index); }); },
           .all_came = [this] { inbox_.post([this] { task_.begin_with_values(); }); }}),
      member_(
          std::make_unique<comm::Member>(joining_options(options, comm::Role::kWorker, *transport_),
                                         *transport_, *this, payload_)) {}

void WorkerSession::built(ClusterExchange& exchange, StepLimit& limit) {
  exchange_ = &exchange;
  limit_ = &limit;
  has_been_built_ = true;
}

/// The main thread may have built the next view before it received the request to leave.
/// close_view() closes that view too.
void WorkerSession::left_view(int64_t step, int64_t least) {
  close_view();
  member_->coordinator().left_view(step, least);
}

void WorkerSession::stopped(int64_t step) {
  stopped_step_ = step;
  member_->coordinator().stopped(step);
}

void WorkerSession::welcomed(uint16_t rank, const Json& job) {
  inbox_.post([this, rank, job] { task_.prepare(rank, job); });
}

void WorkerSession::refused(const std::string& why) {
  inbox_.post([this, why] {
    log_.warning("not admitted: " + why);
    task_.over(MemberEnd::kRefused);
  });
}

/// Clears the stored reports: the coordinator has begun the next view, so it has received all
/// reports of the previous one.
void WorkerSession::planned(const comm::Planned& planned) {
  task_.reports().clear();
  inbox_.post([this, planned, rank = member_->rank()] { task_.build(planned, rank); });
}

void WorkerSession::started(uint64_t first_step) {
  inbox_.post([this, first_step] {
    log_.info(text("begins with step ", first_step + 1));
    task_.train();
  });
}

void WorkerSession::noted(const comm::Note& note) {
  if (note.about == ValuesNote::kAbout) return payload_.announce(note);
  dispatch<ClockNote, WrittenNote, FetchNote, RecordedNote>(
      note, Overloaded{[&](const ClockNote& clock) {
                         member_->coordinator().note(write_note(clock_answer(clock)));
                       },
                       [&](const WrittenNote&) { task_.sender().written(note.step); },
                       [&](const FetchNote&) {
                         inbox_.post([this, step = note.step] { task_.send_step(step); });
                       },
                       [&](const RecordedNote&) { task_.reports().acknowledge(note.step); }});
}

void WorkerSession::halt(int64_t step) {
  if (limit_ != nullptr) limit_->halt(step);
}

void WorkerSession::pause(int64_t step) {
  if (limit_ != nullptr) limit_->pause(step);
}

void WorkerSession::end_computing(const std::string& why) {
  if (exchange_ != nullptr) {
    exchange_->set_failed(why);
    limit_->end();
  }
  task_.sender().end();
}

/// Closes the payload and the exchange of the view. Later contributions of the main thread are
/// dropped.
void WorkerSession::close_view() {
  if (limit_ == nullptr) return;
  step_left_ = limit_->begun();
  payload_.close();
  exchange_->close();
  exchange_ = nullptr;
  limit_ = nullptr;
}

void WorkerSession::reconfigure(const comm::NodeFailure& node_failure) {
  end_computing(node_failure.message());
  close_view();
  inbox_.post([this, node_failure] { task_.leave_view(node_failure); });
}

void WorkerSession::failed(const comm::NodeFailure& node_failure, bool alone) {
  end_computing(node_failure.message());
  task_.start_exit_timeout("the job has failed, but its computation did not stop");
  if (node_failure.kind == comm::NodeFailure::Kind::kDiverged &&
      node_failure.who == comm::NodeId{comm::Role::kWorker, member_->rank()})
    inbox_.post([this, job = member_->job()] { task_.avoid(job); });
  inbox_.post([this, node_failure, alone] { task_.end_after(node_failure, alone); });
}

void WorkerSession::save(int64_t step) {
  if (!has_been_built_ || step != stopped_step_)
    throw ConfigError(text("it requests a checkpoint of step ", step,
                           ", expected this worker's last complete step"));
  inbox_.post([this, step] { task_.save(step); });
}

/// In a job that has not failed, a dismissal of a worker that still makes steps is an error of the
/// coordinator. end_computing() then ends the waits of the main thread.
void WorkerSession::dismissed() {
  end_computing("dismissed by the coordinator");
  inbox_.post([this] { task_.dismissed(); });
}

}  // namespace poseidon::trainer
