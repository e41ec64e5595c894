#include "layers/filler.h"

#include <cmath>
#include <numbers>

namespace poseidon::layers {

void Filler::describe(Fields& fields) {
  std::string name = std::vector<std::string>{"constant", "uniform", "gaussian", "xavier",
                                              "he"}[static_cast<size_t>(type)];
  const auto nothing = [](Fields&) {};
  fields.variant("type", name,
                 {{"constant", "all the same",
                   [this](Fields& f) { f.number("value", value, {}, "the value"); }},
                  {"uniform", "uniform in [minimum, maximum)",
                   [this](Fields& f) {
                     f.number("minimum", minimum, {}, "lower end");
                     f.number("maximum", maximum, {}, "upper end");
                   }},
                  {"gaussian", "normal distribution",
                   [this](Fields& f) {
                     f.number("mean", mean, {}, "mean");
                     f.number("deviation", deviation, at_least(0), "standard deviation");
                   }},
                  {"xavier", "uniform in +-sqrt(3 / inputs of a unit)", nothing},
                  {"he", "normal with variance 2 / inputs of a unit", nothing}},
                 "distribution");
  for (int i = 0; i < 5; ++i)
    if (name == std::vector<std::string>{"constant", "uniform", "gaussian", "xavier",
                                         "he"}[static_cast<size_t>(i)])
      type = static_cast<FillerType>(i);
}

namespace {

void fill_uniform(std::span<float> values, double low, double high, RandomStream& random) {
  for (float& value : values)
    value = random.next_uniform(static_cast<float>(low), static_cast<float>(high));
}

/// Box and Muller's method, in pairs.
void fill_gaussian(std::span<float> values, double mean, double deviation, RandomStream& random) {
  for (size_t i = 0; i < values.size(); i += 2) {
    const double radius = std::sqrt(-2 * std::log(1 - static_cast<double>(random.next_uniform())));
    const double angle = 2 * std::numbers::pi * static_cast<double>(random.next_uniform());
    values[i] = static_cast<float>(mean + deviation * radius * std::cos(angle));
    if (i + 1 < values.size())
      values[i + 1] = static_cast<float>(mean + deviation * radius * std::sin(angle));
  }
}

}  // namespace

void Filler::fill(std::span<float> values, int64_t fan_in, RandomStream& random) const {
  const double fan = static_cast<double>(fan_in);
  switch (type) {
    case FillerType::kConstant:
      for (float& element : values) element = static_cast<float>(value);
      return;
    case FillerType::kUniform: return fill_uniform(values, minimum, maximum, random);
    case FillerType::kGaussian: return fill_gaussian(values, mean, deviation, random);
    case FillerType::kXavier:
      return fill_uniform(values, -std::sqrt(3 / fan), std::sqrt(3 / fan), random);
    case FillerType::kHe: return fill_gaussian(values, 0, std::sqrt(2 / fan), random);
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
