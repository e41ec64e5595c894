#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "comm/wire/codec.h"

/// How gradients are summed and sent: enums with names. Each enum has one table of names, in the
/// order of its values, for files and messages.
namespace poseidon::comm {

/// How a layer's gradient is summed.
enum class Scheme : uint8_t { kLocal, kPs, kSfb };

/// The data that a worker sends, or receives, for one layer in a step.
enum class Content : uint8_t {
  kNothing,
  kTensors,  ///< gradients of the parameters, to or from servers
  kFactors,  ///< the factors of the weight's gradient, to or from the other workers
};

/// A row of the table of schemes. Code that depends on the scheme of a layer uses these properties.
/// comm/plan/scheme_costs.h has the costs of schemes.
struct SchemeTraits {
  Scheme scheme;
  const char* name;
  Content sends, receives;  ///< of a worker

  /// Whether servers sum the gradients of the layer's parameters.
  constexpr bool uses_servers() const { return receives == Content::kTensors; }
  constexpr bool sends_factors() const { return sends == Content::kFactors; }
  /// Whether each worker computes the gradient of the weight from all workers' factors.
  constexpr bool rebuilds() const { return receives == Content::kFactors; }
};
inline constexpr std::array kSchemes{
    SchemeTraits{Scheme::kLocal, "local", Content::kNothing, Content::kNothing},
    SchemeTraits{Scheme::kPs, "ps", Content::kTensors, Content::kTensors},
    SchemeTraits{Scheme::kSfb, "sfb", Content::kFactors, Content::kFactors}};
constexpr const SchemeTraits& traits_of(Scheme scheme) {
  return kSchemes[static_cast<size_t>(scheme)];
}

/// The scheme of a layer without factors.
constexpr Scheme scheme_without_factors(int64_t workers) {
  return workers == 1 ? Scheme::kLocal : Scheme::kPs;
}

/// The schemes in which workers send.
inline constexpr std::array kSendingSchemes{Scheme::kPs, Scheme::kSfb};

/// A value for each scheme.
template <class Value>
class ByScheme {
 public:
  Value& operator[](Scheme scheme) { return values_[static_cast<size_t>(scheme)]; }
  const Value& operator[](Scheme scheme) const { return values_[static_cast<size_t>(scheme)]; }

 private:
  std::array<Value, kSchemes.size()> values_{};
};

/// How many of the two ends of a transfer are workers.
constexpr int worker_ends(Scheme scheme) { return traits_of(scheme).uses_servers() ? 1 : 2; }

/// The scheme setting of a job, or of a layer in a network file.
enum class SchemeRule : uint8_t { kAuto, kPs, kSfb };

/// The quantity that SchemeRule::kAuto minimizes.
enum class Policy : uint8_t { kBytes, kTime };

/// When a worker waits for sums.
/// - kPriority: before a layer's next forward pass, for that layer's sums
/// - kBarrier: at the end of a step, for all sums
/// - kNone: as kBarrier, and nothing is sent before the end of the backward pass
enum class Overlap : uint8_t { kPriority, kBarrier, kNone };

/// The table of the names of an enum's values.
template <class Enum>
const std::vector<std::string>& names_of();
template <>
const std::vector<std::string>& names_of<Scheme>();
template <>
const std::vector<std::string>& names_of<SchemeRule>();
template <>
const std::vector<std::string>& names_of<Policy>();
template <>
const std::vector<std::string>& names_of<Overlap>();
template <>
const std::vector<std::string>& names_of<WireFormat>();

/// The names in files: "ps", "barrier".
const std::string& name_of(Scheme scheme);
const std::string& name_of(SchemeRule rule);
const std::string& name_of(Policy policy);
const std::string& name_of(Overlap overlap);
const std::string& name_of(WireFormat format);

/// The key of a scheme's transferred bytes, in files and notes: "ps_bytes".
std::string bytes_key(Scheme scheme);

/// The rule with this name.
SchemeRule scheme_rule(const std::string& name);
/// The scheme with the name of this rule, which is not kAuto.
Scheme scheme_of(SchemeRule rule);

}  // namespace poseidon::comm
