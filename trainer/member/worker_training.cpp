#include "trainer/member/worker_training.h"

#include "core/error.h"
#include "trainer/job/choices.h"
#include "trainer/measure/memory_estimate.h"
#include "trainer/plan/sync_plan.h"
#include "trainer/report/trace_file.h"
#include "trainer/step/backends.h"
#include "trainer/step/job_failed.h"

namespace poseidon::trainer {

namespace {

void send_report(WorkerSession& session, ReportLog& sent, const comm::Note& note) {
  const comm::Payload encoded = comm::payload_of(comm::encode_message(note));
  sent.add(note.step, note.about == TestNote::kAbout, encoded);
  session.member().coordinator().encoded_note(encoded);
}

}  // namespace

WorkerTraining::WorkerTraining(const PreparedJob& job, const PublishedPlan& published,
                               const Reports& reports)
    : job_(job),
      reports_(reports),
      first_step_(published.first_step),
      trace_(published.trace ? std::make_unique<TraceRecorder>() : nullptr),
      view_(make_view(published)) {
  const net::Net::Options options = net_options(job.job, view_->published, view_->plan, 2);
  // A coordinator that started this process has already warned for all workers of the host.
  if (!job.has_parent)
    warn_of_memory(job.job, estimate_memory(job.job, view_->plan, options), 1, reports.log);
  computation_ = std::make_unique<WorkerComputation>(
      part(), options,
      WorkerComputation::Makers{
          .backend =
              [this](size_t device) { return make_backend(job_.job, device, &reports_.log); },
          .exchange =
              [this](size_t device, net::Net& net, layers::Updater& updater) {
                return view_->exchange.make_end(device, net, updater);
              },
          .set_failed = [this](const std::string& why) { view_->exchange.set_failed(why); }},
      reports.log);
}

std::shared_ptr<WorkerView> WorkerTraining::make_view(const PublishedPlan& published) {
  return std::make_shared<WorkerView>(
      job_, published, reports_.session,
      DeviceExchange::ActivityCallbacks{
          .works = [this] { reports_.progress.report_activity("training"); },
          .waits = [this] { reports_.progress.waits("sums"); }});
}

WorkerPart WorkerTraining::part() const {
  return {.job = job_.job,
          .published = view_->published,
          .plan = view_->plan,
          .data = job_.train_data,
          .rank = job_.rank,
          .trace = trace_.get(),
          .between_passes = [this](int64_t step) { compare_rotating_digests(step); }};
}

void WorkerTraining::announce() {
  const Json list = tensor_list(computation_->tensors());
  values_ = std::make_shared<TensorStore>(list);
  reports_.session.post([this, view = view_, values = values_](WorkerSession& session) {
    comm::AsioTransport& transport = session.transport();
    transport.limit_bandwidth(bandwidth_share(job_.job.config, transport.has_in_process_hub()));
    session.built(view->exchange, view->limit);
    session.payload().expect(values);
  });
  if (job_.rank == 0)
    reports_.session.note(ClassesNote{job_.train_data.dataset->classes()}, first_step_);
  net::Net& net = computation_->engine().net();
  reports_.session.note(TensorsNote{.list = list,
                                    .choices = choices_json(net.choices()),
                                    .implementations = implementations_json(net),
                                    .threads = computation_->engine().threads()},
                        first_step_);
}

void WorkerTraining::take_value(int64_t index) {
  reports_.progress.report_activity("receiving initial values");
  TensorStore::Entry& came = values_->entries()[static_cast<size_t>(index)];
  in_order(computation_->tensors(), view_->published.in_flight)[static_cast<size_t>(index)]->set(
      came.values());
  came.memory.reset();
}

void WorkerTraining::begin_with_values() {
  values_.reset();
  has_values_ = true;
  const std::vector<int64_t> digests =
      tensor_digests(computation_->tensors(), view_->published.in_flight);
  const bool meets_workers = !factored_layers(view_->plan).empty();
  reports_.progress.waits("its peers");
  reports_.session.post([view = view_, digests, meets_workers](WorkerSession& session) {
    session.built(view->exchange, view->limit);
    session.payload().open(view->plan, view->exchange, view->published.trace,
                           session.member().view(), session.member().peers());
    session.member().ready(digests, meets_workers);
  });
}

/// The posted task owns the old view. The I/O thread destroys the view with the task, after all
/// contributions that were posted before.
void WorkerTraining::go_on(const PublishedPlan& published) {
  if (published.receives_values(job_.rank)) has_values_ = false;
  const bool keeps_values = has_values_ && !published.restored;
  computation_->end_plan(keeps_values ? std::optional(published.first_step) : std::nullopt);
  if (!has_values_) first_step_ = published.first_step;
  reports_.session.post([before = std::exchange(view_, make_view(published))](WorkerSession&) {});
  computation_->plan(part());
  if (published.restored && published.first_step == 0) computation_->restore_initial_values();
  if (!keeps_values) return announce();
  begin_with_values();
}

void WorkerTraining::train() {
  RunLoop(*computation_, job_.test_data, *this, reports_.log).go(view_->published.again);
  if (job_.rank == 0) reports_.sender.wait_until_written();
  report_traffic_and_trace();
  reports_.session.post([step = computation_->steps_done()](WorkerSession& session) {
    session.member().finished(step);
  });
}

/// If joiners wait, makes all due updates before it pauses, because the joiners begin with these
/// values.
bool WorkerTraining::begin(int64_t done) {
  const StepLimit::Next next = view_->limit.begin(done);
  if (next == StepLimit::Next::kPause) {
    computation_->drain_for_checkpoint();
    reports_.progress.waits("joiners");
    reports_.session.post(
        [done](WorkerSession& session) { session.member().coordinator().paused(done); });
    view_->limit.await_end();
  }
  const bool begins = next == StepLimit::Next::kBegin;
  if (!begins && view_->limit.ended()) throw JobFailed("the job has failed");
  if (begins) reports_.progress.report_activity("training");
  return begins;
}

void WorkerTraining::trained(StepReport report) {
  reports_.grace.add_step_time(report.times.all_ms());
  report.layer_wait_ms = view_->exchange.by_layer_of_plan(report.layer_wait_ms);
  reports_.session.post(
      [&sent = reports_.sent, report = std::move(report)](WorkerSession& session) {
        send_report(session, sent,
                    write_note(step_note(report, session.payload().newly_moved()), report.step));
      });
}

/// Sends the digests of all tensors and sums in flight for the replica divergence check.
void WorkerTraining::drained(int64_t step) {
  drained_step_ = step;
  comm::Digest digest{.step = step,
                      .turn = comm::Digest::kAll,
                      .values = tensor_digests(computation_->tensors(), computation_->in_flight())};
  reports_.session.post([digest = std::move(digest)](WorkerSession& session) {
    session.member().coordinator().digest(digest);
  });
}

/// Sends the digests of some tensors for the replica divergence check. The step after `step` is
/// computed with these values.
void WorkerTraining::compare_rotating_digests(int64_t step) const {
  const int64_t every = job_.job.config.cluster.digest_every;
  if (every == 0 || step % every != 0 || step == drained_step_) return;
  if (step == view_->published.first_step) return;  // all tensors are compared when a view begins
  comm::Digest digest{.step = step, .turn = step / every % comm::kDigestTurns, .values = {}};
  digest.values = rotating_tensor_digests(computation_->tensors(), digest.turn, comm::kDigestTurns);
  reports_.session.post([digest = std::move(digest)](WorkerSession& session) {
    session.member().coordinator().digest(digest);
  });
}

/// All replicas are equal, so only worker 0 sends checkpoints.
void WorkerTraining::checkpoint(int64_t step) {
  if (job_.rank == 0) send_checkpoint(step);
}

void WorkerTraining::send_checkpoint(int64_t step) {
  if (reports_.sender.sent_step() == step) return;
  const int64_t in_flight = computation_->in_flight();
  refuse_non_finite(computation_->tensors(), in_flight, step);
  reports_.sender.send(step, computation_->tensors(), in_flight);
}

bool WorkerTraining::testing(int64_t done, int64_t of) {
  if (view_->limit.ended()) throw JobFailed("the job has failed");
  reports_.progress.report_activity("testing", done, of, "batches");
  return true;
}

void WorkerTraining::tested(int64_t step, const TestSums& sums) {
  reports_.session.post([&sent = reports_.sent, note = write_note(TestNote{sums}, step)](
                            WorkerSession& session) { send_report(session, sent, note); });
}

int64_t WorkerTraining::stop_computing() {
  const int64_t step = last_complete_step();
  computation_->revert_to(step);
  return step;
}

void WorkerTraining::report_traffic_and_trace() {
  reports_.session.post([](WorkerSession& session) {
    if (session.payload().is_open())
      session.member().coordinator().note(
          write_note(TrafficNote{session.payload().moved()}, session.step_under_way()));
  });
  if (!trace_) return;
  for (const TraceNote& spans : write_spans(*trace_)) reports_.session.note(spans);
  reports_.session.post([](WorkerSession& session) {
    if (!session.payload().is_open()) return;
    for (const TraceNote& spans : write_spans(session.payload().trace()->recorder()))
      session.member().coordinator().note(write_note(spans));
  });
}

}  // namespace poseidon::trainer
