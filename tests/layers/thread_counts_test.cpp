// The bits of convolutions and of their transposes do not depend on the number of threads.

#include <doctest/doctest.h>

#include "tests/support/gradient_check.h"

using namespace poseidon;
using namespace poseidon::test;

namespace {

/// A convolution with padding on all sides, and the numbers of samples to test.
struct ThreadedGeometry {
  int64_t channels, outputs, groups, size, kernel, stride, padding;
  std::vector<int64_t> batches;
};

/// The direct method of oneDNN computes most of these geometries, in several implementations. The
/// largest batches have several blocks of samples, and the largest weights several pieces.
const std::vector<ThreadedGeometry>& threaded_geometries() {
  static const std::vector<ThreadedGeometry> kGeometries{
      {3, 16, 1, 19, 3, 1, 1, {1, 2, 17}},      // an image
      {3, 64, 1, 23, 7, 2, 3, {5, 16}},         // like the first layer of a ResNet
      {1, 20, 1, 28, 5, 1, 0, {13}},            // the first layer of LeNet
      {3, 48, 1, 27, 11, 4, 0, {2, 9}},         // like the first layer of AlexNet
      {16, 32, 1, 14, 3, 1, 1, {1, 3, 8, 17}},  // complete blocks
      {32, 48, 1, 13, 3, 2, 1, {2, 4, 11}},     // strided
      {64, 256, 1, 7, 1, 1, 0, {1, 6, 17}},     // 1 x 1
      {128, 96, 1, 14, 1, 2, 0, {5, 12}},       // 1 x 1, strided
      {256, 256, 1, 5, 3, 1, 1, {1, 2, 8}},     // a large weight
      {7, 20, 1, 12, 3, 1, 1, {1, 4, 15}},      // channels that do not fill a block
      {32, 64, 2, 13, 5, 1, 2, {2, 9, 16}},     // groups
      {64, 64, 16, 9, 3, 2, 1, {3, 8}},         // small groups
      {24, 24, 24, 12, 3, 1, 1, {2, 17}},       // depthwise
      {16, 16, 1, 15, 5, 1, 4, {1, 3, 14}},     // wide padding
      {12, 40, 1, 10, 4, 3, 2, {4, 7}}};
  return kGeometries;
}

void check_thread_counts(LayerCase layer) {
  const std::string what = layer.json.dump() + " on " + layer.inputs[0].text();
  CAPTURE(what);
  const LayerInputs values = random_inputs(LayerRunner(layer), layer, 1);
  for (const std::string layout : {"", "channels_last"}) {
    layer.choice = {layout, "direct", "direct", "direct"};
    layer.threads = 1;
    const LayerResults one = LayerRunner(layer).run(values);
    for (const int threads : {2, 3}) {
      layer.threads = threads;
      CAPTURE(layout);
      CAPTURE(threads);
      const LayerResults more = LayerRunner(layer).run(values);
      CHECK((more.output == one.output));
      CHECK((more.input_gradients[0] == one.input_gradients[0]));
      for (size_t i = 0; i < one.parameter_gradients.size(); ++i)
        CHECK((more.parameter_gradients[i] == one.parameter_gradients[i]));
    }
  }
}

void check_thread_counts_of(const char* type, DataType activations) {
  bool bias = true;
  for (const ThreadedGeometry& g : threaded_geometries())
    for (const int64_t samples : g.batches) {
      check_thread_counts({.json = {{"name", "layer"},
                                    {"type", type},
                                    {"outputs", g.outputs},
                                    {"groups", g.groups},
                                    {"kernel", g.kernel},
                                    {"stride", g.stride},
                                    {"padding", g.padding},
                                    {"bias", bias}},
                           .inputs = {{samples, g.channels, g.size, g.size}},
                           .type = activations});
      bias = !bias;
    }
}

}  // namespace

TEST_CASE("convolution: equal bits with one, two and three threads") {
  check_thread_counts_of("convolution", DataType::kFp32);
}

TEST_CASE("convolution: equal bits with one, two and three threads in bf16") {
  check_thread_counts_of("convolution", DataType::kBf16);
}

TEST_CASE("deconvolution: equal bits with one, two and three threads") {
  check_thread_counts_of("deconvolution", DataType::kFp32);
}

TEST_CASE("deconvolution: equal bits with one, two and three threads in bf16") {
  check_thread_counts_of("deconvolution", DataType::kBf16);
}
