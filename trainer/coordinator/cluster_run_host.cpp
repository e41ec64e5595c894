// What the coordinator's I/O thread calls in a run: it passes on to the main thread what takes
// time.

#include "core/counted.h"
#include "trainer/coordinator/cluster_run_parts.h"
#include "trainer/messages/facts.h"
#include "trainer/plan/without_factors.h"
#include "trainer/state/resume.h"
#include "trainer/state/tensor_check.h"

namespace poseidon::trainer {

void ClusterRun::refused(const std::string& address, const std::string& why) {
  inbox_.post([this, address, why] {
    console_.warning(text("a node at ", address, " is not let in: ", why));
  });
  if (!launcher_->gathering().by_themselves)
    coordinator_->report_error(text("the node at ", address, ": ", why));
}

void ClusterRun::joined(comm::NodeId node, const std::string& address) {
  // What is known of a worker that had the rank before.
  if (node.role == comm::Role::kWorker) {
    offers_.erase(node.rank);
    if (keeper_ == node.rank) keeper_.reset();
  }
  if (!launcher_->gathering().by_themselves) return;
  const std::string missing = coordinator_->missing();
  inbox_.post([this, node, address, missing] {
    console_.info(text(comm::name_of(node), " joined from ", address,
                       missing.empty() ? "" : text("; waiting for ", missing)));
  });
}

void ClusterRun::measured_link(const comm::LinkRate& rate, bool one_host) {
  measured_->set_link(rate);
  inbox_.post([this, mbps = rate.mbps, one_host] {
    console_.info(
        one_host
            ? text("all workers are on one host: the plan takes loopback's ", mbps,
                   " Mb/s, measured now, for the network; \"comm.link_mbps\" would say another")
            : text("the network between the workers takes ", mbps,
                   " Mb/s each way, measured now; the plan is made for that"));
  });
}

/// The latest of those that are later than what is on the disk, the lowest rank of equals.
std::optional<uint16_t> ClusterRun::fetch_kept_step() {
  keeper_.reset();
  int64_t latest = published_.first_step;
  for (const auto& [worker, offer] : offers_)
    if (offer.state.step > latest) {
      keeper_ = worker;
      latest = offer.state.step;
    }
  if (!keeper_) return std::nullopt;
  {
    MutexLock lock(mutex_);
    tensor_list_ = offers_.at(*keeper_).list;
  }
  coordinator_->note(*keeper_, write_note(FetchNote{}, latest));
  return keeper_;
}

/// What is not this job's is of no use here, and no fault of the worker's.
void ClusterRun::take_offer(comm::NodeId worker, const comm::Note& note) {
  auto kept = read_note<KeptNote>(note);
  if (!goes_on() || kept.run != directory_.id() || kept.state.step != note.step)
    throw ConfigError("a kept step that was not asked for");
  try {
    check_tensors(kept.list, *job_.network, job_.config.optimizer,
                  std::max(job_.config.comm.staleness, kept.state.in_flight));
    refuse_other_batch(kept.state, job_, options_.resume);
    offers_[worker.rank] = std::move(kept);
  } catch (const ConfigError& error) {
    inbox_.post([this, worker, step = note.step, why = std::string(error.what())] {
      console_.warning(text(comm::name_of(worker), " keeps step ", step,
                            " of this run, which is not of this job: ", why));
    });
  }
}

/// A failure is told to all, as that of any checkpoint.
void ClusterRun::take_kept_step(uint16_t worker, std::shared_ptr<TensorStore> tensors,
                                const SentCheckpoint& sent) {
  inbox_.post([this, worker, state = offers_.at(worker).state, tensors = std::move(tensors), sent] {
    attempt([&] { write_kept_step(worker, state, *tensors, sent); });
  });
}

Json ClusterRun::plan(const std::vector<comm::Fact>& facts) {
  planned_ = true;
  try {
    if (measured_) {
      plan_ = measured_->make();
      published_.plan = comm::to_json(plan_);
    }
    avoid_factors();
    set_end(published_, job_, training_samples(facts), options_);
  } catch (const ConfigError&) {
    inbox_.post([failure = std::current_exception()] { std::rethrow_exception(failure); });
  }
  inbox_.post([this, facts] { begin_metrics(facts); });
  return write_published_plan(published_);
}

/// Replicas stay equal to the bit only where all make the same sum of factors.
void ClusterRun::avoid_factors() {
  if (devices_.size() != static_cast<size_t>(plan_.workers()))
    throw ConfigError("not all workers have told what they compute with");
  const std::string difference = difference_of(devices_);
  if (difference.empty() || factored_layers(plan_).empty()) return;
  plan_ = without_factors(job_, plan_, difference);
  published_.plan = comm::to_json(plan_);
  no_factors_ = "no layer goes by factors, since workers do not compute alike: " + difference;
  inbox_.post([this] { console_.warning(no_factors_); });
}

void ClusterRun::started() {
  inbox_.post([this] {
    begun_ = true;
    values_.clear();
    console_.info(text(counted(plan_.workers(), "worker"), " and ",
                       counted(plan_.servers(), "server"), " begin with step ",
                       published_.first_step + 1, " of ", published_.steps));
    if (options_.trace) ask_for_time();
  });
}

void ClusterRun::noted(comm::NodeId node, const comm::Note& note) {
  if (note.about == ClockNote::kAbout) return take_clock(node, read_note<ClockNote>(note));
  // Before the worker says that it is prepared: the plan needs those of all.
  if (note.about == DeviceNote::kAbout && node.role == comm::Role::kWorker) {
    devices_[node.rank] = read_note<DeviceNote>(note);
    return;
  }
  if (note.about == KeptNote::kAbout && node.role == comm::Role::kWorker)
    return take_offer(node, note);
  if (note.about == TimesNote::kAbout && measured_)
    return measured_->add_times(read_note<TimesNote>(note));
  if (note.about == SentCheckpoint::kAbout && node.role == comm::Role::kWorker)
    return take_checkpoint(node, note);
  inbox_.post([this, node, note] { take_note(node, note); });
}

/// Throws ConfigError, by which the sender is lost, for one that is not whole.
void ClusterRun::take_checkpoint(comm::NodeId node, const comm::Note& note) {
  const auto sent = read_note<SentCheckpoint>(note);
  const auto count = [&](TensorStore& store) {
    const RunTensors tensors = store.tensors();
    if (static_cast<size_t>(sent.in_flight) > tensors.sums.size())
      throw ConfigError(text("a checkpoint of step ", note.step, " carries the sums of ",
                             sent.in_flight, " steps, more than there are"));
    return in_order(tensors, sent.in_flight).size();
  };
  auto tensors = intake_.take(node.rank, static_cast<uint32_t>(sent.number), note.step, count);
  if (keeper_ == node.rank && note.step == offers_.at(node.rank).state.step)
    return take_kept_step(node.rank, std::move(tensors), sent);
  if (!planned_) throw ConfigError("a checkpoint that was not asked for");
  inbox_.post([this, rank = node.rank, step = note.step, tensors = std::move(tensors), sent] {
    write_checkpoints([&] { checkpoints_.take(rank, step, tensors, sent); });
  });
}

void ClusterRun::take_clock(comm::NodeId node, const ClockNote& clock) {
  inbox_.post(
      [this, node, clock, now = TraceRecorder::now()] { trace_.answered(node, clock, now); });
}

void ClusterRun::agreed(int64_t step, const std::vector<int64_t>& digest) {
  inbox_.post(
      [this, step, digest] { write_checkpoints([&] { checkpoints_.agreed(step, digest); }); });
}

std::string ClusterRun::tensor_name(size_t index) {
  MutexLock lock(mutex_);
  for (const char* key : {"weights", "optimizer", "sums"}) {
    if (!tensor_list_.contains(key)) continue;
    if (index < tensor_list_[key].size())
      return tensor_list_[key][index]["name"].get<std::string>();
    index -= tensor_list_[key].size();
  }
  return text("tensor ", index);
}

comm::Placement ClusterRun::place(uint16_t worker, const comm::FrameHeader& header) {
  {
    MutexLock lock(mutex_);
    if (tensor_list_.is_null())
      return comm::Placement::refused("sent tensors before it told which it has");
  }
  return intake_.place(worker, header);
}

std::shared_ptr<TensorStore> ClusterRun::make_store() {
  MutexLock lock(mutex_);
  return std::make_shared<TensorStore>(tensor_list_);
}

void ClusterRun::failed(const comm::Loss& loss) {
  drifted_ = !comm::survivors_count(loss);
  inbox_.post([this, loss] { end_after(loss); });
}

void ClusterRun::not_saved(uint16_t worker, const std::string& why) {
  inbox_.post([this, worker, why] {
    console_.warning(text("worker ", worker, " has no checkpoint to give: ", why));
  });
}

void ClusterRun::slow(comm::NodeId, const std::string& what) {
  inbox_.post([this, what] { console_.warning(what); });
}

/// It may be stopped, and would never end by itself.
void ClusterRun::given_up(comm::NodeId node) {
  inbox_.post([this, node] { launcher_->kill(node); });
}

void ClusterRun::ended(const comm::Outcome& outcome) {
  inbox_.post([this, outcome] { outcome_ = outcome; });
}

}  // namespace poseidon::trainer
