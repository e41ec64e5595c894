#include "data/transform_config.h"

namespace poseidon::data {

namespace {

constexpr double kMostPixels = 16384;

void describe_random_resized_crop(Fields& fields, TransformConfig::RandomResizedCrop& crop) {
  fields.pair("size", crop.size, between(1, kMostPixels), "height and width that come out",
              Presence::kRequired);
  fields.numbers("area", crop.area, {.minimum = 0, .maximum = 1, .above_minimum = true},
                 "smallest and largest part of the image's area");
  fields.numbers("aspect", crop.aspect, {.minimum = 0, .maximum = 100, .above_minimum = true},
                 "smallest and largest width / height of the part");
}

void describe_jitter(Fields& fields, TransformConfig::Jitter& jitter) {
  fields.number("brightness", jitter.brightness, between(0, 1), "factor of 1 - x to 1 + x");
  fields.number("contrast", jitter.contrast, between(0, 1),
                "distance from the mean grey, times 1 - x to 1 + x");
  fields.number("saturation", jitter.saturation, between(0, 1),
                "distance from the pixel's own grey, times 1 - x to 1 + x");
  fields.number("hue", jitter.hue, between(0, 0.5), "turn of the hue, by -x to x of a full circle");
}

void describe_mix(Fields& fields, MixConfig& mix) {
  fields.number("mixup", mix.mixup, between(0, 100),
                "a of Beta(a, a), which the other's share s comes from: each value becomes (1 - s) "
                "times its own plus s times the other's; 0: not in this way");
  fields.number("cutmix", mix.cutmix, between(0, 100),
                "a of Beta(a, a), which s comes from: the rows and columns within sqrt(s) / 2 of "
                "height and width from a pixel, each as likely, are the other's, whose share is "
                "their part of the area; 0: not in this way");
  fields.number("probability", mix.probability, between(0, 1), "of a sample to be mixed at all");
}

}  // namespace

void TransformConfig::describe(Fields& fields) {
  fields.option("orientation", orientation, {"apply", "ignore"},
                "whether a JPEG is turned as its EXIF orientation says, before all else");
  fields.pair("resize", resize, between(0, kMostPixels),
              "height and width to resize to; 0: as it is");
  fields.integer("resize_short", resize_short, between(0, kMostPixels),
                 "length to resize the shorter side to, aspect kept; 0: as it is");
  fields.integer("padding", padding, between(0, kMostPixels),
                 "black pixels added on each side before the crop");
  fields.pair("crop", crop, between(0, kMostPixels),
              "height and width to cut out: anywhere in training, the centre in testing");
  fields.object(
      "random_resized_crop",
      [&](Fields& inner) { describe_random_resized_crop(inner, random_resized_crop); },
      "a random part of the image, resized; in testing the centre 7/8 of the shorter side",
      Presence::kOptional, &random_resized_crop.present);
  fields.boolean("mirror", mirror,
                 "left and right are swapped in one half of the training samples");
  fields.object(
      "jitter", [&](Fields& inner) { describe_jitter(inner, jitter); },
      "random brightness, contrast, saturation and hue in training, in random order",
      Presence::kOptional, &jitter.present);
  fields.numbers("mean", mean, {}, "subtracted from pixels of 0 to 255: one, or one per channel");
  fields.numbers("std", std_dev, kPositive,
                 "divisor of what is left, in pixel units: one, or one per channel");
  fields.number("scale", scale, {}, "factor of what is left");
  fields.text("mean_image", mean_image, "PFM file subtracted from each image in place of \"mean\"");
  fields.object(
      "mix", [&](Fields& inner) { describe_mix(inner, mix); },
      "each training sample is mixed with another of the set, each as likely, as that one is "
      "prepared in the same epoch: by functions of seed, epoch and sample; where both ways are "
      "above 0, by each for one half of the samples. softmax_loss takes both labels by their "
      "shares, accuracy the one of the larger share; other layers that read labels are refused",
      Presence::kOptional, &mix.present);
}

}  // namespace poseidon::data
