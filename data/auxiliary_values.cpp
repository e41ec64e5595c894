#include "data/auxiliary_values.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"

namespace poseidon::data {

AuxiliaryValues::AuxiliaryValues(const DatasetDescription& data,
                                 std::span<const AuxiliaryInput> wanted) {
  const auto size_of = [](std::span<const AuxiliaryInput> extras) {
    return static_cast<size_t>(count_of(extras)) * sizeof(float);
  };
  const std::span<const AuxiliaryInput> there = data.extras;
  bytes_ = size_of(there);
  for (const AuxiliaryInput& extra : wanted) {
    const auto found = std::ranges::find(there, extra.name, &AuxiliaryInput::name);
    if (found == there.end())
      throw ConfigError(text(data.source, ": expected an extra \"", extra.name, "\" of shape ",
                             extra.shape().text(), " for the network input of that name, got ",
                             text_of(there)));
    if (found->extents != extra.extents)
      throw ConfigError(text(data.source, ": extra \"", extra.name, "\": expected shape ",
                             extra.shape().text(), " for the network input of that name, got ",
                             found->shape().text()));
    const auto before = static_cast<size_t>(found - there.begin());
    const auto count = static_cast<size_t>(extra.count());
    parts_.push_back({.from = size_of(there.first(before)), .count = count, .before = count_});
    count_ += count;
  }
}

std::span<const std::byte> AuxiliaryValues::bytes_of(const Part& part, const Sample& sample) const {
  check(sample.extras.size() == bytes_, "a sample has the extras of its dataset");
  return sample.extras.subspan(part.from, part.count * sizeof(float));
}

std::span<float> AuxiliaryValues::values_of(const Part& part, const Place& place) {
  return place.batch.subspan(part.before * place.samples + part.count * place.sample, part.count);
}

void AuxiliaryValues::put(const Sample& sample, const Place& place) const {
  for (const Part& part : parts_)
    std::ranges::copy(bytes_of(part, sample),
                      std::as_writable_bytes(values_of(part, place)).begin());
}

void AuxiliaryValues::clear(const Place& place) const {
  for (const Part& part : parts_) std::ranges::fill(values_of(part, place), 0.0F);
}

void AuxiliaryValues::mix(const Sample& second_sample, double lambda, const Place& place) const {
  const auto second = static_cast<float>(lambda), first = 1 - second;
  for (const Part& part : parts_) {
    const std::span<const std::byte> bytes = bytes_of(part, second_sample);
    const std::span<float> values = values_of(part, place);
    for (size_t i = 0; i < values.size(); ++i) {
      float other = 0;
      std::memcpy(&other, &bytes[i * sizeof other], sizeof other);
      values[i] = first * values[i] + second * other;
    }
  }
}

}  // namespace poseidon::data
