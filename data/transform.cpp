#include "data/transform.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <utility>

#include "core/file.h"
#include "core/philox.h"
#include "data/crop_plan.h"
#include "data/image_decoder.h"
#include "data/jitter.h"
#include "data/normalize_window.h"
#include "data/pfm.h"
#include "data/resample.h"

namespace poseidon::data {

class TransformScratch {
 public:
  ImageDecoder decoder;
  DecodedPart part;  ///< decoded part of an image file
  AxisTaps rows, columns;
  std::vector<float> row, pixels;
};

void TransformScratchDelete::operator()(TransformScratch* scratch) const { delete scratch; }
TransformScratchPtr make_transform_scratch() { return TransformScratchPtr(new TransformScratch); }

struct Transform::State {
  TransformConfig config;
  Shape output;
  Phase phase = Phase::kTrain;
  uint64_t seed = 0;
  Normalization normalization;
  FloatImage mean_image;  ///< empty: no mean image

  void check_config() const;
  void check_size(const CropPlan& plan, int64_t channels, const SampleName& name) const;
  void set_normalization();
  void read_mean_image();
  void subtract_mean_image(const CropPlan& plan, bool mirror, const SampleName& name,
                           std::span<float> out) const;
  JitterFactors draw_jitter(RandomStream& random) const;
  bool may_resize() const {
    return config.resize[0] > 0 || config.resize_short > 0 || config.random_resized_crop.present;
  }
  bool keeps_pixels() const {
    return !may_resize() && !jittered() && !mixed() && config.mean_image.empty();
  }
  bool mixed() const { return phase == Phase::kTrain && config.mix.present; }
  bool jittered() const { return phase == Phase::kTrain && config.jitter.present; }

  void apply_encoded(const Sample& sample, RandomStream& random, const SampleName& name,
                     const SampleOutput& out, TransformScratch& scratch) const;
  void apply_pixels(const Sample& sample, RandomStream& random, const SampleName& name,
                    const SampleOutput& out, TransformScratch& scratch) const;
  void apply_floats(const Sample& sample, RandomStream& random, const SampleName& name,
                    const SampleOutput& out) const;
  /// Transforms the decoded pixels in `part`. The members of `part` state the position of the
  /// pixels in the sample.
  void from_pixels(const CropPlan& plan, const DecodedPart& part, RandomStream& random,
                   const SampleName& name, const SampleOutput& out,
                   TransformScratch& scratch) const;
  template <class Value>
  void finish_window(const CropPlan& plan, const PixelWindow<Value>& window, RandomStream& random,
                     const SampleName& name, const SampleOutput& out) const;

