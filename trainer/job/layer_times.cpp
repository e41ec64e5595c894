#include "trainer/job/layer_times.h"

#include <algorithm>

#include "core/error.h"

namespace poseidon::trainer {

namespace {

constexpr Range kTimed{.minimum = 0, .maximum = 1e12};

}  // namespace

void LayerTimes::Layer::describe(Fields& fields) {
  fields.text("name", name, "name of the layer", Presence::kRequired);
  fields.text("type", type, "type of the layer", Presence::kRequired);
  fields.number("forward_ms", forward_ms, kTimed, "time of one batch", Presence::kRequired);
  fields.number("backward_ms", backward_ms, kTimed, "time of one batch", Presence::kRequired);
  fields.number("backward_gflops", backward_gflops, kTimed,
                "10^9 operations per second of the backward pass");
  fields.number("factor_density", factor_density, between(0, 1),
                "share of the values of its factors that are not zero");
}

void LayerTimes::describe_totals(Fields& fields) {
  fields.number("batch", batch, between(1, 1e12), "samples of the timed batch",
                Presence::kRequired);
  fields.number("pass_ms", pass_ms, kTimed, "time of a forward and backward pass of all layers");
  fields.number("update_ms", update_ms, kTimed, "time of the update of all parameters");
  fields.number("threads", threads, between(1, 1e6), "compute threads");
  fields.integer("devices", devices, between(1, 1 << 16), "equally fast devices of the worker");
}

void LayerTimes::describe(Fields& fields) {
  describe_totals(fields);
  fields.objects(
      "layers", layers.size(), [&](size_t size) { layers.resize(size); },
      [&](Fields& f, size_t i) { layers[i].describe(f); }, "layers in order of execution",
      Presence::kRequired);
}

/// The rebuild of a gradient from factors is the same matrix product as a linear layer's weight
/// gradient, over more samples. Linear layers are preferred, because a convolution may use fewer
/// multiply-adds than are counted (Winograd).
double LayerTimes::rebuild_gflops() const {
  double linear = 0, convolution = 0;
  for (const Layer& layer : layers) {
    if (layer.type == "linear") linear = std::max(linear, layer.backward_gflops);
    if (layer.type == "convolution") convolution = std::max(convolution, layer.backward_gflops);
  }
  return linear > 0 ? linear : convolution;
}

double LayerTimes::batch_ms() const {
  if (pass_ms > 0) return pass_ms;
  double sum = 0;
  for (const Layer& layer : layers) sum += layer.forward_ms + layer.backward_ms;
  return sum;
}

LayerTimes read_layer_times(const Json& json, const std::string& file) {
  const JsonPath top{file, ""};
  LayerTimes times;
  Json layers = Json::array();
  // The output of --time --json has other keys too. FieldReader::finish() would reject these keys,
  // so it is not called.
  FieldReader reader(json, top);
  times.describe_totals(reader);
  reader.raw("layers", layers, "", Presence::kRequired);
  if (!layers.is_array()) fail_at(top.at("layers"), "expected a list, got " + shown(layers));
  for (size_t i = 0; i < layers.size(); ++i) {
    FieldReader layer(layers[i], top.at("layers").at(i));
    times.layers.emplace_back().describe(layer);
  }
  return times;
}

}  // namespace poseidon::trainer
