// Batches of values and of pixels that are written to a net's input.

#include <doctest/doctest.h>

#include "core/bf16.h"
#include "core/philox.h"
#include "tests/support/device_memory.h"
#include "tests/support/layer_backend.h"

using namespace poseidon;
using namespace poseidon::test;

namespace {

const Normalization kLeftToDo{.mean = {103.939F, 116.779F, 123.68F},
                              .factor = {1 / 58.395F, 0.017F, 1 / 57.375F}};

/// Random pixels (n, h, w, c). Large shapes contain every byte value.
std::vector<uint8_t> random_pixels(const Shape& shape) {
  RandomStream random(1, RandomPurpose::kGeneration, 0, 0);
  std::vector<uint8_t> pixels(static_cast<size_t>(shape.count()));
  for (uint8_t& pixel : pixels) pixel = static_cast<uint8_t>(random.next_word() >> 24);
  return pixels;
}

/// The pixels as data::normalize_window() normalizes them: plain (n, c, h, w).
Values normalized(const std::vector<uint8_t>& pixels, const Shape& shape) {
  Values values;
  const int64_t channels = shape.channels(), area = shape.area();
  for (int64_t n = 0; n < shape.samples(); ++n)
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t p = 0; p < area; ++p) {
        const auto channel = static_cast<size_t>(c);
        const float pixel = pixels[static_cast<size_t>((n * area + p) * channels + c)];
        values.push_back((pixel - kLeftToDo.mean[channel]) * kLeftToDo.factor[channel]);
      }
  return values;
}

Values rounded(Values values, DataType type) {
  if (type == DataType::kBf16)
    for (float& value : values) value = Bf16(value);
  return values;
}

struct Bench {
  explicit Bench(DataType type)
      : backend(make_layer_backend(1, type)),
        input(backend.factory->make_batch_input()),
        memory(*backend.device) {}

  std::span<const std::byte> hold(std::span<const std::byte> bytes) {
    Values words((bytes.size() + sizeof(float) - 1) / sizeof(float));
    std::ranges::copy(bytes, std::as_writable_bytes(std::span(words)).begin());
    return {reinterpret_cast<const std::byte*>(memory.hold(words)), bytes.size()};
  }
  /// Writes the batch and returns the input in canonical order.
  Values write(const BatchValues& batch, const Shape& shape, Format format) {
    const Tensor there = memory.take_tensor(shape, format);
    input->write(batch.at(hold(batch.bytes())), there);
    return memory.load(there);
  }

  LayerBackend backend;
  std::unique_ptr<layers::BatchInput> input;
  DeviceMemory memory;
};

}  // namespace

TEST_CASE("batch input: normalized pixels have the bits of the CPU transform") {
  // Shapes with whole packs, with a remainder, and with less than one pack; for one thread block
  // and for several.
  for (const Shape& shape : {Shape{2, 3, 8, 8}, Shape{3, 3, 5, 7}, Shape{1, 3, 1, 2},
                             Shape{16, 3, 32, 32}, Shape{5, 1, 28, 28}, Shape{3, 1, 3, 3}})
    for (const DataType type : {DataType::kFp32, DataType::kBf16}) {
      CAPTURE(shape.text());
      CAPTURE(type == DataType::kBf16);
      Bench bench(type);
      REQUIRE(bench.input->accepts_pixels(shape));
      const Format format = bench.input->format_for(shape, {Layout::kChannelsLast, type});
      CHECK(format == Format{Layout::kChannelsLast, type});
      const std::vector<uint8_t> pixels = random_pixels(shape);
      const BatchValues batch{.floats = {}, .pixels = pixels, .normalization = &kLeftToDo};
      CHECK(bench.write(batch, shape, format) == rounded(normalized(pixels, shape), type));
    }
}

TEST_CASE("batch input: float values are converted to the input's format") {
  for (const Shape& shape : {Shape{2, 3, 5, 7}, Shape{2, 1, 4, 4}, Shape{2, 5, 3, 3}})
    for (const DataType type : {DataType::kFp32, DataType::kBf16})
      for (const Layout layout : {Layout::kPlain, Layout::kChannelsLast}) {
        CAPTURE(shape.text());
        Bench bench(type);
        const Format format = bench.input->format_for(shape, {layout, type});
        CHECK(format.type == type);
        const Values values =
            normalized(random_pixels({shape[0], 1, shape[1] * shape[2], shape[3]}),
                       {shape[0], 1, shape[1] * shape[2], shape[3]});
        const BatchValues batch{.floats = values, .pixels = {}};
        CHECK(bench.write(batch, shape, format) == rounded(values, type));
      }
}

TEST_CASE("batch input: pixels require 1 or 3 channels, color images are channels_last") {
  const Bench bench(DataType::kFp32);
  CHECK_FALSE(bench.input->accepts_pixels({4, 2, 8, 8}));
  CHECK_FALSE(bench.input->accepts_pixels({4, 5, 8, 8}));
  CHECK(bench.input->format_for({4, 3, 8, 8}, kPlainFp32) ==
        Format{Layout::kChannelsLast, DataType::kFp32});
  CHECK(bench.input->format_for({4, 1, 8, 8}, kPlainFp32) == kPlainFp32);
  CHECK(bench.input->format_for({4, 2, 8, 8}, kPlainFp32) == kPlainFp32);
}
