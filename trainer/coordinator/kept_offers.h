#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "trainer/messages/notes.h"

namespace poseidon::trainer {

/// What workers keep of a run that is gone on with, and which of them is asked for it. Used by the
/// I/O thread.
class KeptOffers {
 public:
  void add(uint16_t worker, KeptNote kept) { offers_[worker] = std::move(kept); }
  /// These workers have the ranks from 0 on now in their order.
  void renumber(const std::vector<uint16_t>& workers);
  /// Another may have this rank now.
  void forget(uint16_t worker);
  /// The worker with the latest step of those that are later than `step`, the lowest rank of
  /// equals, is asked from now on; null where there is none.
  const KeptNote* choose(int64_t step);
  /// Who is asked.
  std::optional<uint16_t> keeper() const { return keeper_; }
  /// Null unless this worker is asked for this step.
  const KeptNote* asked_of(uint16_t worker, int64_t step) const;
  /// What this worker was asked for is here, and nobody is asked any more.
  void fetched(uint16_t worker);

 private:
  std::map<uint16_t, KeptNote> offers_;  ///< by worker
  std::optional<uint16_t> keeper_;
};

}  // namespace poseidon::trainer
