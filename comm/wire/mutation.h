#pragma once

/// Deliberate faults of the protocol. They show that its tests find faults: if a build sets
/// POSEIDON_MUTATION to one of these values, the simulated runs must fail. The product is built
/// with 0, which compiles no fault.
namespace poseidon::comm {

enum class Mutation : int {
  kNone = 0,
  kDroppedContribution = 1,  ///< a server loses one contribution and sends the sum without it
  kDoubleContribution = 2,   ///< a server adds a repeated contribution again
  kOldView = 3,              ///< frames of an older view are accepted
  kTornStep = 4,             ///< a checkpoint after a node failure holds layers of two steps
  kNoDeadline = 5,           ///< the job waits without a limit for a node that hangs
  kNoNextBest = 6,       ///< if the survivor asked for the checkpoint fails, no other one is asked
  kEarlyGate = 7,        ///< a step is computed with parameters that lack the latest update
  kNoAgreement = 8,      ///< a checkpoint is written before all workers agree on its content
  kNoTrust = 9,          ///< after a node failure a survivor's checkpoint is not written
  kFurthestStep = 10,    ///< a reconfigured job continues from the furthest survivor's step
  kNoWayBack = 11,       ///< a complete step is not reverted when a job reconfigures
  kStaysWithPeers = 12,  ///< the next view reuses the connections of the previous view
  kNextData = 13,        ///< a step that is repeated after a revert reads new samples
  kStaleFactor = 14,     ///< factors of an older view are accepted
  kNotAllLeft = 15,      ///< a job continues as soon as one survivor has left the view
  kFirstReport = 16,  ///< the first report decides that a node failed, even if other nodes reach it
  kSpoiltValues = 17,    ///< after a divergence the other workers continue with corrupted values
  kWrongUpdate = 18,     ///< step 250 is updated with twice the learning rate
  kNoRestore = 19,       ///< with staleness, survivors continue without the checkpoint
  kDriftedReturns = 20,  ///< a node joins from a host whose worker has diverged
  kOtherRounding = 21,   ///< an int8 sum is rounded by the random bits of the next step
  kSparseAnyway = 22,    ///< a slice of factors has the sparse form even if it is not shorter
};

#ifndef POSEIDON_MUTATION
#define POSEIDON_MUTATION 0
#endif

inline constexpr bool mutated(Mutation mutation) {
  return static_cast<int>(mutation) == POSEIDON_MUTATION && POSEIDON_MUTATION != 0;
}

}  // namespace poseidon::comm
