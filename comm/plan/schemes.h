#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "comm/wire/number_format.h"

/// How gradients are summed and sent, as choices with names; each has one table of names, in the
/// order of its values, for files and messages.
namespace poseidon::comm {

/// How a layer's gradient is summed.
enum class Scheme : uint8_t { kLocal, kPs, kSfb };
inline constexpr std::array kSchemes{Scheme::kLocal, Scheme::kPs, Scheme::kSfb};
/// The schemes by which workers send.
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

/// How many of the two ends of a byte that moves are at workers.
inline constexpr int worker_ends(Scheme scheme) { return scheme == Scheme::kSfb ? 2 : 1; }

/// What a job, or a layer of a network file, asks for.
enum class SchemeRule : uint8_t { kAuto, kPs, kSfb };

/// What SchemeRule::kAuto makes small.
enum class Policy : uint8_t { kBytes, kTime };

/// When a worker waits for sums. kPriority: for each layer's before that layer's next forward pass.
/// kBarrier: for all of them at the end of a step. kNone: likewise, and nothing is sent before the
/// end of the backward pass.
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

/// The key of the bytes that moved by a scheme, in files and notes: "ps_bytes".
std::string bytes_key(Scheme scheme);

/// The rule that has this name.
SchemeRule scheme_rule(const std::string& name);

}  // namespace poseidon::comm
