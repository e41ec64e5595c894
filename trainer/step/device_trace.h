#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "core/trace.h"
#include "net/net.h"

namespace poseidon::trainer {

/// Records the work of a device by the device's own clock, on the track "device". It is for devices
/// that work asynchronously. Within a pass, a span ends at a gate, or when the gradients of a layer
/// are final. So a span covers a layer with parameters and the neighboring layers without
/// parameters. Used by the compute thread.
class DeviceTrace {
 public:
  /// Records nothing if `recorder` is null or the device works synchronously. Both arguments must
  /// outlive this object.
  DeviceTrace(net::Net& net, TraceRecorder* recorder);

  // Each call ends a span. The work issued since the previous call was:
  void begins_shard();          ///< the end of the previous backward pass
  void has_batch();             ///< the wait for the batch
  void comes_to_gate();         ///< the forward pass since has_batch() or the previous gate
  void passes_gate(int layer);  ///< a wait for the update of this layer
  void ends_forward() { comes_to_gate(); }
  void has_gradient(int layer);  ///< the backward pass of this layer

  /// Passes the finished spans to the recorder.
  void collect();
  /// Waits for the device, and passes all spans to the recorder.
  void collect_all();

 private:
  using Label = TraceRecorder::Label;
  struct LayerLabels {
    Label forward, wait, backward;
  };
  struct Cut {
    Label label;
    int64_t step;
    std::shared_ptr<const Timestamp> end;
  };

  bool records() const { return begin_ != nullptr; }
  void cut(Label label);

  Device& device_;
  TraceRecorder* const recorder_;
  std::vector<LayerLabels> labels_;  ///< by layer
  Label batch_ = 0, before_gates_ = 0, after_gradients_ = 0;
  /// Label of the forward pass since the most recent gate; before the first gate: before_gates_.
  Label forward_ = 0;
  /// Begin of the first of `cuts_`; null: nothing is recorded.
  std::shared_ptr<const Timestamp> begin_;
  std::deque<Cut> cuts_;  ///< spans that are not recorded yet
};

}  // namespace poseidon::trainer
