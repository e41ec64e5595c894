#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trainer/coordinator/kept_reports.h"
#include "trainer/messages/notes.h"

namespace poseidon::trainer {

/// What workers keep of a run that is gone on with, and which of them is asked for it. Used by the
/// I/O thread.
class KeptOffers {
 public:
  void add(uint16_t worker, KeptNote kept);
  /// A report of the last steps that this worker has kept, after its offer. Throws ConfigError.
  void add_report(uint16_t worker, std::string message);
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
  /// This worker has not sent what it was asked for in time. That step is of no use if it comes
  /// later, before the worker has built its net.
  void give_up(uint16_t worker);
  bool is_too_late(uint16_t worker, int64_t step) const;
  void has_built(uint16_t worker) { given_up_.erase(worker); }
  /// What all of them have kept of their reports.
  std::vector<KeptReports> reports() const;

 private:
  std::map<uint16_t, KeptNote> offers_;      ///< by worker
  std::map<uint16_t, KeptReports> reports_;  ///< by worker
  std::map<uint16_t, int64_t> given_up_;     ///< steps by worker
  std::optional<uint16_t> keeper_;
};

}  // namespace poseidon::trainer
