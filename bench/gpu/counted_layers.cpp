#include "bench/gpu/counted_layers.h"

namespace poseidon::bench {

namespace {

using layers::Bindings;
using layers::FactorMemory;
using layers::GradientSink;
using layers::Layer;
using layers::LayerFactory;
using layers::LayerRequest;
using layers::StepContext;

class CountedLayer final : public Layer {
 public:
  CountedLayer(std::unique_ptr<Layer> layer, std::string type, CostCounter& cost_counter)
      : layer_(std::move(layer)), type_(std::move(type)), cost_counter_(cost_counter) {
    needs_ = layer_->needs();
  }

  void forward(const StepContext& step, const Bindings& memory) override {
    const CostCounter::Part part(cost_counter_, type_ + " forward");
    layer_->forward(step, memory);
  }
  void backward(const StepContext& step, const Bindings& memory) override {
    const CostCounter::Part part(cost_counter_, type_ + " backward");
    layer_->backward(step, memory);
  }
  void write_factors(const Bindings& memory, const FactorMemory& factors) override {
    layer_->write_factors(memory, factors);
  }
  void rebuild(const FactorMemory& factors, const Bindings& memory,
               const GradientSink* sink) override {
    layer_->rebuild(factors, memory, sink);
  }
  int64_t packed_count(int index) const override { return layer_->packed_count(index); }
  void pack(int index, const float* canonical, float* packed) const override {
    layer_->pack(index, canonical, packed);
  }
  void unpack(int index, const float* packed, float* canonical) const override {
    layer_->unpack(index, packed, canonical);
  }
  bool reads_rounded(int index) const override { return layer_->reads_rounded(index); }
  void round(int index, const float* packed, Bf16* rounded) const override {
    layer_->round(index, packed, rounded);
  }
  void pack_gradient(int index, const float* canonical, const Bindings& memory,
                     const GradientSink& sink) const override {
    layer_->pack_gradient(index, canonical, memory, sink);
  }
  bool packed_is_canonical(int index) const override { return layer_->packed_is_canonical(index); }
  std::string packed_order(int index) const override { return layer_->packed_order(index); }

 private:
  const std::unique_ptr<Layer> layer_;
  const std::string type_;
  CostCounter& cost_counter_;
};

class CountedFactory final : public LayerFactory {
 public:
  CountedFactory(std::unique_ptr<LayerFactory> factory, CostCounter& cost_counter)
      : factory_(std::move(factory)), cost_counter_(cost_counter) {}

  Device& device() override { return factory_->device(); }
  std::unique_ptr<Layer> make(const LayerRequest& request) override {
    return counted(factory_->make(request), std::string(request.definition.type()));
  }
  bool fuses_relu(const layers::Definition& definition) const override {
    return factory_->fuses_relu(definition);
  }
  bool fuses_residual(const layers::Definition& definition) const override {
    return factory_->fuses_residual(definition);
  }
  void add(std::span<const float> values, std::span<float> sums) override {
    factory_->add(values, sums);
  }
  std::unique_ptr<Layer> make_reorder(const Shape& shape, Format from, Format to) override {
    return counted(factory_->make_reorder(shape, from, to), "reorder");
  }

 private:
  std::unique_ptr<Layer> counted(std::unique_ptr<Layer> layer, const std::string& type) {
    return std::make_unique<CountedLayer>(std::move(layer), type, cost_counter_);
  }

  const std::unique_ptr<LayerFactory> factory_;
  CostCounter& cost_counter_;
};

}  // namespace

std::unique_ptr<LayerFactory> make_counted_factory(std::unique_ptr<LayerFactory> factory,
                                                   CostCounter& cost_counter) {
  return std::make_unique<CountedFactory>(std::move(factory), cost_counter);
}

}  // namespace poseidon::bench
