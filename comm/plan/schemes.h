#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "comm/wire/wire_codec.h"

/// How gradients are summed and sent: enums with names. Each enum has one table of names, in the
/// order of its values, for files and messages.
namespace poseidon::comm {

/// How a layer's gradient is summed.
enum class Scheme : uint8_t { kLocal, kPs, kSfb };
inline constexpr std::array kSchemes{Scheme::kLocal, Scheme::kPs, Scheme::kSfb};
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
inline constexpr int worker_ends(Scheme scheme) { return scheme == Scheme::kSfb ? 2 : 1; }

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
const std::vector<std::string>& names_of<DataType>();

/// The names in files: "ps", "barrier".
const std::string& name_of(Scheme scheme);
const std::string& name_of(SchemeRule rule);
const std::string& name_of(Policy policy);
const std::string& name_of(Overlap overlap);
const std::string& name_of(DataType number);

/// The key of a scheme's transferred bytes, in files and notes: "ps_bytes".
std::string bytes_key(Scheme scheme);

/// The rule with this name.
SchemeRule scheme_rule(const std::string& name);

}  // namespace poseidon::comm
