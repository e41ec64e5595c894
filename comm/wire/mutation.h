#pragma once

/// Deliberate faults, which test the tests of the protocol: built with POSEIDON_MUTATION set to one
/// of these, the simulated runs must fail. The product is built with 0, which leaves no trace of
/// them.
namespace poseidon::comm {

enum class Mutation : int {
  kNone = 0,
  kDroppedContribution = 1,  ///< a server loses one contribution and sends the sum without it
  kDoubleContribution = 2,   ///< a server adds a repeated contribution again
  kOldView = 3,              ///< frames of an older view are accepted
  kTornStep = 4,             ///< a checkpoint after a loss holds layers of two steps
  kNoDeadline = 5,           ///< a node that hangs is waited for without a limit
  kNoNextBest = 6,           ///< when the survivor that is asked is lost too, no other is asked
  kEarlyGate = 7,            ///< a step is computed with parameters that lack the newest update
  kNoAgreement = 8,          ///< a checkpoint is written before all workers agree on what is in it
  kNoTrust = 9,              ///< after a loss a survivor's checkpoint is not written
  kFurthestStep = 10,        ///< a regrouped job goes on after the furthest survivor's step
  kNoWayBack = 11,           ///< a complete step is not taken back when a job regroups
  kStaysWithPeers = 12,      ///< the connections of a view are used on in the next one
  kNextData = 13,            ///< a step that is made again draws the samples after those drawn last
  kStaleFactor = 14,         ///< factors of an older view are accepted
  kNotAllLeft = 15,          ///< a job goes on as soon as one survivor has left the view
  kFirstReport = 16,         ///< whom a member has lost is lost, whatever others can reach
  kSpoiltValues = 17,        ///< after a drift the others go on with values that it has spoilt
  kWrongUpdate = 18,         ///< step 250 is updated with twice the learning rate
  kNoRestore = 19,           ///< with sums in flight too the others go on with their own values
  kDriftedReturns = 20,      ///< a host on which a worker has drifted joins the job again
};

#ifndef POSEIDON_MUTATION
#define POSEIDON_MUTATION 0
#endif

inline constexpr bool mutated(Mutation mutation) {
  return static_cast<int>(mutation) == POSEIDON_MUTATION && POSEIDON_MUTATION != 0;
}

}  // namespace poseidon::comm
