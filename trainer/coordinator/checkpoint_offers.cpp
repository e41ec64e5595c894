#include "trainer/coordinator/checkpoint_offers.h"

#include <utility>

namespace poseidon::trainer {

namespace {

template <class Value>
void renumber_keys(std::map<uint16_t, Value>& all, const std::vector<uint16_t>& workers) {
  std::map<uint16_t, Value> renumbered;
  for (size_t rank = 0; rank < workers.size(); ++rank)
    if (const auto found = all.find(workers[rank]); found != all.end())
      renumbered.emplace(static_cast<uint16_t>(rank), std::move(found->second));
  all = std::move(renumbered);
}

}  // namespace

void CheckpointOffers::add(uint16_t worker, CheckpointOfferNote kept) {
  SavedReports& reports = reports_[worker];
  reports.rank = kept.rank;
  reports.plan = kept.state.plan;
  offers_[worker] = std::move(kept);
}

void CheckpointOffers::add_report(uint16_t worker, std::string message) {
  const auto found = reports_.find(worker);
  // A worker without an entry: the coordinator has ignored its offer, because the checkpoint does
  // not fit this job.
  if (found != reports_.end()) found->second.add(std::move(message));
}

std::vector<SavedReports> CheckpointOffers::reports() const {
  std::vector<SavedReports> all;
  for (const auto& [worker, reports] : reports_) all.push_back(reports);
  return all;
}

void CheckpointOffers::renumber(const std::vector<uint16_t>& workers) {
  renumber_keys(offers_, workers);
  renumber_keys(reports_, workers);
  given_up_.clear();
}

void CheckpointOffers::give_up(uint16_t worker) {
  const auto offer = offers_.find(worker);
  if (offer != offers_.end()) given_up_[worker] = offer->second.state.step;
  offers_.erase(worker);
  if (chosen_worker_ == worker) chosen_worker_.reset();
}

bool CheckpointOffers::is_too_late(uint16_t worker, int64_t step) const {
  const auto given_up = given_up_.find(worker);
  return given_up != given_up_.end() && given_up->second == step;
}

void CheckpointOffers::forget(uint16_t worker) {
  offers_.erase(worker);
  reports_.erase(worker);
  given_up_.erase(worker);
  if (chosen_worker_ == worker) chosen_worker_.reset();
}

const CheckpointOfferNote* CheckpointOffers::choose(int64_t step) {
  chosen_worker_.reset();
  const CheckpointOfferNote* latest = nullptr;
  for (const auto& [worker, offer] : offers_)
    if (offer.state.step > (latest == nullptr ? step : latest->state.step)) {
      chosen_worker_ = worker;
      latest = &offer;
    }
  return latest;
}

const CheckpointOfferNote* CheckpointOffers::asked_of(uint16_t worker, int64_t step) const {
  if (chosen_worker_ != worker) return nullptr;
  const CheckpointOfferNote& offer = offers_.at(worker);
  return offer.state.step == step ? &offer : nullptr;
}

void CheckpointOffers::fetched(uint16_t worker) {
  offers_.erase(worker);
  chosen_worker_.reset();
}

}  // namespace poseidon::trainer
