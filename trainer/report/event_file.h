#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/file.h"

namespace poseidon::trainer {

/// A scalar by the name that TensorBoard shows: {"train/loss", 0.3}.
using Scalar = std::pair<std::string, double>;

/// An event file that TensorBoard reads: TFRecords of Event messages (tensorflow/core/util/
/// event.proto), encoded here by hand.
class EventFile {
 public:
  /// Makes "events.out.tfevents.<seconds>.poseidon" in `folder`. Its name sorts after those of all
  /// event files that are there: TensorBoard reads them in the order of their names.
  EventFile(const std::filesystem::path& folder, double seconds_since_1970);
  /// A session begins with step `first_step`: TensorBoard drops all points of this and later steps
  /// that earlier sessions have written.
  void begin_session(int64_t first_step, double seconds_since_1970);
  void add(int64_t step, double seconds_since_1970, std::span<const Scalar> scalars);

 private:
  AppendFile file_;
};

/// One TFRecord: length, its masked checksum, data, its masked checksum.
std::string tf_record(const std::string& data);
/// One Event message with a SessionLog of status START.
std::string session_message(int64_t first_step, double seconds);
/// One Event message with a summary of scalars.
std::string event_message(int64_t step, double seconds, std::span<const Scalar> scalars);

}  // namespace poseidon::trainer
