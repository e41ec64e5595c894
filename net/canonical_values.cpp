#include "net/canonical_values.h"

#include <string_view>

#include "core/error.h"
#include "core/staged.h"

namespace poseidon::net {

namespace {

/// FNV-1a. The hash of a name must be the same on every machine, so std::hash is not usable.
uint64_t name_hash(std::string_view name) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  return hash;
}

}  // namespace

void CanonicalValues::initialize(uint64_t seed) {
  for (const Parameter& parameter : parameters_) {
    std::vector<float> canonical(static_cast<size_t>(parameter.spec.shape.count()));
    RandomStream random(seed, RandomPurpose::kInitialization, name_hash(parameter.name), 0);
    parameter.spec.filler.fill(canonical, parameter.spec.shape, parameter.spec.fan_in, random);
    set_canonical(parameter, canonical);
  }
  for (const Statistic& statistic : parameters_.statistics()) {
    const std::vector<float> initial(statistic.value().size(), statistic.spec.initial);
    device_.write(std::as_bytes(std::span(initial)), std::as_writable_bytes(statistic.value()));
  }
}

std::vector<float> CanonicalValues::canonical(const Parameter& parameter) const {
  std::vector<float> out(static_cast<size_t>(parameter.spec.shape.count()));
  read_packed(parameter, parameter.value(), out);
  return out;
}

void CanonicalValues::set_canonical(const Parameter& parameter, std::span<const float> values) {
  check(static_cast<int64_t>(values.size()) == parameter.spec.shape.count(),
        "the values cover the whole parameter");
  write_packed(parameter, values, parameter.value());
}

void CanonicalValues::write_packed(const Parameter& parameter, std::span<const float> canonical,
                                   std::span<float> packed) const {
  const StagedInput staged(device_, canonical);
  parameters_.layer_of(parameter).pack(parameter.index, staged.memory().data(), packed.data());
}

void CanonicalValues::read_packed(const Parameter& parameter, std::span<const float> packed,
                                  std::span<float> canonical) const {
  StagedOutput staged(device_, canonical);
  parameters_.layer_of(parameter).unpack(parameter.index, packed.data(), staged.memory().data());
  staged.finish();
}

bool CanonicalValues::canonical_is_packed(const Parameter& parameter) const {
  return parameters_.layer_of(parameter).packed_is_canonical(parameter.index);
}

void CanonicalValues::canonical_gradient(const Parameter& parameter, std::span<float> out) const {
  check(static_cast<int64_t>(out.size()) == parameter.spec.shape.count(),
        "the caller must read the whole gradient");
  parameters_.layer_of(parameter).unpack(parameter.index, parameter.gradient.data(), out.data());
}

void CanonicalValues::canonical_value(const Parameter& parameter, std::span<float> out) const {
  check(static_cast<int64_t>(out.size()) == parameter.spec.shape.count(),
        "the caller reads the whole parameter");
  parameters_.layer_of(parameter).unpack(parameter.index, parameter.value().data(), out.data());
}

void CanonicalValues::gradient_from_canonical(const Parameter& parameter,
                                              std::span<const float> values) {
  check(static_cast<int64_t>(values.size()) == parameter.spec.shape.count(),
        "the values cover the whole gradient");
  parameters_.layer_of(parameter).pack(parameter.index, values.data(), parameter.gradient.data());
}

}  // namespace poseidon::net