  CropPlan plan(int64_t height, int64_t width, RandomStream& random, const SampleName& name) const {
    return plan_crop(config, height, width, phase == Phase::kTrain ? &random : nullptr, name);
  }
};

namespace {

[[noreturn]] void fail(const std::string& what) { throw ConfigError("transform: " + what); }

void check_range(const std::vector<double>& range, const char* key) {
  if (range.size() != 2 || range[0] > range[1])
    fail(text("\"random_resized_crop\": expected \"", key, "\": [smallest, largest]"));
}

/// Returns one value per channel. `values` has one value per channel, one value for all channels,
/// or no value. In the last case, all values are `absent`.
std::vector<float> per_channel(const std::vector<double>& values, int64_t channels, double absent,
                               const char* key) {
  if (values.size() > 1 && channels == 1)
    fail(text("\"", key, "\": expected 1 value, as the network's images are gray, got ",
              values.size()));
  if (values.size() > 1 && static_cast<int64_t>(values.size()) != channels)
    fail(text("\"", key, "\": expected 1 or ", channels, " values, one for each channel, got ",
              values.size()));
  std::vector<float> out;
  for (size_t c = 0; c < static_cast<size_t>(channels); ++c)
    out.push_back(static_cast<float>(values.empty()       ? absent
                                     : values.size() == 1 ? values[0]
                                                          : values[c]));
  return out;
}

/// Returns the part of the source that the plan reads, with the margin that resampling needs.
Box needed(const CropPlan& plan) {
  const auto span = [](double origin, double step, int64_t first, int64_t count, int64_t low,
                       int64_t extent) {
    const double reach = std::max(step, 1.0) + 1;
    const double from = origin + static_cast<double>(first) * step - reach;
    const double to = origin + static_cast<double>(first + count) * step + reach;
    const int64_t begin = std::clamp(static_cast<int64_t>(std::floor(from)), low, low + extent - 1);
    const int64_t end = std::clamp(static_cast<int64_t>(std::ceil(to)), begin + 1, low + extent);
    return std::array<int64_t, 2>{begin, end - begin};
  };
  const auto rows =
      span(plan.origin_y, plan.step_y, plan.top, plan.height, plan.used.top, plan.used.height);
  const auto columns =
      span(plan.origin_x, plan.step_x, plan.left, plan.width, plan.used.left, plan.used.width);
  return {rows[0], columns[0], rows[1], columns[1]};
}

/// One axis of a CropPlan, and the position of the decoded part on this axis.
struct Axis {
  double origin, step;
  int64_t first, count;  ///< range of the scaled image that the output contains, without padding
  int64_t low, high;     ///< range of CropPlan::used, in source pixels
  double part_begin;     ///< DecodedPart::top or left
  int64_t part_extent;
};

void make_taps(const Axis& axis, double scale, AxisTaps& taps) {
  const auto local = [&](double position) { return position * scale - axis.part_begin; };
  const int64_t low =
      std::clamp<int64_t>(static_cast<int64_t>(std::floor(local(static_cast<double>(axis.low)))), 0,
                          axis.part_extent - 1);
  const int64_t high =
      std::clamp<int64_t>(static_cast<int64_t>(std::ceil(local(static_cast<double>(axis.high)))),
                          low + 1, axis.part_extent);
  taps.make(local(axis.origin + static_cast<double>(axis.first) * axis.step), axis.step * scale,
            axis.count, low, high);
}

}  // namespace

void Transform::State::check_config() const {
  const bool resizes = config.resize[0] > 0 || config.resize_short > 0;
  if ((config.resize[0] == 0) != (config.resize[1] == 0) ||
      (config.crop[0] == 0) != (config.crop[1] == 0))
    fail("\"resize\" and \"crop\": expected height and width both above 0 or both 0");
  if (config.resize[0] > 0 && config.resize_short > 0)
    fail("\"resize\" and \"resize_short\" exclude each other");
  if (config.random_resized_crop.present) {
    if (resizes || config.crop[0] > 0 || config.padding > 0)
      fail(
          "\"random_resized_crop\" excludes \"resize\", \"resize_short\", \"padding\" and "
          "\"crop\"");
    check_range(config.random_resized_crop.area, "area");
    check_range(config.random_resized_crop.aspect, "aspect");
  }
  if (!config.mean_image.empty() && !config.mean.empty())
    fail("\"mean\" and \"mean_image\" exclude each other");
  if (config.mix.present && config.mix.mixup == 0 && config.mix.cutmix == 0)
    fail("\"mix\": expected \"mixup\" or \"cutmix\" above 0");
  const std::array<int64_t, 2>& size =
      config.random_resized_crop.present ? config.random_resized_crop.size : config.crop;
  if (size[0] > 0 && (size[0] != output[1] || size[1] != output[2]))
    fail(text("the output is ", size[0], "x", size[1], ", the network's input is ", output[1], "x",
              output[2]));
}

void Transform::State::set_normalization() {
  normalization.mean = per_channel(config.mean, output[0], 0, "mean");
  normalization.factor = per_channel(config.std_dev, output[0], 1, "std");
  for (float& factor : normalization.factor) factor = static_cast<float>(config.scale) / factor;
}

void Transform::State::read_mean_image() {
  if (config.mean_image.empty()) return;
  std::vector<std::byte> bytes;
  read_file(config.mean_image, uint64_t{1} << 30, bytes);
  mean_image = parse_pfm(bytes, config.mean_image);
  if (mean_image.channels != output[0])
    throw ConfigError(
        text(config.mean_image, ": expected ", output[0], " channels, got ", mean_image.channels));
}

void Transform::State::check_size(const CropPlan& plan, int64_t channels,
                                  const SampleName& name) const {
  if (plan.height != output[1] || plan.width != output[2])
    throw ConfigError(text(
        name(), ": is ", plan.height, "x", plan.width,
        " after the transform, the network's input is ", output[1], "x", output[2],
        "; set \"resize\", \"crop\" or \"random_resized_crop\" in the transform to this size"));
  const bool convertible = (channels == 1 || channels == 3) && (output[0] == 1 || output[0] == 3);
  if (channels != output[0] && !convertible)
    throw ConfigError(
        text(name(), ": has ", channels, " channels, the network's input has ", output[0]));
}

// Subtracts the mean image, times the normalization factors, from the normalized output `out`. A
// mean image of the output's size is used completely. Any other mean image must have the size
// before the crop, without padding. Then the region of the crop is used.
void Transform::State::subtract_mean_image(const CropPlan& plan, bool mirror,
                                           const SampleName& name, std::span<float> out) const {
  const bool own_size = mean_image.height == plan.height && mean_image.width == plan.width;
  const int64_t top = own_size ? 0 : plan.top, left = own_size ? 0 : plan.left;
  if (!own_size && (mean_image.height != plan.scaled_height ||
                    mean_image.width != plan.scaled_width || config.padding > 0))
    throw ConfigError(text(config.mean_image, ": the mean image is ", mean_image.height, "x",
                           mean_image.width, ", ", name(), " is ", plan.scaled_height, "x",
                           plan.scaled_width, " before and ", plan.height, "x", plan.width,
                           " after the crop; expected a mean image of the size after the crop, or "
                           "without \"padding\" of the size before it"));
  size_t at = 0;
  for (int64_t c = 0; c < output[0]; ++c) {
    const float factor = normalization.factor[static_cast<size_t>(c)];
    for (int64_t y = 0; y < plan.height; ++y)
      for (int64_t x = 0; x < plan.width; ++x, ++at) {
        const int64_t column = left + (mirror ? plan.width - 1 - x : x);
        const int64_t from = ((top + y) * mean_image.width + column) * output[0] + c;
        out[at] -= mean_image.values[static_cast<size_t>(from)] * factor;
      }
  }
}

/// Always draws all random numbers, so one option does not change the random numbers of another
/// option. The order is uniform over all 24 permutations.
JitterFactors Transform::State::draw_jitter(RandomStream& random) const {
  const auto around = [&](float middle, double width) {
    const float x = static_cast<float>(width);
    return random.next_uniform(middle - x, middle + x);
  };
  JitterFactors factors;
  factors.brightness = around(1, config.jitter.brightness);
  factors.contrast = around(1, config.jitter.contrast);
  factors.saturation = around(1, config.jitter.saturation);
  factors.hue = around(0, config.jitter.hue);
  for (uint32_t left = 4; left > 1; --left)
    std::swap(factors.order[left - 1], factors.order[random.next_below(left)]);
  return factors;
}

template <class Value>
void Transform::State::finish_window(const CropPlan& plan, const PixelWindow<Value>& window,
                                     RandomStream& random, const SampleName& name,
                                     const SampleOutput& out) const {
  const bool mirror = phase == Phase::kTrain && config.mirror && (random.next_word() >> 31) != 0;
  if constexpr (std::is_same_v<Value, uint8_t>)
    if (!out.pixels.empty())
      return copy_window(window, output[0], mirror, plan.height, plan.width, out.pixels);
  check(out.pixels.empty(), "samples of floats have no pixels");
  normalize_window(window, normalization, mirror, plan.height, plan.width, out.values);
  if (!mean_image.values.empty()) subtract_mean_image(plan, mirror, name, out.values);
}

void Transform::State::from_pixels(const CropPlan& plan, const DecodedPart& part,
                                   RandomStream& random, const SampleName& name,
                                   const SampleOutput& out, TransformScratch& scratch) const {
  const Image& image = part.image;
  if (!plan.resized() && !jittered()) {
    const PixelWindow<uint8_t> window{image.pixels.data(), image.height, image.width,
                                      plan.top + static_cast<int64_t>(plan.origin_y - part.top),
                                      plan.left + static_cast<int64_t>(plan.origin_x - part.left)};
    return finish_window(plan, window, random, name, out);
  }
  // Rows and columns of the output inside the scaled image. Other rows and columns are padding.
  const int64_t top = std::max<int64_t>(plan.top, 0), left = std::max<int64_t>(plan.left, 0);
  const int64_t rows = std::min(plan.top + plan.height, plan.scaled_height) - top;
  const int64_t columns = std::min(plan.left + plan.width, plan.scaled_width) - left;
  PixelWindow<float> window{nullptr, std::max<int64_t>(rows, 0), std::max<int64_t>(columns, 0),
                            plan.top - top, plan.left - left};
  if (rows > 0 && columns > 0) {
    make_taps({plan.origin_y, plan.step_y, top, rows, plan.used.top,
               plan.used.top + plan.used.height, part.top, image.height},
              part.scale, scratch.rows);
    make_taps({plan.origin_x, plan.step_x, left, columns, plan.used.left,
               plan.used.left + plan.used.width, part.left, image.width},
              part.scale, scratch.columns);
    scratch.pixels.resize(static_cast<size_t>(rows * columns * image.channels));
    resample(image, scratch.rows, scratch.columns, scratch.pixels, scratch.row);
    if (jittered()) jitter(scratch.pixels, image.channels, draw_jitter(random));
    window.pixels = scratch.pixels.data();
  }
  finish_window(plan, window, random, name, out);
}

void Transform::State::apply_encoded(const Sample& sample, RandomStream& random,
                                     const SampleName& name, const SampleOutput& out,
                                     TransformScratch& scratch) const {
  if (output[0] != 1 && output[0] != 3)
    throw ConfigError(
        text(name(), ": is an image of 1 or 3 channels, the network's input has ", output[0]));
  const ImageHeader header = scratch.decoder.open(sample.bytes, name(), config.orientation);
  const CropPlan crop = plan(header.height, header.width, random, name);
  check_size(crop, header.channels, name);
  scratch.decoder.decode(needed(crop), std::max(1.0, std::min(crop.step_y, crop.step_x)),
                         static_cast<int>(output[0]), scratch.part);
  from_pixels(crop, scratch.part, random, name, out, scratch);
}

void Transform::State::apply_pixels(const Sample& sample, RandomStream& random,
                                    const SampleName& name, const SampleOutput& out,
                                    TransformScratch& scratch) const {
  const CropPlan crop = plan(sample.height, sample.width, random, name);
  check_size(crop, sample.channels, name);
  const auto* pixels = reinterpret_cast<const uint8_t*>(sample.bytes.data());
  if (sample.channels == output[0] && !crop.resized() && !jittered())
    return finish_window(
        crop, PixelWindow<uint8_t>{pixels, sample.height, sample.width, crop.top, crop.left},
        random, name, out);
  if (output[0] != 1 && output[0] != 3)
    throw ConfigError(
        text(name(), ": samples of ", output[0], " channels cannot be resized or jittered"));
  DecodedPart& part = scratch.part;
  part.scale = 1;
  part.top = part.left = 0;
  part.image.reshape(sample.height, sample.width, output[0]);
  convert_channels(pixels, sample.channels, output[0], part.image);
  from_pixels(crop, part, random, name, out, scratch);
}

void Transform::State::apply_floats(const Sample& sample, RandomStream& random,
                                    const SampleName& name, const SampleOutput& out) const {
  const CropPlan crop = plan(sample.height, sample.width, random, name);
  check_size(crop, sample.channels, name);
  if (sample.channels != output[0] || crop.resized() || jittered())
    throw ConfigError(text(name(), ": float samples cannot be resized, jittered or converted to ",
                           output[0], " channels"));
  const auto* values = reinterpret_cast<const float*>(sample.bytes.data());
  finish_window(crop, PixelWindow<float>{values, sample.height, sample.width, crop.top, crop.left},
                random, name, out);
}

Transform::Transform(const TransformConfig& config, const Shape& output, Phase phase, uint64_t seed,
                     const Shape& source) {
  auto state = std::make_unique<State>();
  check(output.rank() == 3, "a transform's output is channels, height, width");
  state->config = config;
  state->output = output;
  state->phase = phase;
  state->seed = seed;
  state->check_config();
  state->set_normalization();
  state->read_mean_image();
  if (source.rank() == 3) {
    const SampleName dataset = [] { return std::string("dataset"); };
    const CropPlan plan = plan_crop(config, source[1], source[2], nullptr, dataset);
    state->check_size(plan, source[0], dataset);
  }
  state_ = std::move(state);
}

Transform::~Transform() = default;
Transform::Transform(Transform&&) noexcept = default;

const Shape& Transform::output() const { return state_->output; }
bool Transform::keeps_pixels() const { return state_->keeps_pixels(); }
const MixConfig* Transform::mix() const { return state_->mixed() ? &state_->config.mix : nullptr; }
const Normalization& Transform::normalization() const { return state_->normalization; }

void Transform::apply(const Sample& sample, SampleKey key, const SampleName& name,
                      const SampleOutput& out, TransformScratch& scratch) const {
  check(
      std::max(out.values.size(), out.pixels.size()) == static_cast<size_t>(state_->output.count()),
      "wrong size of a sample's span");
  check(out.pixels.empty() || keeps_pixels(),
        "a transform that does not keep pixels outputs floats");
  RandomStream random(state_->seed, RandomPurpose::kAugmentation, key.epoch, key.index);
  switch (sample.form) {
    case SampleForm::kEncoded: return state_->apply_encoded(sample, random, name, out, scratch);
    case SampleForm::kPixels: return state_->apply_pixels(sample, random, name, out, scratch);
    case SampleForm::kFloats: return state_->apply_floats(sample, random, name, out);
  }
}

}  // namespace poseidon::data
