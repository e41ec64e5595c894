#include "data/transform_config.h"

namespace poseidon::data {

namespace {

constexpr double kMaxPixels = 16384;

void describe_random_resized_crop(Fields& fields, TransformConfig::RandomResizedCrop& crop) {
  fields.pair("size", crop.size, between(1, kMaxPixels),
              "[height, width] of the output, or one number", Presence::kRequired);
  fields.numbers("area", crop.area, {.minimum = 0, .maximum = 1, .above_minimum = true},
                 "minimum and maximum area of the region, relative to the image");
  fields.numbers("aspect", crop.aspect, {.minimum = 0, .maximum = 100, .above_minimum = true},
                 "minimum and maximum width / height of the region");
}

void describe_jitter(Fields& fields, TransformConfig::Jitter& jitter) {
  fields.number("brightness", jitter.brightness, between(0, 1),
                "x: scales values by a random factor in [1 - x, 1 + x]");
  fields.number(
      "contrast", jitter.contrast, between(0, 1),
      "x: scales the distance from the image's mean gray by a random factor in [1 - x, 1 + x]");
  fields.number(
      "saturation", jitter.saturation, between(0, 1),
      "x: scales the distance from the pixel's gray by a random factor in [1 - x, 1 + x]");
  fields.number("hue", jitter.hue, between(0, 0.5),
                "x: rotates the hue by a random part, -x to x, of a full circle");
}

void describe_mix(Fields& fields, MixConfig& mix) {
  fields.number("mixup", mix.mixup, between(0, 100),
                "a: result (1 - lambda) x + lambda y, with lambda drawn from Beta(a, a); 0: off");
  fields.number(
      "cutmix", mix.cutmix, between(0, 100),
      "a: copies a rectangle from y at a random center, with sqrt(lambda) of height and width and "
      "lambda from Beta(a, a). The weight of y is the rectangle's part of the area; 0: off");
  fields.number("probability", mix.probability, between(0, 1),
                "probability that a sample is mixed");
}

}  // namespace

void TransformConfig::describe(Fields& fields) {
  fields.option("orientation", orientation, {"apply", "ignore"},
                "apply: first rotate JPEG images by their EXIF orientation");
  fields.pair("resize", resize, between(0, kMaxPixels),
              "[height, width] after resizing, or one number; 0: off");
  fields.integer("resize_short", resize_short, between(0, kMaxPixels),
                 "shorter side after resizing, aspect ratio kept; 0: off");
  fields.integer("padding", padding, between(0, kMaxPixels),
                 "black pixels added at each side before the crop");
  fields.pair(
      "crop", crop, between(0, kMaxPixels),
      "[height, width] of the crop, or one number; random in training, centered in tests; 0: off");
  fields.object(
      "random_resized_crop",
      [&](Fields& inner) { describe_random_resized_crop(inner, random_resized_crop); },
      "resized random region; in tests the center square of 7/8 of the shorter side",
      Presence::kOptional, &random_resized_crop.present);
  fields.boolean("mirror", mirror, "flip training samples horizontally with probability 0.5");
  fields.object(
      "jitter", [&](Fields& inner) { describe_jitter(inner, jitter); },
      "color jitter in training, in random order", Presence::kOptional, &jitter.present);
  fields.numbers("mean", mean, {},
                 "subtracted from pixels (0 to 255): one number, or one per channel");
  fields.numbers("std", std_dev, kPositive,
                 "divisor after \"mean\", in pixel units: one number, or one per channel");
  fields.number("scale", scale, {}, "factor after \"std\"");
  fields.text("mean_image", mean_image, "PFM file, subtracted from each image instead of \"mean\"");
  fields.object(
      "mix", [&](Fields& inner) { describe_mix(inner, mix); },
      "mixup/cutmix: combines each training sample x with another sample y, drawn uniformly and "
      "augmented for the same epoch. If \"mixup\" and \"cutmix\" are both above 0, each applies to "
      "half of the samples. softmax_loss weights both labels, accuracy uses the label of larger "
      "weight; other layers cannot read labels",
      Presence::kOptional, &mix.present);
}

}  // namespace poseidon::data
