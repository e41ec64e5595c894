#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "core/trace.h"
#include "net/net.h"

namespace poseidon::trainer {

/// Records what a device was at when, by its own clock, on the track "device": for one that does
/// work later than it is issued. A pass is cut where the loop is between its layers, so a span is
/// that of a layer with parameters and of those around it that have none. Used by the compute
/// thread.
class DeviceTrace {
 public:
  /// Records nothing where there is no recorder (null), or the device's work is done when it is
  /// issued. Both must outlive it.
  DeviceTrace(net::Net& net, TraceRecorder* recorder);

  // What has been issued since the call before was:
  void begins_shard();          ///< the end of the backward pass before
  void has_batch();             ///< the wait for the batch
  void comes_to_gate();         ///< the forward pass of the layer behind the gate before
  void passes_gate(int layer);  ///< a wait for what this layer needs
  void ends_forward() { comes_to_gate(); }
  void has_gradient(int layer);  ///< the backward pass of this layer

  /// Gives the recorder what is over by now.
  void collect();
  /// Waits for the device, and gives the recorder all.
  void collect_all();

 private:
  using Label = TraceRecorder::Label;
  struct LayerLabels {
    Label forward, wait, backward;
  };
  struct Cut {
    Label label;
    int64_t step;
    std::shared_ptr<const Moment> end;
  };

  bool records() const { return begin_ != nullptr; }
  void cut(Label label);

  Device& device_;
  TraceRecorder* const recorder_;
  std::vector<LayerLabels> labels_;  ///< by layer
  Label batch_ = 0, before_gates_ = 0, after_gradients_ = 0;
  Label forward_ = 0;                    ///< of the layer behind the last gate
  std::shared_ptr<const Moment> begin_;  ///< of the first of `cuts_`
  std::deque<Cut> cuts_;                 ///< whose spans are not recorded yet
};

}  // namespace poseidon::trainer
