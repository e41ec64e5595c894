#include "trainer/member/worker_training.h"

#include "core/error.h"
#include "trainer/job/choices.h"
#include "trainer/measure/memory_estimate.h"
#include "trainer/plan/sync_plan.h"
#include "trainer/report/trace_file.h"
#include "trainer/step/backends.h"
#include "trainer/step/job_lost.h"

namespace poseidon::trainer {

WorkerTraining::WorkerTraining(const PreparedJob& job, const PublishedPlan& published,
                               const Reports& reports)
    : job_(job),
      published_(published),
      plan_(read_sync_plan(published, job.job, {comm::Role::kWorker, job.rank})),
      reports_(reports),
      limit_(published.first_step, published.last_step),
      trace_(published.trace ? std::make_unique<TraceRecorder>() : nullptr),
      exchange_(plan_, job.rank, job.job.device().indices.size(),
                static_cast<uint64_t>(published.first_step),
                [&session = reports.session](std::function<void()> task) {
                  session.transport().post(std::move(task));
                }) {
  exchange_.watch({.works = [this] { reports_.progress.sign("training"); },
                   .waits = [this] { reports_.progress.waits("sums"); }});
  const net::Net::Options options = net_options(job.job, published_, plan_, 2);
  warn_of_its_memory(options);
  computation_ = std::make_unique<WorkerComputation>(
      WorkerPart{.job = job.job,
                 .published = published_,
                 .plan = plan_,
                 .data = job.train_data,
                 .rank = job.rank,
                 .trace = trace_.get()},
      options,
      WorkerComputation::Makers{
          .backend = [&job](size_t device) { return make_backend(job.job, device); },
          .exchange =
              [this](size_t device, net::Net& net, layers::Updater& updater) {
                return exchange_.make_end(device, net, updater);
              },
          .lose = [this](const std::string& why) { exchange_.lose(why); }},
      reports.log);
}

/// Of a child its parent has warned, for all of them together.
void WorkerTraining::warn_of_its_memory(const net::Net::Options& options) const {
  if (job_.has_parent) return;
  warn_of_memory(job_.job, estimate_memory(job_.job, plan_, options), 1, reports_.log);
}

void WorkerTraining::announce() {
  const Json list = tensor_list(computation_->tensors());
  values_ = std::make_shared<TensorStore>(list);
  reports_.session.post([this, values = values_](WorkerSession& session) {
    comm::AsioTransport& transport = session.transport();
    transport.limit_bandwidth(bandwidth_share(job_.job.config, transport.has_neighbours()));
    session.built(exchange_, limit_);
    session.payload().expect(values);
  });
  if (job_.rank == 0)
    reports_.session.note(ClassesNote{job_.train_data.dataset->classes()}, published_.first_step);
  reports_.session.note(TensorsNote{.list = list,
                                    .choices = choices_json(computation_->engine().net().choices()),
                                    .threads = computation_->engine().threads()},
                        published_.first_step);
}

void WorkerTraining::take_values(const std::vector<int64_t>& indices) {
  reports_.progress.sign("taking first values");
  const int64_t in_flight = published_.in_flight;
  const std::vector<const NamedTensor*> tensors = in_order(computation_->tensors(), in_flight);
  for (const int64_t index : indices)
    tensors[static_cast<size_t>(index)]->set(
        values_->entries()[static_cast<size_t>(index)].values());
  values_.reset();
  const std::vector<int64_t> digests = tensor_digests(computation_->tensors(), in_flight);
  const bool meets_workers = !factored_layers(plan_).empty();
  reports_.progress.waits("its peers");
  reports_.session.post([this, digests, meets_workers](WorkerSession& session) {
    session.payload().open(plan_, exchange_, published_.trace, session.member().view(),
                           session.member().peers());
    session.member().ready(digests, meets_workers);
  });
}

void WorkerTraining::train() {
  RunLoop(*computation_, job_.test_data, *this, reports_.log).go();
  if (job_.rank == 0) reports_.sender.wait_until_written();
  report_traffic_and_trace();
  reports_.session.post([step = computation_->steps_done()](WorkerSession& session) {
    session.member().finished(step);
  });
}

bool WorkerTraining::begin(int64_t done) {
  const bool begins = limit_.begin(done);
  if (!begins && limit_.ended()) throw JobLost("the job has failed");
  if (begins) reports_.progress.sign("training");
  return begins;
}

void WorkerTraining::trained(StepReport report) {
  reports_.grace.took(report.times.all_ms());
  report.layer_wait_ms = exchange_.by_layer_of_plan(report.layer_wait_ms);
  reports_.session.post([report = std::move(report)](WorkerSession& session) {
    session.member().coordinator().note(
        write_note(step_note(report, session.payload().newly_moved()), report.step));
  });
}

/// Has the replicas compared, with the sums that stay in flight.
void WorkerTraining::settled(int64_t step) {
  comm::Digest digest{.step = step,
                      .values = tensor_digests(computation_->tensors(), computation_->in_flight())};
  reports_.session.post([digest = std::move(digest)](WorkerSession& session) {
    session.member().coordinator().digest(digest);
  });
}

/// Worker 0 has what the others have.
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
  if (limit_.ended()) throw JobLost("the job has failed");
  reports_.progress.sign("testing", done, of, "batches");
  return true;
}

void WorkerTraining::tested(int64_t step, const TestSums& sums) {
  reports_.session.note(TestNote{sums}, step);
}

int64_t WorkerTraining::cease() {
  computation_->revert_incomplete();
  return computation_->steps_done();
}

void WorkerTraining::report_traffic_and_trace() {
  reports_.session.post([](WorkerSession& session) {
    session.member().coordinator().note(
        write_note(TrafficNote{session.payload().moved()}, session.step_under_way()));
  });
  if (!published_.trace) return;
  for (const TraceNote& spans : write_spans(*trace_)) reports_.session.note(spans);
  reports_.session.post([](WorkerSession& session) {
    for (const TraceNote& spans : write_spans(session.payload().trace()->recorder()))
      session.member().coordinator().note(write_note(spans));
  });
}

}  // namespace poseidon::trainer
