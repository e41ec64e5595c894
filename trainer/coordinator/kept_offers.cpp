#include "trainer/coordinator/kept_offers.h"

#include <utility>

namespace poseidon::trainer {

void KeptOffers::renumber(const std::vector<uint16_t>& workers) {
  std::map<uint16_t, KeptNote> offers;
  for (size_t rank = 0; rank < workers.size(); ++rank)
    if (const auto offer = offers_.find(workers[rank]); offer != offers_.end())
      offers.emplace(static_cast<uint16_t>(rank), std::move(offer->second));
  offers_ = std::move(offers);
}

void KeptOffers::forget(uint16_t worker) {
  offers_.erase(worker);
  if (keeper_ == worker) keeper_.reset();
}

const KeptNote* KeptOffers::choose(int64_t step) {
  keeper_.reset();
  const KeptNote* latest = nullptr;
  for (const auto& [worker, offer] : offers_)
    if (offer.state.step > (latest == nullptr ? step : latest->state.step)) {
      keeper_ = worker;
      latest = &offer;
    }
  return latest;
}

const KeptNote* KeptOffers::asked_of(uint16_t worker, int64_t step) const {
  if (keeper_ != worker) return nullptr;
  const KeptNote& offer = offers_.at(worker);
  return offer.state.step == step ? &offer : nullptr;
}

void KeptOffers::fetched(uint16_t worker) {
  offers_.erase(worker);
  keeper_.reset();
}

}  // namespace poseidon::trainer
