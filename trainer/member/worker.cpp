#include <atomic>

#include "comm/exchange/tensor_intake.h"
#include "comm/membership/member.h"
#include "core/error.h"
#include "core/failure.h"
#include "core/inbox.h"
#include "trainer/job/choices.h"
#include "trainer/measure/memory_estimate.h"
#include "trainer/measure/timing.h"
#include "trainer/member/checkpoint_sender.h"
#include "trainer/member/end_watch.h"
#include "trainer/member/flow_trace.h"
#include "trainer/member/member_job.h"
#include "trainer/member/member_options.h"
#include "trainer/member/progress.h"
#include "trainer/messages/device_note.h"
#include "trainer/messages/facts.h"
#include "trainer/messages/job_message.h"
#include "trainer/messages/member_end.h"
#include "trainer/messages/notes.h"
#include "trainer/messages/step_message.h"
#include "trainer/plan/published_plan.h"
#include "trainer/plan/sync_plan.h"
#include "trainer/report/run_lock.h"
#include "trainer/report/trace_file.h"
#include "trainer/run/computation.h"
#include "trainer/state/run_tensors.h"
#include "trainer/state/survivor_checkpoint.h"
#include "trainer/state/tensor_store.h"
#include "trainer/step/backends.h"
#include "trainer/step/evaluation.h"
#include "trainer/step/job_lost.h"

namespace poseidon::trainer {

namespace {

constexpr auto kPatienceWithSurvivors = std::chrono::seconds(10);
/// With the computing thread when the job has failed or is over; more where steps are long.
constexpr auto kPatienceWithComputing = std::chrono::milliseconds(5000);
constexpr auto kPatienceWithDisk = std::chrono::seconds(120);
/// Of each layer's timing at the join: others wait for it.
constexpr int kJoinRepeats = 5;

/// A worker's part in one job. The main thread computes and does what the inbox says; the I/O
/// thread calls the functions of comm::MemberHost.
class WorkerRun final : public comm::MemberHost {
 public:
  WorkerRun(const MemberOptions& options, Log& log);
  MemberEnd go();

 private:
  // The I/O thread.
  void welcomed(uint16_t rank, const Json& job) override;
  void unreachable(const std::string& why) override { log_.warning(why); }
  void refused(const std::string& why) override;
  void planned(const comm::Planned& planned) override;
  void started(uint64_t first_step) override;
  comm::Placement place(comm::NodeId from, const comm::FrameHeader& header) override;
  void received(comm::NodeId from, const comm::FrameHeader& header) override;
  void forgotten(comm::NodeId) override {}
  void noted(const comm::Note& note) override;
  void expect_values(const comm::Note& note);
  void take(int64_t step, const ClockNote& clock);
  void take(int64_t step, const WrittenNote&);
  void take(int64_t step, const FetchNote&);
  int64_t offer_halt() override;
  void halt(int64_t step) override;
  void concluded() override {}
  std::string awaiting(comm::NodeId node) override;
  int64_t step_under_way() override;
  void failed(const comm::Loss& loss, bool alone) override;
  void save(int64_t step) override;
  void dismissed() override;

  // The main thread.
  void prepare(uint16_t rank, const Json& job);
  void offer_kept_step();
  void give_kept_step(int64_t step);
  void build(const comm::Planned& planned);
  void take_values();
  void train();
  void train_to_the_end();
  void agree(int64_t step);
  void test(int64_t step);
  void send_checkpoint(int64_t step);
  template <class Content>
  void tell(const Content& content, int64_t step = 0);
  void tell_step(StepReport report);
  void tell_traffic();
  void tell_trace();
  void end_after(const comm::Loss& loss, bool alone);
  RunState state_after(int64_t step) const;
  void save_alone(int64_t step);
  void keep_last_step();
  void fail(const std::string& why);
  void must_end_soon(const char* why);
  template <class Action>
  void guarded(Action action);
  void over(MemberEnd end);

