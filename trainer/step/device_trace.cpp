#include "trainer/step/device_trace.h"

namespace poseidon::trainer {

DeviceTrace::DeviceTrace(net::Net& net, TraceRecorder* recorder)
    : device_(net.device()), recorder_(recorder) {
  if (recorder == nullptr) return;
  begin_ = device_.record_timestamp();
  if (!records()) return;
  const auto label = [&](const char* what, const std::string& of) {
    return recorder->label({"device", what, of});
  };
  for (int layer = 0; layer < net.layer_count(); ++layer) {
    const std::string& name = net.layer_name(layer);
    labels_.push_back({label("forward", name), label("wait", name), label("backward", name)});
  }
  batch_ = label("wait", "batch");
  before_gates_ = label("forward", "input");
  after_gradients_ = label("backward", "input");
}

void DeviceTrace::cut(Label label) {
  if (records())
    cuts_.push_back({.label = label, .step = recorder_->step(), .end = device_.record_timestamp()});
}

void DeviceTrace::begins_shard() { cut(after_gradients_); }

void DeviceTrace::has_batch() {
  cut(batch_);
  forward_ = before_gates_;
}

void DeviceTrace::comes_to_gate() { cut(forward_); }

void DeviceTrace::passes_gate(int layer) {
  if (!records()) return;
  const LayerLabels& labels = labels_[static_cast<size_t>(layer)];
  cut(labels.wait);
  forward_ = labels.forward;
}

void DeviceTrace::has_gradient(int layer) {
  if (records()) cut(labels_[static_cast<size_t>(layer)].backward);
}

void DeviceTrace::collect() {
  for (; !cuts_.empty() && cuts_.front().end->reached(); cuts_.pop_front()) {
    const Cut& first = cuts_.front();
    recorder_->add({.label = first.label,
                    .step = first.step,
                    .begin_ns = begin_->nanoseconds(),
                    .end_ns = first.end->nanoseconds()});
    begin_ = first.end;
  }
}

void DeviceTrace::collect_all() {
  if (!records()) return;
  device_.record().wait();
  collect();
}

}  // namespace poseidon::trainer
