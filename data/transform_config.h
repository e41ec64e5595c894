#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/fields.h"
#include "data/orientation.h"

namespace poseidon::data {

/// Mixup and CutMix: combines a training sample with a second sample of the set. lambda, drawn from
/// Beta(a, a), is the weight of the second sample. The loss weights both labels accordingly.
/// `mixup` and `cutmix` are the values of a for the two methods; 0: method not used. If both are
/// above 0, each method is used with probability 1/2.
struct MixConfig {
  bool present = false;
  double mixup = 0;  ///< each value is (1 - lambda) * first + lambda * second
  /// Copies a rectangle of the second sample. Its center is random, and its sides are sqrt(lambda)
  /// of height and width. The rectangle is clipped to the image. Then lambda becomes the fraction
  /// of the area that the rectangle covers.
  double cutmix = 0;
  double probability = 1;  ///< probability that a sample is mixed
};

/// Preprocessing of an image before it enters the network, in this order:
///   0. the EXIF orientation of a JPEG, unless `orientation` is kIgnore
///   1. `random_resized_crop`; or `resize` / `resize_short`, then `padding`, then `crop`
///   2. `jitter`, with its steps in a random order for each sample
///   3. `mirror`: exchange of left and right, with probability 1/2
///   4. (pixel - mean) * scale / std, with pixels of 0 to 255
///   5. `mix`, with a second sample after the same preprocessing
///
/// In training, the crop position, mirror, jitter and mix are random functions of seed, epoch and
/// sample only. In testing, nothing is random, and the crop is centered. `random_resized_crop` then
/// uses the centered square whose side is 7/8 of the shorter side. Testing does not mirror, jitter
/// or mix.
struct TransformConfig {
  OrientationRule orientation = OrientationRule::kApply;
  std::array<int64_t, 2> resize{0, 0};  ///< height, width; 0: not resized
  int64_t resize_short = 0;  ///< length of the shorter side, aspect ratio kept; 0: not resized
  int64_t padding = 0;       ///< black pixels added on each side before the crop
  std::array<int64_t, 2> crop{0, 0};  ///< height, width; 0: whole image with padding

  struct RandomResizedCrop {
    bool present = false;
    std::array<int64_t, 2> size{0, 0};
    std::vector<double> area{0.08, 1.0};  ///< smallest and largest fraction of the image's area
    std::vector<double> aspect{3.0 / 4.0, 4.0 / 3.0};  ///< smallest and largest width / height
  } random_resized_crop;

  bool mirror = false;

  struct Jitter {
    bool present = false;
    double brightness = 0, contrast = 0, saturation = 0;  ///< x: factor from [1 - x, 1 + x]
    double hue = 0;  ///< x: rotation from [-x, x], in turns of the color circle
  } jitter;

  std::vector<double> mean;     ///< one value for all channels, or one per channel; empty: 0
  std::vector<double> std_dev;  ///< key "std"; one value, or one per channel; empty: 1
  double scale = 1;
  std::string mean_image;  ///< PFM file, subtracted instead of `mean`

  MixConfig mix;

  void describe(Fields& fields);
};

}  // namespace poseidon::data
