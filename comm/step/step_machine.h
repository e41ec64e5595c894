#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace poseidon::comm {

/// Tracks the step of each layer of one worker. It decides when a layer's parameters may be read,
/// which update is due, and which step is complete. Layers are identified by their index in the
/// order of the forward pass. Steps count from 0. This class does no I/O and does not access the
/// net.
///
/// With staleness s, step t is computed with exactly the sums of the steps up to t - 1 - s. A
/// layer's update is written next to its old values, so it can be reverted. All layers make the
/// update of one step before any layer makes the update of the next step. A step that cannot be
/// completed therefore leaves the last complete step intact.
class StepMachine {
 public:
  struct Options {
    size_t layers = 0;
    int64_t done = 0;       ///< steps done at the start
    int64_t in_flight = 0;  ///< number of done steps whose updates are not made yet
    int64_t staleness = 0;
    /// Barrier: all sums of a step must arrive before its first update.
    bool barrier = false;
  };
  explicit StepMachine(const Options& options);

  // Events, which the caller reports.
  /// This worker has enqueued all its contributions to the layer's sums of the current step.
  void contributed(size_t layer);
  /// The current step is computed: every layer has contributed to it.
  void end_step();
  /// The sums of the layer's next step have arrived.
  void arrived(size_t layer);
  /// The update that was due is made.
  void updated(size_t layer);
  /// Declares that no step follows. All sums in flight are then applied, as with staleness 0.
  void finish() { staleness_ = 0; }

  // State that follows from the events.
  /// Whether the layer's parameters are those with which the current step is computed.
  bool open(size_t layer) const { return layers_[layer].updated >= goal(layer); }
  /// Returns a layer whose update is due: `wanted` if possible, else the first such layer in
  /// forward order. nullopt: no update is due.
  std::optional<size_t> due(size_t wanted) const;
  std::optional<size_t> due() const;
  /// All layers whose update is due. These updates are of the same step.
  std::vector<size_t> all_due() const;
  /// The step whose sums the layer's next update applies.
  int64_t next_update(size_t layer) const { return layers_[layer].updated; }
  /// Whether the layer's sums of `step` have arrived.
  bool has_sums(size_t layer, int64_t step) const { return layers_[layer].arrived > step; }
  /// Whether the sums of every layer have arrived, for all steps that are done.
  bool has_all_sums() const;

  int64_t done() const { return done_; }  ///< steps computed
  int64_t complete() const;               ///< steps whose updates all layers have made

  // Reverting.
  /// The smallest number of complete steps to which the worker can revert. Without layers it is 0:
  /// nothing changes in a step, and workers do not wait for each other.
  int64_t earliest_revertible() const;
  /// Reverts to `step` complete steps, at least earliest_revertible(). Returns the layers whose
  /// last update the caller must revert. Afterwards no sum is in flight.
  std::vector<size_t> revert_to(int64_t step);
  /// Abandons all steps after `step`: their sums stay incomplete or are not used. These steps are
  /// the current step, and possibly a step that is done here but not on another device. Returns
  /// false and changes nothing if a layer has made an update that the state after `step` steps does
  /// not contain.
  bool abandon_after(int64_t step);

 private:
  struct Layer {
    int64_t arrived = 0;       ///< steps whose sums have arrived
    int64_t updated = 0;       ///< steps whose updates are made
    bool contributed = false;  ///< whether the layer has contributed to the current step
    bool has_older = false;    ///< the values before its last update still exist
  };

  int64_t goal(size_t layer) const;
  bool is_due(size_t layer, int64_t complete) const;
  bool may_begin(int64_t step) const;

  std::vector<Layer> layers_;
  int64_t staleness_;
  bool barrier_;
  int64_t done_;
};

}  // namespace poseidon::comm
