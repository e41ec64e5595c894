#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace poseidon::comm {

/// Which step each layer of one worker stands at, and what follows from that: when its parameters
/// may be read, which update is due, and which step is complete. It knows layers as numbers, in the
/// order in which the forward pass needs them, and steps as counted from 0. No net, no I/O.
///
/// With staleness s, step t is computed with exactly the sums of the steps up to t - 1 - s. A
/// layer's update is written beside its old values, so it can be taken back. All layers make the
/// update of one step before any makes that of the next, so a step that cannot be completed leaves
/// the last complete one whole.
class StepMachine {
 public:
  struct Options {
    size_t layers = 0;
    int64_t done = 0;       ///< steps done when it begins
    int64_t in_flight = 0;  ///< of those, the last ones: their sums are there, their updates not
    int64_t staleness = 0;
    /// All sums of a step are awaited before its first update.
    bool together = false;
  };
  explicit StepMachine(const Options& options);

  // What has happened.
  /// All that this worker contributes to the layer's sums of the step under way is handed over.
  void contributed(size_t layer);
  /// The step under way is computed: every layer has contributed to it.
  void end_step();
  /// The sums of the layer's next step are there.
  void arrived(size_t layer);
  /// The update that was due is made.
  void updated(size_t layer);
  /// No step follows: what is in flight is applied as if staleness were 0.
  void finish() { staleness_ = 0; }

  // What follows from it.
  /// Whether the layer's parameters are those that the step under way is computed with.
  bool open(size_t layer) const { return layers_[layer].updated >= goal(layer); }
  /// A layer whose update can be made: `wanted` if that can, else the first one needed.
  std::optional<size_t> due(size_t wanted) const;
  std::optional<size_t> due() const;
  /// The step whose sums the layer's next update applies.
  int64_t next_update(size_t layer) const { return layers_[layer].updated; }
  /// Whether the layer's sums of `step` have come.
  bool has_sums(size_t layer, int64_t step) const { return layers_[layer].arrived > step; }
  /// Whether the sums of all layers of all steps done have come.
  bool has_all_sums() const;

  int64_t done() const { return done_; }  ///< steps computed
  int64_t complete() const;               ///< steps whose updates all layers have made

  // The way back.
  /// The fewest complete steps that it can go back to.
  int64_t least_complete() const;
  /// Goes back to `step` complete steps, at least least_complete(): the layers whose last update is
  /// to be taken back. The next step is then computed from there, and nothing is in flight.
  std::vector<size_t> revert_to(int64_t step);
  /// Gives up all steps after `step`, of which no sum will be complete, or none will be used: the
  /// step under way, and one that is done here but not on another device. Returns false, and
  /// changes nothing, if a layer has made an update that step `step` does not have.
  bool abandon_after(int64_t step);

 private:
  struct Layer {
    int64_t arrived = 0;       ///< steps whose sums have come
    int64_t updated = 0;       ///< steps whose updates are made
    bool contributed = false;  ///< to the step under way
    bool has_older = false;    ///< the values before its last update can be had back
  };

  int64_t goal(size_t layer) const;
  bool is_due(size_t layer, int64_t complete) const;
  bool may_begin(int64_t step) const;

  std::vector<Layer> layers_;
  int64_t staleness_;
  bool together_;
  int64_t done_;
};

}  // namespace poseidon::comm
