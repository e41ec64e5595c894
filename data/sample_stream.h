#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/extras.h"
#include "data/sample.h"

namespace poseidon::data {

/// Labelled samples one after another, as they are packed.
class SampleStream {
 public:
  virtual ~SampleStream() = default;
  /// Fills a sample and its name; false at the end. What `sample.bytes` points at stays until the
  /// next call. Throws CorruptSample for a sample that cannot be used; the next call goes on behind
  /// it. Throws RunError when nothing more can be read.
  virtual bool next(std::string& name, Sample& sample) = 0;
  /// The file or folder that the last sample came from, for messages.
  virtual std::string source() const = 0;
  /// How many samples there are; 0 where only the end tells.
  virtual int64_t size() const { return 0; }
  /// The names that labels are indices into; empty where labels are numbers and no more.
  virtual std::vector<std::string> classes() const { return {}; }
  /// What the last sample has beside image and label.
  virtual std::vector<Extra> extras() const { return {}; }
};

using OpenStream = std::function<std::unique_ptr<SampleStream>()>;

/// The samples of several streams, each opened when the one before has ended. The first is opened
/// at once.
std::unique_ptr<SampleStream> make_chain(std::vector<OpenStream> parts);

/// Labels that are numbers are below this.
inline constexpr int64_t kMostNumberedClasses = 1'000'000;

/// `label` as a sample's. Throws CorruptSample "NAME: ..." where it is not in 0 ...
/// kMostNumberedClasses - 1.
int32_t checked_label(int64_t label, const std::string& name);

/// The decimal number that `written` is, blanks around it left out; throws CorruptSample as above.
int32_t parse_label(std::string_view written, const std::string& name);

}  // namespace poseidon::data
