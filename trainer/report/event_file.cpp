#include "trainer/report/event_file.h"

#include <algorithm>
#include <charconv>

#include "core/digest.h"

namespace poseidon::trainer {

namespace {

template <class T>
void put_bytes(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void put_varint(std::string& out, uint64_t value) {
  for (; value >= 128; value >>= 7) out += static_cast<char>(value | 128);
  out += static_cast<char>(value);
}

// Protocol buffers encode a field as its number and wire type, then its value. Wire types: 0
// varint, 1 eight bytes, 2 length and bytes, 5 four bytes.
void put_key(std::string& out, uint32_t field, uint32_t wire_type) {
  put_varint(out, field << 3 | wire_type);
}
void put_double(std::string& out, uint32_t field, double value) {
  put_key(out, field, 1);
  put_bytes(out, value);
}
void put_float(std::string& out, uint32_t field, float value) {
  put_key(out, field, 5);
  put_bytes(out, value);
}
void put_integer(std::string& out, uint32_t field, int64_t value) {
  put_key(out, field, 0);
  put_varint(out, static_cast<uint64_t>(value));
}
void put_text(std::string& out, uint32_t field, const std::string& value) {
  put_key(out, field, 2);
  put_varint(out, value.size());
  out += value;
}

uint32_t masked_crc(const std::string& bytes) {
  const uint32_t crc = crc32c(std::as_bytes(std::span(bytes)));
  return ((crc >> 15) | (crc << 17)) + 0xA282EAD8u;
}

constexpr std::string_view kEventPrefix = "events.out.tfevents.", kEventSuffix = ".poseidon";

/// The seconds in the name of an event file; -1 for other names.
int64_t seconds_in(const std::string& name) {
  if (!name.starts_with(kEventPrefix) || !name.ends_with(kEventSuffix)) return -1;
  int64_t seconds = -1;
  std::from_chars(name.data() + kEventPrefix.size(),
                  name.data() + name.size() - kEventSuffix.size(), seconds);
  return seconds;
}

/// Returns a path whose name sorts after all existing event files, even if the clock was set back
/// or still shows the same second.
std::filesystem::path path_in(const std::filesystem::path& folder, double now) {
  auto seconds = static_cast<int64_t>(now);
  std::error_code failure;
  for (const auto& entry : std::filesystem::directory_iterator(folder, failure))
    seconds = std::max(seconds, seconds_in(entry.path().filename().string()) + 1);
  return folder / (std::string(kEventPrefix) + std::to_string(seconds) + std::string(kEventSuffix));
}

}  // namespace

std::string tf_record(const std::string& data) {
  std::string length;
  put_bytes(length, static_cast<uint64_t>(data.size()));
  std::string out = length;
  put_bytes(out, masked_crc(length));
  out += data;
  put_bytes(out, masked_crc(data));
  return out;
}

std::string session_message(int64_t first_step, double seconds) {
  std::string session;
  put_integer(session, 1, 1);  // status: START
  std::string event;
  put_double(event, 1, seconds);
  put_integer(event, 2, first_step);
  put_text(event, 7, session);
  return event;
}

std::string event_message(int64_t step, double seconds, std::span<const Scalar> scalars) {
  std::string summary;
  for (const auto& [tag, value] : scalars) {
    std::string entry;
    put_text(entry, 1, tag);
    put_float(entry, 2, static_cast<float>(value));
    put_text(summary, 1, entry);
  }
  std::string event;
  put_double(event, 1, seconds);
  put_integer(event, 2, step);
  put_text(event, 5, summary);
  return event;
}

EventFile::EventFile(const std::filesystem::path& folder, double seconds_since_1970)
    : file_(path_in(folder, seconds_since_1970)) {
  std::string first;
  put_double(first, 1, seconds_since_1970);
  put_text(first, 3, "brain.Event:2");
  file_.append(tf_record(first));
}

void EventFile::begin_session(int64_t first_step, double seconds_since_1970) {
  file_.append(tf_record(session_message(first_step, seconds_since_1970)));
}

void EventFile::add(int64_t step, double seconds_since_1970, std::span<const Scalar> scalars) {
  file_.append(tf_record(event_message(step, seconds_since_1970, scalars)));
}

}  // namespace poseidon::trainer
