#include "net/canonical_values.h"

#include <algorithm>
#include <string_view>

#include "core/error.h"

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
  round(parameter);
}

void CanonicalValues::round(const Parameter& parameter) const {
  if (parameter.rounded.current().empty()) return;
  parameters_.layer_of(parameter).round(parameter.index, parameter.value().data(),
                                        parameter.rounded.current().data());
}

size_t CanonicalValues::bytes() const {
  int64_t most = 0;
  for (const Parameter& parameter : parameters_)
    if (needs_scratch(parameter)) most = std::max(most, parameter.spec.shape.count());
  return static_cast<size_t>(most) * sizeof(float);
}

void CanonicalValues::allocate_memory() {
  if (bytes() == 0) return;
  scratch_ = device_.allocate(bytes(), MemoryKind::kDevice, "values in canonical order");
}

/// Whether a conversion between host memory and packed order requires both a copy and a change of
/// order.
bool CanonicalValues::needs_scratch(const Parameter& parameter) const {
  return !device_.shares_memory() && !canonical_is_packed(parameter);
}

void CanonicalValues::write_packed(const Parameter& parameter, std::span<const float> canonical,
                                   std::span<float> packed) const {
  const layers::Layer& layer = parameters_.layer_of(parameter);
  if (device_.shares_memory()) return layer.pack(parameter.index, canonical.data(), packed.data());
  const std::span<float> copied = needs_scratch(parameter) ? scratch(canonical.size()) : packed;
  device_.write(std::as_bytes(canonical), std::as_writable_bytes(copied));
  if (copied.data() != packed.data()) layer.pack(parameter.index, copied.data(), packed.data());
  device_.record().wait();
}

void CanonicalValues::read_packed(const Parameter& parameter, std::span<const float> packed,
                                  std::span<float> canonical) const {
  const layers::Layer& layer = parameters_.layer_of(parameter);
  if (device_.shares_memory())
    return layer.unpack(parameter.index, packed.data(), canonical.data());
  std::span<const float> ordered = packed;
  if (needs_scratch(parameter)) {
    const std::span<float> converted = scratch(canonical.size());
    layer.unpack(parameter.index, packed.data(), converted.data());
    ordered = converted;
  }
  device_.read(std::as_bytes(ordered), std::as_writable_bytes(canonical));
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
