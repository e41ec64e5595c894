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
  /// A report of the last steps that this worker has stored; it follows the worker's offer. Throws
  /// ConfigError.
  void add_report(uint16_t worker, std::string message);
  /// These workers now have the ranks from 0 on, in their order.
  void renumber(const std::vector<uint16_t>& workers);
  /// Another worker may have this rank now.
  void forget(uint16_t worker);
  /// Chooses the worker with the latest step after `step`, or the lowest rank of equals, to be
  /// fetched from. Null if there is none.
  const CheckpointOfferNote* choose(int64_t step);
  /// The chosen worker.
  std::optional<uint16_t> chosen_worker() const { return chosen_worker_; }
  /// The offer of this worker if this step is being fetched from it; else null.
  const CheckpointOfferNote* asked_of(uint16_t worker, int64_t step) const;
  /// The step of this worker has arrived; no worker is chosen any longer.
  void fetched(uint16_t worker);
  /// This worker has not sent its step in time. If the step still arrives before the worker has
  /// built its net, it is dropped.
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
