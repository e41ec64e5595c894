#include "data/mix.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "core/philox.h"

namespace poseidon::data {

namespace {

/// Returns a uniform random number in the open interval (0, 1). Its logarithm is finite.
double next_open(RandomStream& random) {
  return (static_cast<double>(random.next_word()) + 0.5) * 0x1p-32;
}

/// Returns a standard normal random number, by the method of Box and Muller.
double next_normal(RandomStream& random) {
  const double radius = std::sqrt(-2 * std::log(next_open(random)));
  return radius * std::cos(2 * std::numbers::pi * next_open(random));
}

/// Returns the logarithm of a Gamma(shape, 1) random number (Marsaglia and Tsang, "A Simple Method
/// for Generating Gamma Variables", 2000). Returns the logarithm because, for a small shape, the
/// number itself may underflow a double.
double next_log_gamma(RandomStream& random, double shape) {
  if (shape < 1) return next_log_gamma(random, shape + 1) + std::log(next_open(random)) / shape;
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  while (true) {
    const double x = next_normal(random), root = 1 + c * x;
    if (root <= 0) continue;
    const double v = root * root * root;
    if (std::log(next_open(random)) < x * x / 2 + d * (1 - v + std::log(v))) return std::log(d * v);
  }
}

/// Returns a Beta(a, a) random number: x / (x + y) for two Gamma(a, 1) random numbers x and y.
double next_lambda(RandomStream& random, double a) {
  const double one = next_log_gamma(random, a), other = next_log_gamma(random, a);
  return 1 / (1 + std::exp(other - one));
}

/// Returns first and count of the rows or columns of a rectangle centered at `middle`. The
/// rectangle's length is `part` of `extent`, clipped to the image.
std::array<int64_t, 2> cut(int64_t extent, int64_t middle, double part) {
  const auto half = static_cast<int64_t>(static_cast<double>(extent) * part / 2);
  const int64_t begin = std::max<int64_t>(middle - half, 0);
  return {begin, std::min(middle + half, extent) - begin};
}

}  // namespace

// Draws lambda last, because it needs a variable count of random words. So the options do not
// change the other draws.
std::optional<MixDecision> Mixer::draw(SampleKey key) const {
  RandomStream random(seed_, RandomPurpose::kMixing, key.epoch, key.index);
  const bool mixed = static_cast<double>(random.next_uniform()) < config_.probability;
  const bool second_way = (random.next_word() >> 31) != 0;
  const uint64_t high = random.next_word(), low = random.next_word();
  const auto middle_y = random.next_below(static_cast<uint32_t>(output_[1]));
  const auto middle_x = random.next_below(static_cast<uint32_t>(output_[2]));
  if (!mixed || samples_ < 2) return std::nullopt;
  const uint64_t others = static_cast<uint64_t>(samples_) - 1;
  MixDecision decision{.second_sample =
                           static_cast<int64_t>((key.index + 1 + (high << 32 | low) % others) %
                                                static_cast<uint64_t>(samples_))};
  const bool cuts = config_.cutmix > 0 && (config_.mixup == 0 || second_way);
  decision.lambda = next_lambda(random, cuts ? config_.cutmix : config_.mixup);
  if (cuts) {
    const double side = std::sqrt(decision.lambda);
    const auto rows = cut(output_[1], middle_y, side), columns = cut(output_[2], middle_x, side);
    decision.part = Box{rows[0], columns[0], rows[1], columns[1]};
    decision.lambda =
        static_cast<double>(rows[1] * columns[1]) / static_cast<double>(output_[1] * output_[2]);
  }
  return decision;
}

void Mixer::mix(const MixDecision& decision, std::span<const float> second_sample,
                std::span<float> values) const {
  if (!decision.part) {
    const auto lambda = static_cast<float>(decision.lambda), rest = 1 - lambda;
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = rest * values[i] + lambda * second_sample[i];
    return;
  }
  const Box& part = *decision.part;
  for (int64_t c = 0; c < output_[0]; ++c)
    for (int64_t y = part.top; y < part.top + part.height; ++y) {
      const int64_t first = (c * output_[1] + y) * output_[2] + part.left;
      std::copy_n(second_sample.begin() + first, part.width, values.begin() + first);
    }
}

}  // namespace poseidon::data
