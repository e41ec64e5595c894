#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/file.h"

namespace poseidon::trainer {

/// A scalar under its TensorBoard name: {"train/loss", 0.3}.
using Scalar = std::pair<std::string, double>;

/// An event file for TensorBoard: TFRecords of Event messages (tensorflow/core/util/event.proto).
/// Encoded here, without a protobuf library.
class EventFile {
 public:
  /// Creates "events.out.tfevents.<seconds>.poseidon" in `folder`. The name sorts after all
  /// existing event files, because TensorBoard reads them in the order of their names.
  EventFile(const std::filesystem::path& folder, double seconds_since_1970);
  /// Writes that a session begins with step `first_step`. TensorBoard then drops the points that
  /// earlier sessions wrote for this step and later steps.
  void begin_session(int64_t first_step, double seconds_since_1970);
  void add(int64_t step, double seconds_since_1970, std::span<const Scalar> scalars);

 private:
  AppendFile file_;
};

/// One TFRecord: length, masked checksum of the length, data, masked checksum of the data.
std::string tf_record(const std::string& data);
/// One Event message with a SessionLog of status START.
std::string session_message(int64_t first_step, double seconds);
/// One Event message with a summary of scalars.
std::string event_message(int64_t step, double seconds, std::span<const Scalar> scalars);

}  // namespace poseidon::trainer
