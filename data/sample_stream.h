#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/auxiliary_input.h"
#include "data/sample.h"

namespace poseidon::data {

/// A sequence of labeled samples, the input of packing.
class SampleStream {
 public:
  virtual ~SampleStream() = default;
  /// Fills a sample and its name; returns false at the end. `sample.bytes` is valid until the next
  /// call. Throws CorruptSample if a sample cannot be used; the next call continues after it.
  /// Throws RunError if nothing more can be read.
  virtual bool next(std::string& name, Sample& sample) = 0;
  /// Returns the file or folder of the last sample, for messages.
  virtual std::string source() const = 0;
  /// Returns the number of samples; 0 if unknown before the end.
  virtual int64_t size() const { return 0; }
  /// Returns the class names. A label is an index into them. Empty if labels are plain numbers.
  virtual std::vector<std::string> classes() const { return {}; }
  /// Returns the names and shapes of the auxiliary inputs of the last sample.
  virtual std::vector<AuxiliaryInput> extras() const { return {}; }
};

using OpenStream = std::function<std::unique_ptr<SampleStream>()>;

/// Chains several streams. Opens the first stream immediately, and each other stream when the
/// previous one has ended. The chain has no class names, and its size is unknown if there are
/// several streams.
std::unique_ptr<SampleStream> make_chain(std::vector<OpenStream> parts);

/// Upper bound (exclusive) of labels that are plain numbers.
inline constexpr int64_t kMaxNumberedClasses = 1'000'000;

/// Returns `label` as a sample's label. Throws CorruptSample "NAME: ..." if it is not in 0 ...
/// kMaxNumberedClasses - 1.
int32_t checked_label(int64_t label, const std::string& name);

/// Parses a decimal label and ignores blanks around it. Throws CorruptSample like checked_label().
int32_t parse_label(std::string_view written, const std::string& name);

}  // namespace poseidon::data