  const MemberOptions& options_;
  Log& log_;
  const std::string run_lock_;  ///< of a child: its parent's, as it was when this began
  EndWatch end_watch_;          ///< over when all else is
  std::atomic<int64_t> longest_step_ms_ = 0;
  ProgressReporter progress_;
  Inbox inbox_;
  std::unique_ptr<TraceRecorder> compute_trace_;  ///< both only with --trace
  std::unique_ptr<FlowTrace> flow_trace_;
  std::unique_ptr<comm::AsioTransport> transport_;
  std::unique_ptr<comm::Member> member_;
  std::optional<MemberEnd> end_;
  std::optional<comm::Loss> loss_;

  uint16_t rank_ = 0;
  JobMessage message_;
  Job job_;
  PreparedData train_data_, test_data_;
  PublishedPlan published_;
  comm::Plan plan_;
  std::unique_ptr<Computation> computation_;
  std::atomic<Computation*> live_ = nullptr;  ///< the same, as the I/O thread may see it
  std::unique_ptr<TensorStore> values_;       ///< first values that the coordinator sends
  std::vector<int64_t> values_wanted_;
  std::optional<comm::TensorIntake> values_intake_;  ///< of those wanted; in the I/O thread
  SchemeBytes told_bytes_;                           ///< in the I/O thread
  int64_t stopped_step_ = -1;               ///< as it has told after a loss; in the I/O thread
  bool began_ = false;                      ///< the first step
  std::optional<CheckpointSender> sender_;  ///< made with the member
  int64_t agreed_step_ = -1, tested_step_ = -1;
};

WorkerRun::WorkerRun(const MemberOptions& options, Log& log)
    : options_(options),
      log_(log),
      run_lock_(RunLock::words_in(options.run_directory)),
      end_watch_(options.abandon),
      progress_([this](const comm::Progress& progress) {
        transport_->post([this, progress] { member_->progress(progress); });
      }),
      transport_(
          make_transport(options, comm::Role::kWorker, log, [this](std::exception_ptr failure) {
            inbox_.post([failure] { std::rethrow_exception(failure); });
          })) {
  member_ = std::make_unique<comm::Member>(
      joining_options(options, comm::Role::kWorker, *transport_), *transport_, *this);
  sender_.emplace(*transport_, *member_, progress_);
}

MemberEnd WorkerRun::go() { return take_part(options_, *transport_, *member_, inbox_, end_, log_); }

void WorkerRun::over(MemberEnd end) {
  if (!end_) end_ = end;
  must_end_soon("the threads of the job did not end");
}

/// From any thread. A step cannot be interrupted, and may be long.
void WorkerRun::must_end_soon(const char* why) {
  end_watch_.expect(
      std::max(kPatienceWithComputing, std::chrono::milliseconds(4 * longest_step_ms_)), why);
}

/// What goes wrong here is this worker's own error: all others are told of it.
template <class Action>
void WorkerRun::guarded(Action action) {
  try {
    action();
  } catch (...) {
    fail(message_of(std::current_exception()));
  }
}

void WorkerRun::fail(const std::string& why) {
  transport_->post([this, why] { member_->report_error(why); });
}

// ---- the I/O thread

void WorkerRun::welcomed(uint16_t rank, const Json& job) {
  inbox_.post([this, rank, job] { guarded([&] { prepare(rank, job); }); });
}

void WorkerRun::refused(const std::string& why) {
  inbox_.post([this, why] {
    log_.warning("not let in: " + why);
    over(MemberEnd::kRefused);
  });
}

void WorkerRun::planned(const comm::Planned& planned) {
  transport_->limit_bandwidth(bandwidth_share(job_.config));
  inbox_.post([this, planned] { guarded([&] { build(planned); }); });
}

void WorkerRun::started(uint64_t first_step) {
  inbox_.post([this, first_step] {
    log_.info(text("begins with step ", first_step + 1));
    train();
  });
}

comm::Placement WorkerRun::place(comm::NodeId from, const comm::FrameHeader& header) {
  if (from.role == comm::Role::kCoordinator)
    return values_intake_ ? values_intake_->place(header)
                          : comm::Placement::refused("sent a tensor that was not asked for");
  Computation* live = live_;
  if (live == nullptr || !live->exchange.is_open())
    return comm::Placement::refused("sent numbers before the job began");
  comm::Placement placement = live->exchange.numbers().place(from, header);
  if (flow_trace_ && placement.accepted) flow_trace_->announced(from);
  return placement;
}

void WorkerRun::received(comm::NodeId from, const comm::FrameHeader& header) {
  if (from.role != comm::Role::kCoordinator) {
    if (flow_trace_) flow_trace_->arrived(from, header);
    return live_.load()->exchange.numbers().received(from, header);
  }
  values_intake_->received();
  if (values_intake_->complete()) inbox_.post([this] { guarded([this] { take_values(); }); });
}

void WorkerRun::noted(const comm::Note& note) {
  if (note.about == "values") return expect_values(note);
  dispatch<ClockNote, WrittenNote, FetchNote>(
      note, [&](const auto& content) { take(note.step, content); });
}

void WorkerRun::take(int64_t, const ClockNote& clock) {
  member_->note(write_note(clock_answer(clock)));
}

void WorkerRun::take(int64_t step, const WrittenNote&) { sender_->written(step); }

void WorkerRun::take(int64_t step, const FetchNote&) {
  inbox_.post([this, step] { guarded([&] { give_kept_step(step); }); });
}

/// Throws ConfigError when there are no such tensors.
void WorkerRun::expect_values(const comm::Note& note) {
  if (values_ == nullptr || values_intake_)
    throw ConfigError("first values are sent once, after the plan");
  std::vector<int64_t> places;
  read_fields(note.content, {"first values", ""}, [&](Fields& fields) {
    fields.integers("tensors", places, at_least(0), "", Presence::kRequired);
  });
  const std::vector<std::span<std::byte>> memory = values_->memory();
  std::vector<std::span<std::byte>> wanted(memory.size());
  for (int64_t place : places) {
    if (static_cast<size_t>(place) >= memory.size())
      throw ConfigError(text("expected one of ", memory.size(), " tensors, got ", place));
    wanted[static_cast<size_t>(place)] = memory[static_cast<size_t>(place)];
  }
  values_wanted_ = places;
  values_intake_.emplace(std::move(wanted));
  if (values_intake_->complete()) inbox_.post([this] { guarded([this] { take_values(); }); });
}

int64_t WorkerRun::offer_halt() {
  Computation* live = live_;
  return live != nullptr ? live->limit.offer() : 0;
}

void WorkerRun::halt(int64_t step) {
  if (Computation* live = live_) live->limit.halt(step);
}

int64_t WorkerRun::step_under_way() {
  Computation* live = live_;
  return live != nullptr ? live->limit.begun() : 0;
}

std::string WorkerRun::awaiting(comm::NodeId node) {
  Computation* live = live_;
  return live != nullptr ? live->exchange.awaiting(node) : "";
}

void WorkerRun::failed(const comm::Loss& loss, bool alone) {
  if (Computation* live = live_) {
    live->exchange.lose(loss.message());
    live->limit.end();
  }
  sender_->end();
  must_end_soon("the job has failed, and its computing did not cease");
  inbox_.post([this, loss, alone] { end_after(loss, alone); });
}

void WorkerRun::save(int64_t step) {
  if (live_ == nullptr || step != stopped_step_)
    throw ConfigError(text("it asks for a checkpoint of step ", step,
                           " in place of this worker's last complete one"));
  inbox_.post([this, step] {
    try {
      send_checkpoint(step);
      transport_->post([this, step] { member_->saved(step); });
    } catch (const JobLost&) {
      // Dismissed meanwhile.
    } catch (...) {
      transport_->post(
          [this, why = message_of(std::current_exception())] { member_->cannot_save(why); });
    }
  });
}

void WorkerRun::dismissed() {
  // After its last step nobody waits; before, a coordinator that is wrong must not leave one
  // waiting.
  if (Computation* live = live_) {
    live->exchange.lose("dismissed by the coordinator");
    live->limit.end();
  }
  sender_->end();
  inbox_.post([this] {
    if (began_ && !loss_) log_.info("the job is done");
    keep_last_step();
    over(loss_ ? end_of(*loss_) : MemberEnd::kDone);
  });
}

// ---- the main thread

void WorkerRun::prepare(uint16_t rank, const Json& job) {
  rank_ = rank;
  message_ = read_job_message(job);
  job_ = open_job_message(message_, options_);
  log_.info(text("joined the job \"", job_.config.name, "\" as worker ", rank));
  progress_.sign("opening the training set");
  train_data_ = open_data(job_, DataPart::kTrain, log_);
  progress_.sign("opening the test set");
  test_data_ = open_test_data(job_, train_data_, log_);
  progress_.sign("timing layers");
  // By the fixed rule: the choices are published with the plan.
  if (message_.times_layers)
    tell(TimesNote{
        read_layer_times(time_layers(job_, {}, kJoinRepeats, log_), "this worker's times")});
  tell(device_note(job_.config.device.threads));
  offer_kept_step();
  std::vector<comm::Fact> facts = facts_of(job_, train_data_, test_data_);
  progress_.waits("the others to be prepared");
  transport_->post([this, facts] { member_->prepared(facts); });
}

/// The coordinator may have been lost since this was its last checkpoint.
void WorkerRun::offer_kept_step() {
  if (!message_.goes_on || options_.keeper == nullptr) return;
  const KeptStep* kept = options_.keeper->of(message_.run);
  if (kept == nullptr) return;
  tell(
      KeptNote{
          .run = kept->run, .state = kept->state, .list = tensor_list(kept->tensors->tensors())},
      kept->state.step);
}

void WorkerRun::give_kept_step(int64_t step) {
  KeptStep* kept = options_.keeper != nullptr ? options_.keeper->of(message_.run) : nullptr;
  if (kept == nullptr || kept->state.step != step)
    throw ConfigError(text("it asks for step ", step, ", which this worker does not keep"));
  try {
    sender_->send(step, kept->tensors->tensors(), kept->state.in_flight);
    progress_.waits("the others to be prepared");
  } catch (const JobLost&) {
    // It is kept on.
  }
}

void WorkerRun::build(const comm::Planned& planned) {
  progress_.sign("building the net");
  published_ = read_published_plan(planned.plan);
  plan_ = read_sync_plan(published_, job_, {comm::Role::kWorker, rank_});
  if (published_.trace) {
    compute_trace_ = std::make_unique<TraceRecorder>();
    flow_trace_ = std::make_unique<FlowTrace>(plan_, *member_);
  }
  // A child's parent has done it, for all of them together.
  if (options_.run_directory.empty())
    warn_of_memory(job_, estimate_memory(job_, plan_, net_options(job_, published_, plan_)), 1,
                   log_);
  computation_ = std::make_unique<Computation>(
      make_backend(job_), job_, published_, plan_, rank_, train_data_,
      [this](std::function<void()> task) {
        progress_.sign("training");
        transport_->post(std::move(task));
      },
      compute_trace_.get(), log_);
  computation_->exchange.on_long_wait([this] { progress_.waits("sums"); });
  live_ = computation_.get();
  const Json list = tensor_list(computation_->tensors);
  values_ = std::make_unique<TensorStore>(list);
  if (rank_ == 0) tell(ClassesNote{train_data_.dataset->classes()}, published_.first_step);
  tell(TensorsNote{.list = list,
                   .choices = choices_json(computation_->engine.net().choices()),
                   .threads = computation_->engine.threads()},
       published_.first_step);
}

void WorkerRun::take_values() {
  progress_.sign("taking first values");
  const int64_t in_flight = published_.in_flight;
  const std::vector<const NamedTensor*> tensors = in_order(computation_->tensors, in_flight);
  for (int64_t place : values_wanted_)
    tensors[static_cast<size_t>(place)]->set(
        values_->entries()[static_cast<size_t>(place)].values());
  const std::vector<int64_t> digests = tensor_digests(computation_->tensors, in_flight);
  const bool meets_workers = !factored_layers(plan_).empty();
  progress_.waits("its peers");
  transport_->post([this, digests, meets_workers] {
    values_intake_.reset();
    values_.reset();
    computation_->exchange.open(member_->view(),
                                flow_trace_ ? static_cast<comm::Outlet&>(*flow_trace_) : *member_);
    member_->ready(digests, meets_workers);
  });
}

void WorkerRun::train() {
  began_ = true;
  if (options_.keeper != nullptr) options_.keeper->drop(message_.run);
  guarded([this] {
    try {
      train_to_the_end();
    } catch (const JobLost&) {
      // end_after() follows, or has said already what to do.
    }
  });
}

void WorkerRun::train_to_the_end() {
  TrainingLoop& loop = *computation_->loop;
  const TrainConfig& train = job_.config.train;
  const auto due = [&](int64_t every) { return every > 0 && loop.steps_done() % every == 0; };
  while (computation_->limit.begin(loop.steps_done())) {
    progress_.sign("training");
    tell_step(loop.step());
    if (due(train.checkpoint_every)) {
      agree(loop.steps_done());
      send_checkpoint(loop.steps_done());
    }
    if (due(train.test_every)) {
      agree(loop.steps_done());
      test(loop.steps_done());
    }
  }
  if (computation_->limit.ended()) throw JobLost("the job has failed");
  const int64_t step = loop.steps_done();
  agree(step);
  send_checkpoint(step);
  if (!computation_->limit.halted()) test(step);
  if (rank_ == 0) sender_->wait_until_written();
  tell_traffic();
  if (published_.trace) tell_trace();
  transport_->post([this, step] { member_->finished(step); });
}

/// Brings all updates of the step to an end, those of the job at its end, and has the replicas
/// compared, with the sums that stay in flight.
void WorkerRun::agree(int64_t step) {
  if (agreed_step_ == step) return;
  agreed_step_ = step;
  progress_.sign("comparing replicas");
  if (step == published_.steps) computation_->loop->finish();
  computation_->loop->settle_for_checkpoint();
  comm::Digest digest{.step = step,
                      .values = tensor_digests(computation_->tensors, computation_->sums.steps())};
  transport_->post([this, digest = std::move(digest)] { member_->digest(digest); });
}

void WorkerRun::test(int64_t step) {
  if (test_data_.dataset == nullptr || tested_step_ == step) return;
  tested_step_ = step;
  const std::optional<TestSums> sums = evaluate_part(
      computation_->engine.net(), test_data_,
      {.seed = static_cast<uint64_t>(job_.config.train.seed),
       .loader_threads = static_cast<int>(job_.config.data.loader_threads),
       .on_error = job_.config.data.test.on_error,
       .stop = [this] { return computation_->limit.ended(); },
       .progress = [this](int64_t done,
                          int64_t of) { progress_.sign("testing", done, of, "batches"); },
       .workers = plan_.workers(),
       .rank = rank_},
      log_);
  if (!sums) throw JobLost("the job has failed");
  tell(TestNote{*sums}, step);
}

/// Worker 0 has what the others have; after a loss it is whoever is asked.
void WorkerRun::send_checkpoint(int64_t step) {
  if ((rank_ != 0 && !loss_) || sender_->sent_step() == step) return;
  const int64_t in_flight = computation_->sums.steps();
  refuse_non_finite(computation_->tensors, in_flight, step);
  sender_->send(step, computation_->tensors, in_flight);
}

template <class Content>
void WorkerRun::tell(const Content& content, int64_t step) {
  transport_->post([this, note = write_note(content, step)] { member_->note(note); });
}

void WorkerRun::tell_step(StepReport report) {
  longest_step_ms_ =
      std::max<int64_t>(longest_step_ms_, static_cast<int64_t>(report.times.all_ms()));
  report.layer_wait_ms = computation_->exchange.by_layer_of_plan(report.layer_wait_ms);
  transport_->post([this, report = std::move(report)] {
    const SchemeBytes all =
        bytes_by_scheme(plan_, computation_->exchange.numbers().bytes_of_layers());
    SchemeBytes since;
    for (const comm::Scheme scheme : comm::kSendingSchemes)
      since[scheme] = all[scheme] - told_bytes_[scheme];
    told_bytes_ = all;
    member_->note(write_note(step_note(report, since), report.step));
  });
}

void WorkerRun::tell_traffic() {
  transport_->post([this] {
    member_->note(write_note(TrafficNote{computation_->exchange.numbers().bytes_of_layers()},
                             computation_->limit.begun()));
  });
}

void WorkerRun::tell_trace() {
  for (const TraceNote& spans : write_spans(*compute_trace_)) tell(spans);
  transport_->post([this] {
    for (const TraceNote& spans : write_spans(flow_trace_->recorder()))
      member_->note(write_note(spans));
  });
}

void WorkerRun::end_after(const comm::Loss& loss, bool alone) {
  loss_ = loss;
  end_watch_.rest();
  sender_->begin_anew();
  log_.warning(loss.message());
  int64_t step = published_.first_step;
  if (computation_ != nullptr) {
    computation_->loop->revert_incomplete();
    step = computation_->loop->steps_done();
  }
  if (!alone) {
    if (began_) tell_traffic();
    if (began_ && published_.trace) tell_trace();
    transport_->post([this, step] {
      stopped_step_ = step;
      member_->stopped(step);
    });
    return;
  }
  end_watch_.expect(kPatienceWithDisk, "its checkpoint could not be written");
  save_alone(step);
  keep_last_step();
  transport_->post([this] { member_->leave(); });
  over(end_of(loss));
}

RunState WorkerRun::state_after(int64_t step) const {
  return run_state(job_, published_, computation_->schedule, step,
                   computation_->engine.net().choices(), train_data_.dataset->fingerprint());
}

/// The coordinator is gone. A child of it writes into its run directory what it would have written;
/// all survivors of one step have the same bytes, so it does not matter who comes first.
void WorkerRun::save_alone(int64_t step) {
  if (computation_ == nullptr || options_.run_directory.empty() || step == 0) return;
  // A step before the first of this run: only sums that are given up would lead on from it.
  if (step < published_.first_step) return;
  if (RunLock::words_in(options_.run_directory) != run_lock_)
    return log_.warning(options_.run_directory.string() +
                        ": it is gone, or another run writes there");
  const auto folder = options_.run_directory / "checkpoints";
  try {
    const bool wrote = write_survivor_checkpoint(folder, state_after(step), computation_->tensors,
                                                 kPatienceWithSurvivors);
    log_.info(
        text(wrote ? "wrote" : "found", " the checkpoint of step ", step, " in ", folder.string()));
  } catch (...) {
    log_.warning(message_of(std::current_exception()));
  }
}

/// After a loss: the coordinator may be gone, or have had no room for a checkpoint.
void WorkerRun::keep_last_step() {
  const double seconds = job_.config.cluster.rejoin_s;
  if (options_.keeper == nullptr || !began_ || !loss_ || seconds <= 0) return;
  // Nobody knows whose values are right.
  if (loss_->kind == comm::Loss::Kind::kDrift) return;
  const int64_t step = computation_->loop->steps_done();
  if (step <= published_.first_step) return;
  end_watch_.expect(kPatienceWithDisk, "its last complete step could not be copied");
  try {
    options_.keeper->keep(
        copy_step(message_.run, state_after(step), computation_->tensors),
        StepKeeper::Clock::now() + std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000)));
    log_.info(text("keeps step ", step, " of \"", job_.config.name, "\" for ", seconds,
                   " s, in case its run is gone on with (poseidon-train --resume)"));
  } catch (...) {
    log_.warning(text("step ", step, " is not kept: ", message_of(std::current_exception())));
  }
}

}  // namespace

MemberEnd run_worker(const MemberOptions& options, Log& log) {
  return WorkerRun(options, log).go();
}

}  // namespace poseidon::trainer
