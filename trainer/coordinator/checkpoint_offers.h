#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trainer/coordinator/saved_reports.h"
#include "trainer/messages/notes.h"

namespace poseidon::trainer {

/// The in-memory checkpoints of a resumed run that workers offer, and the choice of one to fetch.
/// Used by the I/O thread.
class CheckpointOffers {
 public:
  void add(uint16_t worker, CheckpointOfferNote kept);
  /// Adds a report of one of the last steps that this worker has stored. The report follows the
  /// worker's offer. Throws ConfigError.
  void add_report(uint16_t worker, std::string message);
  /// These workers now have the ranks from 0 on, in their order.
  void renumber(const std::vector<uint16_t>& workers);
  /// Another worker may have this rank now.
  void forget(uint16_t worker);
  /// Chooses the worker with the latest step after `step`. If several have this step, chooses the
  /// lowest rank. Returns the worker's offer; null if no worker has such a step.
  const CheckpointOfferNote* choose(int64_t step);
  /// The chosen worker.
  std::optional<uint16_t> chosen_worker() const { return chosen_worker_; }
  /// Returns this worker's offer if the coordinator is fetching this step from the worker; else
  /// null.
  const CheckpointOfferNote* asked_of(uint16_t worker, int64_t step) const;
  /// The checkpoint of this worker has arrived. No worker is chosen after this call.
  void fetched(uint16_t worker);
  /// This worker has not sent its checkpoint in time. If the checkpoint still arrives before the
  /// worker has built its net, the coordinator drops it.
  void give_up(uint16_t worker);
  bool is_too_late(uint16_t worker, int64_t step) const;
  void has_built(uint16_t worker) { given_up_.erase(worker); }
  /// The stored reports of all workers.
  std::vector<SavedReports> reports() const;

 private:
  std::map<uint16_t, CheckpointOfferNote> offers_;  ///< by worker
  std::map<uint16_t, SavedReports> reports_;        ///< by worker
  std::map<uint16_t, int64_t> given_up_;            ///< by worker: step
  std::optional<uint16_t> chosen_worker_;
};

}  // namespace poseidon::trainer
