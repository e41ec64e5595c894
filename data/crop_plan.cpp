#include "data/crop_plan.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace poseidon::data {

namespace {

int64_t rounded(double value) { return std::max<int64_t>(1, std::llround(value)); }

/// Draws a random region. Its area and the logarithm of its aspect ratio have uniform
/// distributions. If none of ten attempts fits the image, returns a centered region. Its aspect
/// ratio is the allowed ratio nearest to the image's ratio, and its size is the largest possible.
Box random_box(const TransformConfig::RandomResizedCrop& crop, int64_t height, int64_t width,
               RandomStream& random) {
  const double whole = static_cast<double>(height) * static_cast<double>(width);
  const double low = std::log(crop.aspect.front()), high = std::log(crop.aspect.back());
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double part = crop.area.front() + (crop.area.back() - crop.area.front()) *
                                                static_cast<double>(random.next_uniform());
    const double aspect = std::exp(low + (high - low) * static_cast<double>(random.next_uniform()));
    const int64_t box_width = rounded(std::sqrt(whole * part * aspect));
    const int64_t box_height = rounded(std::sqrt(whole * part / aspect));
    const uint32_t place_y = random.next_word(), place_x = random.next_word();
    if (box_width > width || box_height > height) continue;
    const auto placed = [](uint32_t word, int64_t room) {
      return static_cast<int64_t>((word * static_cast<uint64_t>(room + 1)) >> 32);
    };
    return {placed(place_y, height - box_height), placed(place_x, width - box_width), box_height,
            box_width};
  }
  const double aspect = std::clamp(static_cast<double>(width) / static_cast<double>(height),
                                   crop.aspect.front(), crop.aspect.back());
  const int64_t box_width = std::min(width, rounded(static_cast<double>(height) * aspect));
  const int64_t box_height = std::min(height, rounded(static_cast<double>(width) / aspect));
  return {(height - box_height) / 2, (width - box_width) / 2, box_height, box_width};
}

Box center_box(int64_t height, int64_t width) {
  const int64_t side = rounded(static_cast<double>(std::min(height, width)) * 0.875);
  return {(height - side) / 2, (width - side) / 2, side, side};
}

CropPlan plan_of_box(const Box& box, const std::array<int64_t, 2>& size) {
  CropPlan plan;
  plan.height = plan.scaled_height = size[0];
  plan.width = plan.scaled_width = size[1];
  plan.step_y = static_cast<double>(box.height) / static_cast<double>(size[0]);
  plan.step_x = static_cast<double>(box.width) / static_cast<double>(size[1]);
  plan.origin_y = static_cast<double>(box.top);
  plan.origin_x = static_cast<double>(box.left);
  plan.used = box;
  return plan;
}

std::array<int64_t, 2> scaled_size(const TransformConfig& config, int64_t height, int64_t width) {
  if (config.resize[0] > 0) return config.resize;
  if (config.resize_short == 0) return {height, width};
  const auto scaled = [&](int64_t extent) {
    return rounded(static_cast<double>(extent) * static_cast<double>(config.resize_short) /
                   static_cast<double>(std::min(height, width)));
  };
  return {scaled(height), scaled(width)};
}

/// Returns the first row or column of the crop, relative to the scaled image without padding. It
/// may be negative. `wanted` is the size of the crop on this axis, `extent` the size of the scaled
/// image. The crop is centered if `random` is null.
int64_t place(int64_t extent, int64_t wanted, int64_t padding, RandomStream* random) {
  const int64_t room = extent + 2 * padding - wanted;
  const int64_t offset =
      random != nullptr ? random->next_below(static_cast<uint32_t>(room + 1)) : room / 2;
  return offset - padding;
}

}  // namespace

CropPlan plan_crop(const TransformConfig& config, int64_t height, int64_t width,
                   RandomStream* random, const SampleName& name) {
  if (config.random_resized_crop.present) {
    const auto& crop = config.random_resized_crop;
    return plan_of_box(
        random != nullptr ? random_box(crop, height, width, *random) : center_box(height, width),
        crop.size);
  }
  const auto [scaled_height, scaled_width] = scaled_size(config, height, width);
  CropPlan plan = plan_of_box({0, 0, height, width}, {scaled_height, scaled_width});
  const int64_t padding = config.padding;
  plan.height = config.crop[0] > 0 ? config.crop[0] : scaled_height + 2 * padding;
  plan.width = config.crop[0] > 0 ? config.crop[1] : scaled_width + 2 * padding;
  if (plan.height > scaled_height + 2 * padding || plan.width > scaled_width + 2 * padding)
    throw ConfigError(
        text(name(), ": the transform's crop of ", plan.height, "x", plan.width,
             " does not fit the image of ", scaled_height + 2 * padding, "x",
             scaled_width + 2 * padding, padding > 0 ? " with its padding" : "",
             "; set \"resize_short\" in the transform to enlarge small images before the crop"));
  plan.top = place(scaled_height, plan.height, padding, random);
  plan.left = place(scaled_width, plan.width, padding, random);
  return plan;
}

}  // namespace poseidon::data
