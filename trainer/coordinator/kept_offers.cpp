#include "trainer/coordinator/kept_offers.h"

namespace poseidon::trainer {

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
