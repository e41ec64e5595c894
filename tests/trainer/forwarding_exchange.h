#pragma once

#include <memory>
#include <utility>

#include "trainer/step/exchange.h"

namespace poseidon::trainer {

/// Forwards all calls to another GradientExchange. Tests override single calls.
class ForwardingExchange : public GradientExchange {
 public:
  explicit ForwardingExchange(std::unique_ptr<GradientExchange> other) : other_(std::move(other)) {}

  bool is_local() const override { return other_->is_local(); }
  void begin_backward(int64_t shard) override { other_->begin_backward(shard); }
  void contribute_statistics(int64_t shard) override { other_->contribute_statistics(shard); }
  void contribute(std::span<const FinalGradient> gradients, int64_t shard) override {
    other_->contribute(gradients, shard);
  }
  void release(int layer) override { other_->release(layer); }
  std::optional<int> arrived() override { return other_->arrived(); }
  void wait() override { other_->wait(); }
  void deliver(int layer, int64_t step, const layers::GradientSink* sink) override {
    other_->deliver(layer, step, sink);
  }
  int64_t slot(int layer, int64_t step) const override { return other_->slot(layer, step); }

 private:
  const std::unique_ptr<GradientExchange> other_;
};

}  // namespace poseidon::trainer
