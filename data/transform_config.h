#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/fields.h"
#include "data/orientation.h"

namespace poseidon::data {

/// Two samples become one, and their labels have shares in it. Parameters of the distribution
/// Beta(a, a) of the second sample's share; 0: it is not mixed in this way. Of two ways each is
/// taken for one half of the samples.
struct MixConfig {
  bool present = false;
  double mixup = 0;        ///< every value is a mean of two, weighed by their shares
  double cutmix = 0;       ///< a rectangle is the other's; its part of the area is the share
  double probability = 1;  ///< with which a sample is mixed at all
};

/// What is done to an image on its way to the network, in this order:
///   0. A JPEG is turned upright, by its EXIF orientation
///   1. `random_resized_crop`; or `resize` / `resize_short`, then `padding`, then `crop`
///   2. `jitter`, whose steps come in an order of their own for each sample; `mirror`
///   3. (pixel - mean) * scale / std, with pixels of 0 to 255
///   4. `mix`, with another sample of which all this was made
/// In training the crop's position, the mirror, the jitter and the mixture are random, functions of
/// seed, epoch and sample alone. In testing nothing is random: the crop is the centre,
/// `random_resized_crop` takes the centre 7/8 of the shorter side, nothing is mirrored, jittered or
/// mixed.
struct TransformConfig {
  OrientationRule orientation = OrientationRule::kApply;
  std::array<int64_t, 2> resize{0, 0};  ///< height, width; 0: not resized
  int64_t resize_short = 0;             ///< shorter side, aspect kept; 0: not resized
  int64_t padding = 0;  ///< how many black pixels are added on each side before the crop
  std::array<int64_t, 2> crop{0, 0};  ///< height, width; 0: the whole image

  struct RandomResizedCrop {
    bool present = false;
    std::array<int64_t, 2> size{0, 0};
    std::vector<double> area{0.08, 1.0};               ///< smallest and largest part of the image
    std::vector<double> aspect{3.0 / 4.0, 4.0 / 3.0};  ///< smallest and largest width / height
  } random_resized_crop;

  bool mirror = false;

  struct Jitter {
    bool present = false;
    double brightness = 0, contrast = 0, saturation = 0;  ///< factors drawn from [1 - x, 1 + x]
    double hue = 0;                                       ///< turns drawn from [-x, x]
  } jitter;

  std::vector<double> mean;     ///< one for all channels, or one each; empty: 0
  std::vector<double> std_dev;  ///< key "std"; likewise; empty: 1
  double scale = 1;
  std::string mean_image;  ///< a PFM file, subtracted in place of `mean`

  MixConfig mix;

  void describe(Fields& fields);
};

}  // namespace poseidon::data
