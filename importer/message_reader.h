#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "importer/remarks.h"
#include "importer/text_message.h"

namespace poseidon::importer {

/// Range of allowed integers.
struct IntegerRange {
  int64_t least = std::numeric_limits<int64_t>::min();
  int64_t most = std::numeric_limits<int64_t>::max();
};
inline constexpr IntegerRange kAnyInteger{};
/// Range of counts and extents in a network.
inline constexpr IntegerRange kExtent{.least = 0, .most = int64_t{1} << 31};

/// Reads the fields of one TextMessage by name and type, and marks each requested field as read.
/// has() and place_of() mark no field. All errors are ConfigErrors with file, line and column. The
/// message must outlive the reader.
class MessageReader {
 public:
  /// A null `message` is an empty message at `place`.
  MessageReader(const TextMessage* message, Place place) : message_(message), place_(place) {}

  bool has(std::string_view name) const { return find(name) != nullptr; }
  /// Returns the position of the field, or of the message if the field is not set.
  Place place_of(std::string_view name) const;
  const Place& place() const { return place_; }

  std::optional<int64_t> integer(std::string_view name, IntegerRange range = kAnyInteger) const;
  std::optional<double> number(std::string_view name) const;
  std::optional<bool> boolean(std::string_view name) const;
  std::optional<std::string> text(std::string_view name) const;
  /// Reads a word of an enumeration and returns it. The file may instead contain the word's index
  /// in `words`.
  std::optional<std::string> word(std::string_view name,
                                  const std::vector<std::string>& words) const;

  std::vector<int64_t> integers(std::string_view name, IntegerRange range = kAnyInteger) const;
  std::vector<double> numbers(std::string_view name) const;
  std::vector<std::string> texts(std::string_view name) const;
  /// Reads the words or numbers of a field as text.
  std::vector<std::string> words(std::string_view name) const;

  /// Returns the message in the field; an empty message if the field is not set.
  MessageReader message(std::string_view name) const;
  std::vector<MessageReader> messages(std::string_view name) const;

  /// Marks fields as read, with all fields of their messages.
  void mark_as_read(std::initializer_list<std::string_view> names) const;
  void mark_all_as_read() const;
  /// Refuses (Remarks::refuse) every unread field of the message and of the messages in it.
  void refuse_unread(Remarks& remarks) const;

 private:
  std::vector<const TextField*> all(std::string_view name) const;
  /// Returns the field of this name; null if it is not set. Throws ConfigError if it is set twice.
  const TextField* one(std::string_view name) const;
  const TextField* find(std::string_view name) const;
  Place at(Position position) const { return {place_.file, position}; }
  MessageReader message_of(const TextField& field) const;

  const TextMessage* message_;
  Place place_;
};

}  // namespace poseidon::importer
