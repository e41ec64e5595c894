#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trainer/coordinator/saved_reports.h"
#include "trainer/messages/notes.h"

namespace poseidon::trainer {

/// The in-memory checkpoints of a resumed run that workers offer, and the reports that the workers
/// store with them. Chooses the checkpoint that the coordinator fetches. `worker` is a rank. Used
/// by the I/O thread.
class CheckpointOffers {
 public:
  void add(uint16_t worker, CheckpointOfferNote kept);
  /// Adds a report of a step or test that the worker has stored with its in-memory checkpoint.
  /// Ignores the report if add() was not called for this worker. Throws ConfigError if the reports
  /// of this worker are too large.
  void add_report(uint16_t worker, std::string message);
  /// Changes the ranks when the job begins without some workers, and drops the absent ones.
  /// `workers` lists the previous ranks of the present ones, in the order of their new ranks.
  void renumber(const std::vector<uint16_t>& workers);
  /// Drops all entries of this rank, because another worker may have the rank now.
  void forget(uint16_t worker);
  /// Chooses the offer with the latest step after `step`. If several offers have this step, chooses
  /// the lowest rank. Returns the chosen offer; null if no offer has such a step.
  const CheckpointOfferNote* choose(int64_t step);
  /// Rank of the worker that choose() has chosen; empty if no worker is chosen.
  std::optional<uint16_t> chosen_worker() const { return chosen_worker_; }
  /// Returns the chosen offer if it is from this worker and of this step; else null.
  const CheckpointOfferNote* asked_of(uint16_t worker, int64_t step) const;
  /// Removes the offer of this worker, because its checkpoint has arrived. No worker is chosen
  /// after this call.
  void fetched(uint16_t worker);
  /// Removes the offer of this worker, which has not sent its checkpoint in time. If the checkpoint
  /// still arrives before the worker has built its net, the coordinator drops it (is_too_late()).
  void give_up(uint16_t worker);
  bool is_too_late(uint16_t worker, int64_t step) const;
  void has_built(uint16_t worker) { given_up_.erase(worker); }
  /// The stored reports of all workers.
  std::vector<SavedReports> reports() const;

 private:
  std::map<uint16_t, CheckpointOfferNote> offers_;
  std::map<uint16_t, SavedReports> reports_;
  std::map<uint16_t, int64_t> given_up_;  ///< by rank: step of the late checkpoint
  std::optional<uint16_t> chosen_worker_;
};

}  // namespace poseidon::trainer
