#include "layers/filler.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/error.h"

namespace poseidon::layers {

namespace {

/// In the order of FillerType.
const std::vector<std::string>& filler_names() {
  static const std::vector<std::string> kNames{
      "constant", "uniform", "gaussian", "xavier", "he", "positive_unitball", "bilinear"};
  return kNames;
}

}  // namespace

void Filler::describe(Fields& fields) {
  const auto& names = filler_names();
  std::string name = names[static_cast<size_t>(type)];
  const auto nothing = [](Fields&) {};
  fields.variant(
      "type", name,
      {{"constant", "one value", [this](Fields& f) { f.number("value", value, {}, "value"); }},
       {"uniform", "uniform in [minimum, maximum)",
        [this](Fields& f) {
          f.number("minimum", minimum, {}, "lower bound");
          f.number("maximum", maximum, {}, "upper bound");
        }},
       {"gaussian", "normal distribution",
        [this](Fields& f) {
          f.number("mean", mean, {}, "mean");
          f.number("deviation", deviation, at_least(0), "standard deviation");
          f.integer("sparse", sparse, at_least(0),
                    "average number of nonzero weights per input; 0: all");
        }},
       {"xavier", "uniform in +-sqrt(3 / fan-in)", nothing},
       {"he", "normal with variance 2 / fan-in", nothing},
       {"positive_unitball", "uniform in [0, 1), normalized to sum 1 per output", nothing},
       {"bilinear", "bilinear upsampling; needs square kernels", nothing}},
      "distribution");
  type = static_cast<FillerType>(std::find(names.begin(), names.end(), name) - names.begin());
}

std::string Filler::problem_with(const Shape& shape) const {
  if (type == FillerType::kUniform && minimum > maximum)
    return text("expected \"minimum\" <= \"maximum\", got ", minimum, " and ", maximum);
  if (type == FillerType::kBilinear && (shape.rank() != 4 || shape[2] != shape[3]))
    return text("\"bilinear\" requires a weight with square kernels, got ", shape.text());
  return {};
}

namespace {

void fill_uniform(std::span<float> values, double low, double high, RandomStream& random) {
  for (float& value : values)
    value = random.next_uniform(static_cast<float>(low), static_cast<float>(high));
}

/// Box-Muller transform, two values at a time.
void fill_gaussian(std::span<float> values, double mean, double deviation, RandomStream& random) {
  for (size_t i = 0; i < values.size(); i += 2) {
    const double radius = std::sqrt(-2 * std::log(1 - static_cast<double>(random.next_uniform())));
    const double angle = 2 * std::numbers::pi * static_cast<double>(random.next_uniform());
    values[i] = static_cast<float>(mean + deviation * radius * std::cos(angle));
    if (i + 1 < values.size())
      values[i + 1] = static_cast<float>(mean + deviation * radius * std::sin(angle));
  }
}

/// Sets each value to zero with probability 1 - `probability`.
void make_sparse(std::span<float> values, double probability, RandomStream& random) {
  for (float& value : values)
    if (static_cast<double>(random.next_uniform()) >= probability) value = 0;
}

void fill_unitball(std::span<float> values, int64_t outputs, RandomStream& random) {
  fill_uniform(values, 0, 1, random);
  const size_t each = values.size() / static_cast<size_t>(std::max<int64_t>(outputs, 1));
  for (size_t first = 0; first < values.size(); first += each) {
    const auto output = values.subspan(first, each);
    double sum = 0;
    for (const float value : output) sum += static_cast<double>(value);
    for (float& value : output) value = static_cast<float>(static_cast<double>(value) / sum);
  }
}

/// Fills kernels of `size` x `size` elements. An element is the product of two weights, one for
/// each axis. A weight is 1 minus the distance from the center, in units of `factor` pixels.
void fill_bilinear(std::span<float> values, int64_t size) {
  const double factor = static_cast<double>((size + 1) / 2);
  const double middle = static_cast<double>(size - 1) / (2 * factor);
  const auto weight = [&](int64_t i) {
    return 1 - std::abs(static_cast<double>(i) / factor - middle);
  };
  for (size_t i = 0; i < values.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    values[i] = static_cast<float>(weight(at % size) * weight(at / size % size));
  }
}

}  // namespace

void Filler::fill(std::span<float> values, const Shape& shape, int64_t fan_in,
                  RandomStream& random) const {
  const double fan = static_cast<double>(fan_in);
  switch (type) {
    case FillerType::kConstant:
      for (float& element : values) element = static_cast<float>(value);
      return;
    case FillerType::kUniform: return fill_uniform(values, minimum, maximum, random);
    case FillerType::kGaussian:
      fill_gaussian(values, mean, deviation, random);
      if (sparse > 0)
        make_sparse(values, static_cast<double>(sparse) / static_cast<double>(shape[0]), random);
      return;
    case FillerType::kXavier:
      return fill_uniform(values, -std::sqrt(3 / fan), std::sqrt(3 / fan), random);
    case FillerType::kHe: return fill_gaussian(values, 0, std::sqrt(2 / fan), random);
    case FillerType::kPositiveUnitball: return fill_unitball(values, shape[0], random);
    case FillerType::kBilinear: return fill_bilinear(values, shape[3]);
  }
}

Filler Filler::constant(double value) {
  Filler filler;
  filler.value = value;
  return filler;
}

Filler Filler::of(FillerType type) {
  Filler filler;
  filler.type = type;
  return filler;
}

}  // namespace poseidon::layers
