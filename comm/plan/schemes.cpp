#include "comm/plan/schemes.h"

#include <algorithm>

#include "core/error.h"

namespace poseidon::comm {

namespace {

using Names = std::vector<std::string>;

template <class Enum>
const std::string& name_in_table(Enum value) {
  return names_of<Enum>()[static_cast<size_t>(value)];
}

}  // namespace

template <>
const Names& names_of<Scheme>() {
  static const Names kNames = [] {
    Names names;
    for (const SchemeTraits& scheme : kSchemes) names.emplace_back(scheme.name);
    return names;
  }();
  return kNames;
}

template <>
const Names& names_of<SchemeRule>() {
  static const Names kNames{"auto", "ps", "sfb"};
  return kNames;
}

template <>
const Names& names_of<Policy>() {
  static const Names kNames{"bytes", "time"};
  return kNames;
}

template <>
const Names& names_of<Overlap>() {
  static const Names kNames{"priority", "barrier", "none"};
  return kNames;
}

template <>
const Names& names_of<WireFormat>() {
  static const Names kNames{"fp32", "bf16", "int8"};
  return kNames;
}

const std::string& name_of(Scheme scheme) { return name_in_table(scheme); }
const std::string& name_of(SchemeRule rule) { return name_in_table(rule); }
const std::string& name_of(Policy policy) { return name_in_table(policy); }
const std::string& name_of(Overlap overlap) { return name_in_table(overlap); }
const std::string& name_of(WireFormat format) { return name_in_table(format); }

std::string bytes_key(Scheme scheme) { return name_of(scheme) + "_bytes"; }

Scheme scheme_of(SchemeRule rule) {
  const auto found = std::ranges::find(kSchemes, name_of(rule), &SchemeTraits::name);
  check(found != kSchemes.end(), "this rule names no scheme");
  return found->scheme;
}

SchemeRule scheme_rule(const std::string& name) {
  const Names& names = names_of<SchemeRule>();
  const auto found = std::ranges::find(names, name);
  check(found != names.end(), "unknown name of a scheme");
  return static_cast<SchemeRule>(found - names.begin());
}

}  // namespace poseidon::comm
