#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "importer/text_tokens.h"

namespace poseidon::importer {

struct TextField;

/// A message in protobuf's text format, parsed without knowledge of its schema.
struct TextMessage {
  Position position;
  std::vector<TextField> fields;  ///< in file order; one field for each element of a [...] list
};

struct TextField {
  std::string name;
  Position position;
  Token value;                           ///< for a message, only the position is valid
  std::unique_ptr<TextMessage> message;  ///< null: not a message
  /// True if a reader has requested the field. MessageReader::refuse_unread() reports the fields
  /// that stay unread.
  mutable bool read = false;
};

/// Parses a file in protobuf's text format. Throws ConfigError with file, line and column if the
/// text is malformed or nested deeper than 64 levels.
TextMessage parse_text_message(std::string_view content, const std::string& file);

}  // namespace poseidon::importer
